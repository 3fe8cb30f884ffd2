package anthropic

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
)

// A thread makes the server keep a conversation (create), or names the answer after which the messages of a request
// come (continue). Sources: the npm packages @anthropic-ai/sdk 1.14.0 and @earendil-works/pi-ai 1.6.0.
type thread struct {
	Type     string `json:"type"`
	Previous string `json:"previous_message_id,omitempty"`
}

// The betas of threads, and the two of an effort for each answer.
const (
	threadsBeta = "message-threads-2026-08-12"
	effortBeta  = "mid-conversation-output-config-2026-07-01"
	bindingBeta = "thinking-binding-controls-2026-08-01"
)

// threads reports whether a request may use threads.
func (m *model) threads(req *llm.Request, made map[string]bool) bool {
	return m.e.Threads && m.e.Cloud == nil && req.Memo != nil && req.Search == nil && !made[noThreads] && !m.deaf.Load()
}

// perMessage reports whether a request says the effort of each answer. Then another effort changes nothing of what was
// sent before: the provider can continue that, and read it from its cache.
func (m *model) perMessage(req *llm.Request, made map[string]bool) bool {
	return m.threads(req, made) && m.e.Efforts && !m.e.Budget && !made[noEfforts] && !made[noThinking] &&
		llm.EffortLevel(req.Effort) != ""
}

// keep makes b a request that the server keeps. A request that continues has neither system text nor tools.
func keep(b *wire.Body, whole *request) {
	whole.Thread = &thread{Type: "create"}
	b.Thread = func(answer string) any {
		short := *whole
		short.System, short.Tools, short.Thread = nil, nil, &thread{"continue", answer}
		return &short
	}
}

// ask sends a request, and sends it whole if the server cannot continue the answer before.
func (m *model) ask(ctx context.Context, url string, header http.Header, req *llm.Request,
	made map[string]bool) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if m.e.Threads && req.Whole != nil && (made[noThreads] || m.deaf.Load()) {
			req.Whole("the server does not keep conversations")
		}
		deaf := false // a request that continued was refused, and the server does not say that it knows threads
		for again := true; again; {
			again = false
			e, b := &m.e, body(m, req, made)
			if b.Thread != nil {
				e = withBetas(e, threadsBeta)
			}
			if b.Last != nil {
				e = withBetas(e, effortBeta, bindingBeta)
			}
			d := &decoder{e: e, body: b}
			began := false
			for ev, err := range wire.Stream(ctx, e, url, header, b, d) {
				if again = err != nil && !began && startsOver(b, err); again {
					deaf = !known(err)
					break
				}
				if ev.Done != nil && b.Thread != nil {
					m.kept(d, req, made, ev.Done)
				}
				if began = true; deaf && err == nil {
					m.deaf.Store(true)
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	}
}

func withBetas(e *llm.Endpoint, betas ...string) *llm.Endpoint {
	out := *e
	if out.Header = e.Header.Clone(); out.Header == nil {
		out.Header = http.Header{}
	}
	if own := out.Header.Get("Anthropic-Beta"); own != "" {
		betas = append([]string{own}, betas...)
	}
	out.Header.Set("Anthropic-Beta", strings.Join(betas, ","))
	return &out
}

// errForgotten is the error of a server that ignores the field thread: the model saw only the new messages.
var errForgotten = errors.New("the server has forgotten the conversation")

// startsOver reports whether an error that came in the place of an answer may be due to what the server keeps, so that
// the request is sent whole. Servers name many reasons for refusing a request without the conversation before it.
func startsOver(b *wire.Body, err error) bool {
	var e *llm.Error
	_, ok := b.Continues()
	return ok && errors.As(err, &e) && (e.Kind == llm.Invalid || errors.Is(err, errForgotten) || known(err))
}

// known reports whether the server knows threads, and a new one helps.
func known(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) {
		return false
	}
	switch wire.CodeOf(e) {
	case "thread_not_found", "thread_already_continued", "thread_continue_in_flight", "thread_fingerprint_mismatch":
		return true
	}
	return false
}

// began checks that the server has what the request continues: a gateway that ignores the field thread would ask the
// model without it. A model may see less than before, such as without its earlier reasoning, but not only half.
func (d *decoder) began() error {
	d.prompt = d.usage.Input + d.usage.CacheRead + d.usage.CacheWrite
	if tokens, ok := d.body.Continues(); ok && d.prompt < tokens/2 {
		return &llm.Error{Kind: llm.Broken, Message: d.e.Info.ID + ": " + errForgotten.Error(), Err: errForgotten}
	}
	return nil
}

// kept notes an answer that the next request may continue. Without the number of its tokens, nobody could see that a
// server ignores the field.
func (m *model) kept(d *decoder, req *llm.Request, made map[string]bool, done *llm.Response) {
	if d.id == "" || d.prompt == 0 || made[noThinkingBack] || done.Stop != llm.EndTurn && done.Stop != llm.ToolUse {
		return
	}
	e, n := &m.e, len(d.body.Turns)
	if made[wire.NoImages.Name] {
		e = wire.WithoutSight(e)
	}
	turns := wire.Turns(append(slices.Clip(req.Messages), done.Message))
	if len(turns) > n && turns[n].Role == llm.Assistant {
		d.body.Answered(d.id, d.prompt, []any{message{string(llm.Assistant), contents(e, turns[n])}})
	}
}
