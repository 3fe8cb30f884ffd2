package queue

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/knack-agent/knack/durable/batch"
)

// A run is the workflow of a batch.Run: its state, and the ledger. It ends with the run, starts an activity for
// each attempt, returns the run, and reports each change to the workflow of its batch.
type run struct {
	Batch   string        `json:"batch"`
	Item    int           `json:"item"`
	Needs   int           `json:"needs,omitempty"`
	Run     batch.Run     `json:"run"` // without its task, which is in the store
	Options batch.Options `json:"options"`
	Version int64         `json:"version"` // of the last report
	Turn    int64         `json:"turn"`    // of the last grant
	Granted bool          `json:"granted,omitempty"`
	Cancel  bool          `json:"cancel,omitempty"`
	After   time.Time     `json:"after,omitzero"` // Ready: not before; Waiting: until then
	Claimed time.Time     `json:"claimed,omitzero"`
	Others  float64       `json:"others,omitempty"` // what the other runs of the batch have spent
	// Heartbeat is the time after which a process that says nothing is dead.
	Heartbeat time.Duration `json:"heartbeat"`

	updates int // of this execution
	stop    workflow.CancelFunc
}

// maxUpdates is the number of updates after which a run continues as a new execution. Temporal allows 2,000, and a run
// cannot continue as new during an attempt.
const maxUpdates = 1500

// Run is the workflow of a run.
func Run(ctx workflow.Context, r run) (batch.Run, error) {
	if err := r.handle(ctx); err != nil {
		return r.Run, err
	}
	for !r.Run.State.Ended() {
		if r.updates > maxUpdates || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			_ = workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
			for _, name := range []string{signalGrant, signalSpent, signalCancel} {
				for c := workflow.GetSignalChannel(ctx, name); c.Len() > 0; {
					r.signal(ctx, name, c)
				}
			}
			if !r.Run.State.Ended() {
				return r.Run, workflow.NewContinueAsNewError(ctx, workflowRun, r)
			}
			break
		}
		switch {
		case r.Run.State == batch.Waiting:
			left := r.After.Sub(workflow.Now(ctx))
			answered, err := workflow.AwaitWithTimeout(ctx, max(left, 0), func() bool { return r.Run.State != batch.Waiting })
			if err != nil {
				return r.Run, err
			}
			if !answered && r.Run.State == batch.Waiting {
				r.refuse(workflow.Now(ctx), "nobody answered its question in time")
				r.report(ctx)
			}
		case !r.Granted:
			if err := workflow.Await(ctx, func() bool { return r.Granted || r.Run.State != batch.Ready }); err != nil {
				return r.Run, err
			}
		default:
			r.attempt(ctx)
		}
	}
	return r.Run, workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// attempt has a worker run it once.
func (r *run) attempt(ctx workflow.Context) {
	r.Granted = false
	var activity workflow.Context
	activity, r.stop = workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           attempts(r.Batch, r.Needs),
		StartToCloseTimeout: 10 * 365 * 24 * time.Hour, // tasks have time-outs of their own
		HeartbeatTimeout:    r.Heartbeat,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1}, // this workflow counts attempts
	}))
	var taken bool
	err := workflow.ExecuteActivity(activity, activityAttempt,
		attempt{Batch: r.Batch, Item: r.Item, Turn: r.Turn, Needs: r.Needs}).Get(ctx, &taken)
	r.stop = nil
	switch {
	case r.Run.State == batch.Running: // it ended without Finish
		why := "its worker died"
		var app *temporal.ApplicationError
		if errors.As(err, &app) {
			why = app.Message()
		}
		r.end(workflow.Now(ctx), batch.End{State: batch.Ready, Died: true, Error: why})
		r.report(ctx)
	case r.Run.State == batch.Ready && !r.Granted && (err != nil || !taken):
		r.After = time.Time{}
		r.report(ctx) // another worker is to have it
	}
}

// end ends an attempt.
func (r *run) end(now time.Time, end batch.End) {
	delay := r.Run.EndAttempt(end, r.Options, r.Cancel)
	r.After = time.Time{}
	if delay > 0 {
		r.After = now.Add(delay)
	}
	r.Run.Ended = now
	r.Run.Took += now.Sub(r.Claimed)
	r.sum()
}

func (r *run) refuse(now time.Time, why string) {
	if r.Run.End == nil {
		r.Run.End = &batch.End{}
	}
	r.Run.End.State, r.Run.End.Error = batch.Refused, why
	r.Run.State, r.Run.Question, r.Run.Ended = batch.Refused, nil, now
	r.sum()
}

// record adds rows to the ledger, unless it has them.
func (r *run) record(now time.Time, rows []batch.Row) {
	for _, row := range rows {
		row.Token, row.Time = r.Run.Token, now
		if !slices.ContainsFunc(r.Run.Rows, func(x batch.Row) bool {
			return x.Step == row.Step && x.Kind == row.Kind && (x.Kind != batch.Started || x.Token == row.Token)
		}) {
			r.Run.Rows = append(r.Run.Rows, row)
		}
	}
	r.sum()
}

// sum adds up the ledger.
func (r *run) sum() {
	s := batch.Spent{Unknown: len(batch.Unanswered(r.Run))}
	for _, row := range r.Run.Rows {
		s.Add(batch.Spent{Requests: row.Requests, Usage: row.Usage, Cost: row.Cost})
	}
	r.Run.Spent = s
}

// report tells the batch, and returns when it is certain to know.
func (r *run) report(ctx workflow.Context) {
	_ = workflow.UpsertTypedSearchAttributes(ctx, attributeState.ValueSet(string(r.Run.State)))
	r.Version++
	m := report{Item: r.Item, Version: r.Version, State: r.Run.State, After: r.After, Spent: r.Run.Spent,
		Wanted: r.Run.State == batch.Ready && !r.Granted}
	// It fails only if the batch is gone, whose runs nobody wants.
	_ = workflow.SignalExternalWorkflow(ctx, batchWorkflow(r.Batch), "", signalReport, m).Get(ctx, nil)
}

// holds returns an error unless a lease goes on.
func (r *run) holds(token int64) error {
	if r.Run.State != batch.Running || r.Run.Token != token {
		return failure(typeLost, batch.ErrLost.Error())
	}
	return nil
}

// order says whether a lease may go on, if rows are added.
func (r *run) order(rows []batch.Row) batch.Order {
	spent := r.Run.Spent.Cost + r.Others
	for _, row := range rows {
		spent += row.Cost
	}
	switch {
	case r.Cancel:
		return batch.Stop
	case r.Options.MaxCost > 0 && spent >= r.Options.MaxCost, r.updates > maxUpdates:
		return batch.Hold // in the second case the session goes on at once, in a new execution
	}
	return batch.GoOn
}

// signal receives and handles a signal.
func (r *run) signal(ctx workflow.Context, name string, c workflow.ReceiveChannel) {
	switch name {
	case signalGrant:
		c.Receive(ctx, &r.Turn)
		r.Granted = r.Run.State == batch.Ready
	case signalSpent:
		c.Receive(ctx, &r.Others)
	case signalCancel:
		c.Receive(ctx, nil)
		r.Cancel = !r.Run.State.Ended()
		if r.Run.State == batch.Ready || r.Run.State == batch.Waiting {
			r.Run.State, r.Run.Question, r.Run.Ended = batch.Cancelled, nil, workflow.Now(ctx)
			if r.stop != nil {
				r.stop()
			}
			r.report(ctx)
		}
	}
}

// handle sets the handlers of messages.
func (r *run) handle(ctx workflow.Context) error {
	for _, name := range []string{signalGrant, signalSpent, signalCancel} {
		workflow.Go(ctx, func(ctx workflow.Context) {
			for c := workflow.GetSignalChannel(ctx, name); ; {
				r.signal(ctx, name, c)
			}
		})
	}
	update := func(name string, handler, validator any) error {
		return workflow.SetUpdateHandlerWithOptions(ctx, name, handler, workflow.UpdateHandlerOptions{Validator: validator})
	}
	return errors.Join(
		workflow.SetQueryHandler(ctx, queryRun, func() (batch.Run, error) { return r.Run, nil }),
		workflow.SetQueryHandler(ctx, queryOrder, func(token int64) (batch.Order, error) {
			return r.order(nil), r.holds(token)
		}),
		update(updateBegin, func(ctx workflow.Context, m runBegin) (batch.Run, error) {
			r.updates++
			now := workflow.Now(ctx)
			r.Run.State, r.Run.Token, r.Run.Worker = batch.Running, m.Token, m.Worker
			r.Run.Attempt++
			r.Claimed = now
			if r.Run.Began.IsZero() {
				r.Run.Began = now
			}
			r.Options, r.Others = m.Options, m.Others
			out := r.Run
			out.Rows = nil
			changes := []temporal.SearchAttributeUpdate{attributeState.ValueSet(string(batch.Running))}
			if m.Skill != "" {
				changes = append(changes, attributeSkill.ValueSet(m.Skill))
			}
			return out, workflow.UpsertTypedSearchAttributes(ctx, changes...)
		}, func(m runBegin) error {
			if r.Cancel || r.Run.State != batch.Ready || m.Token <= r.Run.Token {
				return failure(typeRefused, "the run is not ready")
			}
			return nil
		}),
		update(updateBeat, func(ctx workflow.Context, m beat) (batch.Order, error) {
			r.updates++
			o := r.order(m.Rows)
			if o != batch.GoOn {
				m.Rows = slices.DeleteFunc(m.Rows, func(row batch.Row) bool { return row.Kind == batch.Started })
			}
			before := r.Run.Spent
			r.record(workflow.Now(ctx), m.Rows)
			if r.Run.Spent != before {
				r.report(ctx)
			}
			return o, nil
		}, func(m beat) error { return r.holds(m.Token) }),
		update(updateFinish, func(ctx workflow.Context, m finish) error {
			r.updates++
			r.record(workflow.Now(ctx), m.Rows)
			r.end(workflow.Now(ctx), m.End.end())
			r.report(ctx)
			return nil
		}, func(m finish) error { return r.holds(m.Token) }),
		update(updateAnswer, func(ctx workflow.Context, a batch.Answer) error {
			r.updates++
			r.Run.Answers = append(r.Run.Answers, batch.Answered{Question: r.Run.Question, Answer: a})
			if a.No {
				r.refuse(workflow.Now(ctx), "the user answered no")
			} else {
				r.Run.State, r.Run.Question, r.After = batch.Ready, nil, time.Time{}
			}
			r.report(ctx)
			return nil
		}, func(batch.Answer) error {
			if r.Run.State != batch.Waiting {
				return failure(typeState, "it is "+string(r.Run.State))
			}
			return nil
		}),
	)
}
