package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A Report is the summary of a turn, and of those of messages that were queued meanwhile: the sum of its events, as
// [session.State] is the sum of a log's entries. Add every [Event] to the zero Report. It is not safe for concurrent
// use.
type Report struct {
	// End is the end of the last turn; its Text is the answer. Its Reason is "" before the first turn has ended, or if
	// an error prevented that.
	End      agent.End
	Requests int       // of all turns, with those of their sub-agents
	Usage    llm.Usage // of all turns
	Cost     float64   // of all turns, in US dollars
	Replies  []Reply   // of commands
	Refused  []Refused
	Blocked  []string        // what the sandbox refused to commands, each once, with what would allow it; at most 20
	Problems []knack.Problem // of skills that were activated, and of notes
	Stop     llm.StopReason  // why the last answer ended; "": there was none, or it was cancelled

	Began  time.Time     // the first event
	Took   time.Duration // until the last event
	Waited time.Duration // for answers of the model, without those to sub-agents

	calls map[string]json.RawMessage // the inputs of calls, by ID
	asked time.Time                  // when the current request was sent; zero: none is
	// a procedure of the offline model failed; a call of the turn itself was refused
	failed, denied bool
}

// Refused is a call that was not allowed.
type Refused struct {
	session.Decision
	Input json.RawMessage // nil: not known, as for a call that a hook made
}

// Add adds an event.
func (r *Report) Add(e Event) {
	now := time.Now()
	if r.Began.IsZero() {
		r.Began = now
	}
	r.Took = now.Sub(r.Began)
	switch {
	case e.Reply != nil:
		r.Replies = append(r.Replies, *e.Reply)
	case e.Request != nil && e.Agent == nil:
		r.asked = now
	case e.Entry != nil:
		r.entry(e.Entry, e.Agent == nil, now)
	case e.End != nil:
		r.End = *e.End
		r.Requests += e.End.Requests
		r.Usage.Add(e.End.Usage)
		r.Cost += e.End.Cost
	}
}

// entry adds an entry of the session's own log, or of a sub-agent's.
func (r *Report) entry(e *session.Entry, own bool, now time.Time) {
	switch {
	case e.Answer != nil:
		if own && !r.asked.IsZero() {
			r.Waited += now.Sub(r.asked)
			r.asked = time.Time{}
		}
		if own {
			r.Stop = e.Answer.Stop
			r.failed = r.failed || e.Answer.Stop == llm.Failed
		}
		for _, p := range e.Answer.Message.Parts {
			if p.Call != nil {
				if r.calls == nil {
					r.calls = map[string]json.RawMessage{}
				}
				r.calls[p.Call.ID] = p.Call.Input
			}
		}
	case e.Decision != nil && e.Decision.By.Verdict != permission.Allow:
		r.denied = r.denied || own
		if e.Decision.Call != "" {
			r.Refused = append(r.Refused, Refused{*e.Decision, r.calls[e.Decision.Call]})
		}
	case e.Result != nil:
		r.blocked(e.Result)
	case e.Activation != nil:
		r.Problems = append(r.Problems, e.Activation.Problems...)
	case e.Note != nil:
		r.Problems = append(r.Problems, e.Note.Problems...)
	}
}

// maxBlocked is the most entries of Blocked.
const maxBlocked = 20

// blocked adds what the sandbox refused to a command.
func (r *Report) blocked(of *session.Result) {
	for _, text := range of.Output().Refused {
		if !slices.Contains(r.Blocked, text) && len(r.Blocked) < maxBlocked {
			r.Blocked = append(r.Blocked, text)
		}
	}
}

// Err returns why the turn did not do what was asked, as an [Error] with the exit code of the program; nil: it did.
// ctx is the context of the turn. If it was cancelled with an *Error as its cause, such as one for a signal, Err
// returns that.
func (r *Report) Err(ctx context.Context) error {
	switch {
	case r.failed && r.denied:
		return &Error{Err: errors.New("the procedure was refused"), Hint: "knack help permissions", Exit: ExitRefused}
	case r.failed:
		return &Error{Err: errors.New("the procedure failed")}
	}
	switch r.End.Reason {
	case session.EndCancelled:
		return Interrupted(ctx)
	case session.EndLimit:
		hint := "knack -c -p 'continue'"
		if r.End.Limit == agent.LimitCost { // the limit is that of the session
			hint = "knack -c -p 'continue' with a higher --max-cost"
		}
		return &Error{Err: errors.New("the run was stopped: " + r.End.Why), Hint: hint}
	case session.EndStopped:
		if r.End.ByUser {
			return &Error{Err: errors.New("the user ended the run")}
		}
		return stoppedByHook(r.End.Why)
	}
	if words := unfinishedWords(r.End.Unfinished); words != "" {
		return &Error{Err: errors.New(words)}
	}
	return nil
}

// unfinishedWords says why an answer is not one, and how to go on; "": it is one.
func unfinishedWords(why agent.Unfinished) string {
	switch why {
	case agent.AnswerCut:
		return "the answer is not complete: it reached the limit of the model (knack -c -p 'continue' goes on)"
	case agent.AnswerEmpty:
		return "the model gave no answer (knack -c -p 'continue' asks again)"
	case agent.AnswerPaused:
		return "the answer is not complete: the provider interrupted it (knack -c -p 'continue' goes on)"
	case agent.AnswerRefused:
		return "the model refused to answer"
	}
	return ""
}

// Interrupted is the error for a turn whose context was cancelled: the cause of ctx if that is an [Error], otherwise
// that the user interrupted it.
func Interrupted(ctx context.Context) error {
	var e *Error
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return &Error{Err: errors.New("interrupted"), Exit: ExitInterrupted}
}
