package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// beforeSwitch asks the PreModelSwitch hooks about another model, and the user if one of them wants that. An error
// means that the model is not used.
func (h *sessionHooks) beforeSwitch(ctx context.Context, source hook.Source, sw *hook.Switch,
	ask func(context.Context, Question) (Answer, error)) error {
	out := h.event(ctx, hook.Input{Event: hook.PreModelSwitch, Source: source, Switch: sw})
	switch {
	case out.Vote == hook.Deny || out.Stop:
		return fmt.Errorf("a PreModelSwitch hook refused the model %s: %s", sw.To, cmp.Or(out.Reason, out.StopReason))
	case out.Vote == hook.Ask || out.Broken:
		return confirmSwitch(ctx, sw, cmp.Or(out.Reason, "a PreModelSwitch hook asks"), ask)
	}
	return nil
}

func confirmSwitch(ctx context.Context, sw *hook.Switch, why string,
	ask func(context.Context, Question) (Answer, error)) error {
	a, err := ask(ctx, Question{Title: "Use the model " + sw.To + "?", Text: why, Asker: AskerCommand,
		Options: []Option{{ID: OptionYes, Label: "yes", Allow: true}, {ID: OptionNo, Label: "no"}}})
	if err == nil && (a.Declined || a.Option != OptionYes) {
		err = errors.New("you declined")
	}
	if err != nil {
		return fmt.Errorf("the model stays %s: %s: %w", sw.From, why, err)
	}
	return nil
}

// guardModels asks the hooks about the models that skills, agents and fallbacks bring into a turn, once about each.
func (h *sessionHooks) guardModels(log *session.Log, ask func(context.Context, Question) (Answer, error)) func(
	context.Context, agent.Switch) error {
	if h == nil {
		return nil
	}
	var mu sync.Mutex
	models := map[string]*guardedModel{}
	return func(ctx context.Context, to agent.Switch) error {
		mu.Lock()
		m := models[to.To.ID]
		if m == nil {
			m = &guardedModel{turn: make(chan struct{}, 1)}
			models[to.To.ID] = m
		}
		mu.Unlock()
		select { // agents that run at the same time may bring the same model
		case m.turn <- struct{}{}:
			defer func() { <-m.turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if m.known {
			return m.err
		}
		at, _ := lastAnswered(log)
		sw := switchOf(to.From, to.To, cmp.Or(to.Name, to.To.ID), log.State().Last, at)
		err := h.beforeSwitch(ctx, hook.Source(to.By), sw, ask)
		if ctx.Err() == nil {
			m.known, m.err = true, err
		}
		return err
	}
}

// A guardedModel is a model about which the hooks are asked once. Whoever has its turn may use the rest.
type guardedModel struct {
	turn  chan struct{}
	known bool
	err   error
}

// cacheTime is how long providers keep a prompt in their caches, unless asked for longer.
const cacheTime = 5 * time.Minute

// switchOf describes the change from one model to another. last is the use of the window by the last request, and at
// when it was answered.
func switchOf(from, to llm.Info, requested string, last llm.Usage, at time.Time) *hook.Switch {
	sw := &hook.Switch{From: from.ID, To: to.ID, Requested: requested, TTL: "5m", Pricing: "catalog",
		Tokens: last.Input + last.CacheRead + last.CacheWrite + last.Output}
	sw.Warm = from.Caching && sw.Tokens > 0 && time.Since(at) < cacheTime
	sw.Cost = to.Price.Cost(llm.Usage{CacheWrite: sw.Tokens})
	if to.Price.CacheWrite == 0 {
		sw.Cost = to.Price.Cost(llm.Usage{Input: sw.Tokens})
	}
	if to.Price.Input == 0 {
		sw.Pricing = "default"
	}
	return sw
}

// lastAnswered returns when a model last answered, and its ID; the zero time and "": none has.
func lastAnswered(log *session.Log) (at time.Time, id string) {
	for e := range log.Backward() {
		if e.Answer != nil {
			return e.Time, e.Answer.Model
		}
	}
	return at, ""
}

// resumed asks the hooks about a model from the command line, a kit or the leading agent, if another model has answered
// in the conversation before. The user cannot be asked yet, so a hook that wants that refuses the model.
func (h *sessionHooks) resumed(ctx context.Context, log *session.Log, to llm.Info, name string) error {
	at, was := lastAnswered(log)
	if h == nil || was == "" || was == to.ID {
		return nil
	}
	err := h.beforeSwitch(ctx, hook.SourceResume, switchOf(llm.Info{ID: was}, to, name, log.State().Last, at),
		func(context.Context, Question) (Answer, error) {
			return Answer{}, errors.New("nobody can be asked before the session begins")
		})
	if err != nil {
		return &Error{Err: err, Hint: "leave out --model, --kit or --agent; /model in the session asks you"}
	}
	return nil
}
