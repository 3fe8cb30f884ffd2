package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
)

// A Runner runs turns and shows them on an Output. A command may replace Session.
type Runner struct {
	Session *engine.Session
	Out     Output
	Schema  *Schema // for the answers; nil: any answer is accepted
	// Show is called when something has happened, to update what is shown outside Out. It may be nil.
	Show func(*engine.Engine)
	Quit bool // the user typed /quit
}

func (r *Runner) show() {
	if r.Show != nil {
		r.Show(r.Session.Engine())
	}
}

// Begin shows the session and runs its start hooks.
func (r *Runner) Begin(ctx context.Context) error {
	r.Out.Begin(ctx, r.Session)
	for e, err := range r.Session.Begin(ctx) {
		if err != nil {
			return err
		}
		r.Out.Event(e)
	}
	return nil
}

// Turn runs one turn and shows it. If an answer does not match the schema, it asks for another one
// once.
func (r *Runner) Turn(ctx context.Context, in agent.Input) error {
	return r.try(ctx, in, r.Schema != nil)
}

func (r *Runner) try(ctx context.Context, in agent.Input, again bool) error {
	s := r.Session
	defer r.show()
	var end *agent.End
	var next *engine.Session
	var failed, denied bool // for the offline model: a procedure failed; its call was refused
	for e, err := range s.Run(ctx, in) {
		if err != nil {
			r.Out.End(err)
			return err
		}
		r.show()
		if end != nil { // a message that arrived meanwhile gets a turn of its own
			r.Out.End(nil)
			end = nil
		}
		r.Out.Event(e)
		if e.Entry != nil && e.Agent == nil {
			failed = failed || e.Entry.Answer != nil && e.Entry.Answer.Stop == llm.Failed
			denied = denied || e.Entry.Decision != nil && e.Entry.Decision.By.Verdict != permission.Allow
		}
		if e.End != nil {
			end = e.End
		}
		if e.Reply != nil {
			next, r.Quit = e.Reply.Next, e.Reply.Quit
		}
	}
	if next != nil {
		if err := s.Close(); err != nil {
			return err
		}
		r.Session = next
		if err := r.Begin(ctx); err != nil {
			return err
		}
	}
	if r.Schema != nil && next == nil && end != nil && end.Reason == session.EndDone && end.Requests > 0 {
		value, err := r.Schema.check(end.Text)
		switch {
		case err == nil:
			r.Out.Structured(value)
		case again:
			return r.try(ctx, agent.Text(r.Schema.retryPrompt(err)), false)
		default:
			err = fmt.Errorf("%w: %w", errSchema, err)
			r.Out.End(err)
			return &engine.Error{Err: err}
		}
	}
	r.Out.End(nil)
	if end == nil {
		end = &agent.End{}
	}
	switch {
	case failed && denied:
		return &engine.Error{Err: errors.New("the procedure was refused"), Hint: "knack help permissions",
			Exit: engine.ExitRefused}
	case failed:
		return &engine.Error{Err: errors.New("the procedure failed")}
	}
	return outcome(ctx, end)
}

// A SignalError is the cause of a context that was cancelled by a signal.
type SignalError struct {
	Name string
	Code engine.ExitCode
}

func (e SignalError) Error() string { return e.Name }

// outcome converts the end of a run to an error with an exit code.
func outcome(ctx context.Context, end *agent.End) error {
	switch end.Reason {
	case session.EndCancelled:
		var sig SignalError
		if errors.As(context.Cause(ctx), &sig) {
			return &engine.Error{Err: sig, Exit: sig.Code}
		}
		return &engine.Error{Err: errors.New("interrupted"), Exit: engine.ExitInterrupted}
	case session.EndLimit:
		return &engine.Error{Err: errors.New("the run was stopped: " + end.Why), Hint: "knack -c -p 'continue'"}
	case session.EndStopped:
		return engine.StoppedByHook(end.Why)
	}
	return nil
}
