package agent

import (
	"context"
	"slices"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A turn is what the steps of a run share: the agent's configuration, the log, the caller's events, and what was spent.
type turn struct {
	*Agent
	log         *session.Log
	ledger      *ledger
	emit        func(Event) // for the caller; changes only before the run starts
	lastEmitted int         // the id of the last log entry that was emitted
	shown       *string     // the text of the answer that is recorded next, as people saw it; nil: as it is
}

// record appends an entry to the log and emits it.
func (t *turn) record(e session.Entry) (session.Entry, error) {
	e, err := t.log.Append(e)
	t.emitRecorded()
	return e, err
}

// emitRecorded emits the entries recorded since its last call, whether by the run or by the gate and the
// tools, which write to the log themselves.
func (t *turn) emitRecorded() {
	for _, e := range t.log.After(t.lastEmitted) {
		t.lastEmitted = e.ID
		if e.Answer != nil && t.shown != nil {
			e.Answer, t.shown = displayed(e.Answer, *t.shown), nil
		}
		t.emit(Event{Entry: &e})
	}
}

func (t *turn) note(model, people string) error {
	_, err := t.record(session.Entry{Type: session.TypeNote, Note: &session.Note{Model: model, People: people}})
	return err
}

// effectiveModel returns the model and the effort of the next request: those of the
// skill activated last that names one, else the session's, else the agent's. An
// unknown model is not used; the activation reports it.
func (t *turn) effectiveModel(state session.State) (llm.Model, string) {
	model, effort := t.Model, t.Effort
	if t.Instead != nil && slices.Contains(state.Missing, model.Info().ID) {
		model = t.Instead
	}
	if state.Effort != "" {
		effort = state.Effort
	}
	named := state.Model
	for _, s := range state.Scopes {
		if s.Model != "" && s.Model != "inherit" {
			named = s.Model
		}
		if s.Effort != "" {
			effort = s.Effort
		}
	}
	if named != "" && t.Resolve != nil {
		if m, err := t.Resolve(named); err == nil {
			model = m
		} else {
			t.debug("model", "the model of a skill was not found", "name", named, "error", err)
		}
	}
	return model, effort
}

// A Switch is a run's change to another model.
type Switch struct {
	From, To llm.Info
	Name     string // as the skill or the agent names it; "": nothing does
	By       string // BySkill, ByAgent or ByFallback
}

// Values of Switch.By.
const (
	BySkill    = "skill"
	ByAgent    = "agent"
	ByFallback = "fallback"
)

// maySwitch asks Switch.
func (t *turn) maySwitch(ctx context.Context, from, to llm.Model, name, by string) error {
	if t.Switch == nil || from == nil || from.Info().ID == to.Info().ID {
		return nil
	}
	return t.Switch(ctx, Switch{From: from.Info(), To: to.Info(), Name: name, By: by})
}

// sent calls Sent. Any goroutine may call it.
func (t *turn) sent() {
	if t.Sent != nil {
		t.Sent()
	}
}

// retry waits until a failed request may be sent again. It returns the request's error if the
// request may not be repeated, or the error of a cancelled ctx.
func (t *turn) retry(ctx context.Context, attempt int, err error) error {
	wait, again := t.Retry.delay(attempt, err)
	if !again {
		return err
	}
	t.emit(Event{Retry: &Retrying{Attempt: attempt + 1, Of: t.Retry.times(), Wait: wait, Err: err}})
	return t.Retry.sleep(ctx, wait)
}
