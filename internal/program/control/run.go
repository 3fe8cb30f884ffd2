// Package control is the front end for programs: it writes what a conversation does as text, as one JSON object or as a
// stream of JSON lines, and as a server it also reads messages, answers and requests of a host, in the protocol of the
// Claude Agent SDK.
//
// A [Runner] runs the turns of a conversation and shows them on an [Output].
package control

import (
	"context"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/session"
)

// A Runner runs the turns of a conversation and shows them on an Output.
type Runner struct {
	Conversation *engine.Conversation
	Out          Output
	Schema       *Schema // for the answers; nil: any answer is accepted
	// Show is called when something has happened, to update what is shown outside Out. It may be nil.
	Show func(*engine.Engine)
	// More waits, after an answer and before its turn ends, for what the model should hear of. It returns the message
	// with which the model goes on, and false if there is none. It may be nil.
	More func(context.Context) (agent.Input, bool)
	Quit bool // the user typed /quit
	// Report is that of the last turn.
	Report engine.Report
}

func (r *Runner) show() {
	if r.Show != nil {
		r.Show(r.Conversation.Session().Engine())
	}
}

// event shows an event.
func (r *Runner) event(ctx context.Context, e engine.Event) {
	if e.Session != nil {
		r.Out.Begin(ctx, e.Session)
		return
	}
	r.Out.Event(e)
}

// Begin shows the session and runs its start hooks.
func (r *Runner) Begin(ctx context.Context) error {
	for e, err := range r.Conversation.Begin(ctx) {
		if err != nil {
			return err
		}
		r.event(ctx, e)
	}
	return nil
}

// Turn runs one turn and shows it. If an answer does not match the schema, it asks for another one,
// until [maxAttempts] were checked.
func (r *Runner) Turn(ctx context.Context, in agent.Input) error {
	if r.Schema != nil {
		r.Schema.begin()
	}
	return r.try(ctx, in)
}

func (r *Runner) try(ctx context.Context, in agent.Input) error {
	defer r.show()
	ended, replaced := false, false // the turn has; the session was
	report, err := r.Conversation.Turn(ctx, in, func(e engine.Event) {
		r.show()
		if e.Session != nil {
			replaced = true
		}
		if ended && !replaced { // a message that arrived meanwhile gets a turn of its own
			r.Out.End(nil)
			ended = false
		}
		r.event(ctx, e)
		ended = ended || e.End != nil
		r.Quit = r.Quit || e.Reply != nil && e.Reply.Quit
	})
	r.Report = report
	if err != nil {
		r.Out.End(err)
		return err
	}
	done := report.End.Reason == session.EndDone || report.End.Reason == session.EndTerminated
	if r.More != nil && done && !replaced {
		if in, more := r.More(ctx); more {
			return r.try(ctx, in)
		}
	}
	if end := report.End; r.Schema != nil && !replaced && end.Requests > 0 && done {
		value, again, err := r.Schema.end(end.Text)
		switch {
		case err == nil:
			r.Out.Structured(value)
		case again:
			return r.try(ctx, agent.Input{Text: r.Schema.retryPrompt(err), Event: true})
		default:
			r.Out.End(err)
			return &engine.Error{Err: err}
		}
	}
	r.Out.End(nil)
	return report.Err(ctx)
}
