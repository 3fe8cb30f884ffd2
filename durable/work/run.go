package work

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/reads"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A Start starts the session of a run, or resumes it if an earlier attempt began it: one that this queue knows, or one
// of a queue that was lost.
type Start func(ctx context.Context, person engine.Person, id string) (*engine.Session, error)

// Run runs what the worker at the other end of in and out asks for, and returns after it has told the worker how it
// ended. An error means that the worker could not be told.
func Run(ctx context.Context, in io.Reader, out io.Writer, begin Start) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no worker: %w", err)
	}
	r := &running{out: json.NewEncoder(out), replies: map[int]chan batch.Order{}}
	if err := json.Unmarshal(line, &r.start); err != nil {
		return fmt.Errorf("the worker is of another version: %w", err)
	}
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	go r.listen(lines)
	if limit := r.Run.Task.Timeout; limit > 0 {
		defer time.AfterFunc(limit, func() { r.stop(errTime) }).Stop()
	}
	end, rows := r.run(ctx, begin)
	return r.say(message{Rows: rows, End: &ending{end, end.Question}})
}

// running is the state of the process of a run.
type running struct {
	start
	stop func(error)

	mu      sync.Mutex
	out     *json.Encoder
	number  int
	replies map[int]chan batch.Order

	log     *session.Log
	begins  int            // ID of the last entry before the run
	marked  bool           // an entry says where it begins
	given   bool           // the log has its message
	read    int            // ID of the last entry whose costs were reported
	answers int            // how many the log has
	subs    map[string]int // requests of sub-agents that were answered, by log
	open    map[string]bool
	calls   int
	shown   time.Time
}

func (r *running) say(m message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Encode(m)
}

// listen reads the orders of the worker. The run stops if the worker is silent for longer than Silence.
func (r *running) listen(in *bufio.Reader) {
	silence := time.AfterFunc(r.Silence, func() { r.stop(errStopped) })
	defer silence.Stop()
	for {
		line, err := in.ReadBytes('\n')
		var o order
		if err != nil || json.Unmarshal(line, &o) != nil || o.End {
			r.stop(errStopped)
			if err != nil {
				return
			}
			continue
		}
		silence.Reset(r.Silence)
		if o.Number == 0 { // a heartbeat has an answer, from which the worker knows that this process lives
			if r.say(message{}) != nil {
				r.stop(errStopped)
			}
		}
		r.mu.Lock()
		waits := r.replies[o.Number]
		delete(r.replies, o.Number)
		r.mu.Unlock()
		if waits != nil {
			waits <- o.Order
		} else {
			r.obey(o.Order)
		}
	}
}

// obey carries out an order.
func (r *running) obey(o batch.Order) {
	switch o {
	case batch.GoOn:
	case batch.Hold:
		// Only the next request is refused: what a call does now is paid for.
	default:
		r.stop(errCancelled)
	}
}

// announce has the worker record a request before it is sent, and waits. It stops the run if the request must not be
// sent.
func (r *running) announce(ctx context.Context, row batch.Row) {
	if r.ask(ctx, message{Rows: []batch.Row{row}, Doing: "waits for the model"}) == batch.Hold {
		r.stop(errHeld)
	}
}

// ask sends a message to the worker, waits until the queue knows it, and returns its order. It stops the run if the
// lease has ended.
func (r *running) ask(ctx context.Context, m message) batch.Order {
	reply := make(chan batch.Order, 1)
	r.mu.Lock()
	r.number++
	m.Number = r.number
	r.replies[m.Number] = reply
	err := r.out.Encode(m)
	r.mu.Unlock()
	if err != nil {
		r.stop(errStopped)
		return batch.Stop
	}
	select {
	case <-ctx.Done():
		return batch.Stop
	case o := <-reply:
		r.obey(o)
		return o
	}
}

// run runs the task, or what is left of it.
func (r *running) run(ctx context.Context, begin Start) (batch.End, []batch.Row) {
	person := &absent{stop: r.stop, answers: r.Run.Answers, brief: r.Run.Task.Session != ""}
	alone, err := fence(ctx, r.Fence, r.Token)
	if alone != nil {
		defer alone.Close()
	}
	if err != nil {
		return r.failure(ctx, fmt.Errorf("the run may still go on elsewhere: %w", err), person), nil
	}
	// The lease may have ended before this process began.
	if r.ask(ctx, message{}); ctx.Err() != nil {
		return r.failure(ctx, ctx.Err(), person), nil
	}
	s, err := r.session(ctx, person, begin)
	if err != nil {
		return r.failure(ctx, err, person), nil
	}
	defer s.Close()
	if seen := r.Run.Task.Seen; seen != nil {
		reads.Inherit(s, *seen)
	}
	r.log, r.subs, r.open = s.Log(), map[string]int{}, map[string]bool{}
	if r.findBegin(); r.Run.Task.Session != "" && !r.marked {
		r.begins = r.log.Last() // what is before was not spent by this run
	}
	r.read = r.begins
	rows := r.spending()
	rows = append(rows, r.uncertain()...)
	if text, ok := finished(r.log); ok && r.given { // the worker died before the queue knew
		return batch.End{State: batch.Done, Text: text, Calls: r.calls}, rows
	}
	if len(rows) > 0 {
		if err := r.say(message{Rows: rows}); err != nil {
			return batch.End{State: batch.Ready}, nil
		}
	}
	c := engine.Converse(s)
	for _, err := range c.Begin(ctx) {
		if err != nil {
			return r.failure(ctx, err, person), r.settled(ctx)
		}
	}
	in, err := r.message(ctx, s)
	if err != nil {
		return r.failure(ctx, err, person), r.settled(ctx)
	}
	report, err := c.Turn(ctx, in, func(e engine.Event) { r.event(ctx, e) })
	rows = r.spending()
	end := batch.End{State: batch.Done, Text: report.End.Text, Calls: r.calls}
	if err = cmp.Or(err, report.Err(ctx)); err != nil || context.Cause(ctx) != nil {
		end = r.failure(ctx, err, person)
		end.Text, end.Calls = report.End.Text, r.calls
		if report.End.Limit != "" { // another attempt would reach it too
			end.Fatal = true
		}
	}
	if n := len(report.Refused); n > 0 && end.State == batch.Done {
		end.Refusals = n
	}
	return end, append(rows, r.settled(ctx)...)
}

// session starts or resumes the session. If the process of an earlier attempt still has it open, session waits.
func (r *running) session(ctx context.Context, person engine.Person, begin Start) (*engine.Session, error) {
	for {
		s, err := begin(ctx, person, r.Session)
		if !errors.Is(err, session.ErrLocked) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// findBegin finds where the run begins in the log of its session, and whether its message was given.
func (r *running) findBegin() {
	if r.Run.Task.Session == "" {
		r.given = r.log.State().Turns > 0
		return
	}
	given := false
	for e := range r.log.Backward() {
		switch {
		case e.User != nil, e.Activation != nil && e.Activation.Call == "":
			given = true
		case e.Setting == nil || e.Setting.Run == "":
		case e.Setting.Run == r.Run.ID:
			r.begins, r.given, r.marked = e.ID, given, true
			return
		default:
			return
		}
	}
}

// message returns the message for the model with what it attaches. In a session that others have used, too, an entry
// says first that the run begins.
func (r *running) message(ctx context.Context, s *engine.Session) (agent.Input, error) {
	in := r.input()
	if r.Run.Task.Session == "" {
		return in, nil
	}
	if !r.marked {
		_, err := r.log.Append(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Run: r.Run.ID}})
		if err != nil {
			return in, err
		}
	}
	return s.Attach(ctx, in)
}

// notTyped begins a message that the program wrote: who reads the conversation later must not take it for the user's.
const notTyped = "[From the program, not from the user] "

// input returns the message for the model: the task, or a request to go on with it.
func (r *running) input() agent.Input {
	t := r.Run.Task
	in := agent.Text(t.Prompt)
	if t.Session != "" && t.Typed {
		in = agent.Typed(t.Prompt)
	}
	if strings.HasPrefix(in.Text, "/") && t.Skill == "" {
		in.Text = "/" + in.Text // a prompt is no command of the program
	}
	if t.Skill != "" {
		in = agent.Text(strings.TrimSpace("/" + t.Skill + " " + t.Args))
		if t.Typed {
			in.Typed = "/" + t.Skill
			in.Named = true
		}
	}
	if !r.given && in.Text != "" {
		return in
	}
	more := "The program was stopped while you worked on this, and started again. Go on where you were interrupted. " +
		"Look at the files before you repeat a change."
	if t.Session != "" && !r.given {
		more = "The user has let this session go on in the background, which interrupted what you were doing. Go on with " +
			"it. Look at the files before you repeat a change."
	}
	if n := len(r.Run.Answers); n > 0 {
		var q Question
		var a Answer
		last := r.Run.Answers[n-1]
		if json.Unmarshal(last.Question, &q) == nil && json.Unmarshal(last.Value, &a) == nil {
			more = youAsked + q.Title
			if q.Tool != "" {
				more += fmt.Sprintf(" (%s %s)", q.Tool, q.Input)
			}
			more += theyAnswered + q.short(a) + ", and the run goes on. Make the same call again: the answer is its result."
		}
	}
	more = notTyped + more
	if t.Skill != "" { // its grants ended with the turn; its text is not sent again
		in.Parts = append(in.Parts, llm.Text(more))
		return in
	}
	return agent.Text(more)
}

// finished returns the final answer if the last turn of a session has completed its task.
func finished(log *session.Log) (text string, ok bool) {
	for e := range log.Backward() {
		switch {
		case e.TurnEnd != nil && !ok:
			if e.TurnEnd.Reason != session.EndDone && e.TurnEnd.Reason != session.EndTerminated {
				return "", false
			}
			ok = true
		case e.User != nil || e.Activation != nil && e.Activation.Call == "":
			return "", ok
		case e.Answer != nil && ok:
			return llm.TextOf(e.Answer.Message.Parts), true
		}
	}
	return "", ok
}

// uncertain returns the calls of the run that have started and have no result, or were cut off when the run stopped.
func (r *running) uncertain() (rows []batch.Row) {
	inputs, started := map[string]string{}, map[string]string{}
	var order []string
	for _, e := range r.log.After(r.begins) {
		switch {
		case e.Answer != nil:
			for _, p := range e.Answer.Message.Parts {
				if p.Call != nil {
					inputs[p.Call.ID] = string(p.Call.Input)
				}
			}
		case e.Started != nil:
			started[e.Started.Call] = e.Started.Name
			order = append(order, e.Started.Call)
		case e.Result != nil && e.Result.People != tool.Aborted:
			delete(started, e.Result.ID)
		}
	}
	for _, id := range order {
		if name, ok := started[id]; ok {
			text := name + " " + inputs[id]
			if len(text) > 500 {
				text = strings.ToValidUTF8(text[:500], "") + "…"
			}
			rows = append(rows, batch.Row{Step: "call " + id, Kind: batch.Uncertain, Text: text})
		}
	}
	return rows
}

// spending returns rows for the costs that the log has recorded since the last call.
func (r *running) spending() (rows []batch.Row) {
	for _, e := range r.log.After(r.read) {
		r.read = max(r.read, e.ID)
		if e.Answer != nil {
			r.answers++
			for _, p := range e.Answer.Message.Parts {
				if p.Call != nil {
					r.calls++
				}
			}
			if e.Answer.Partial { // nobody knows what it cost: its request stays open
				continue
			}
		}
		i := 0
		for x := range session.Spending(e) {
			step := fmt.Sprintf("entry %d", e.ID)
			if e.Answer != nil {
				step = requestStep(r.answers)
			}
			if i++; i > 1 {
				step += "." + strconv.Itoa(i)
			}
			delete(r.open, step)
			rows = append(rows, batch.Row{Step: step, Kind: batch.Spending, Model: x.Model, Requests: x.Requests, Usage: x.Usage,
				Cost: x.Cost})
		}
	}
	return rows
}

// requestStep names the n-th request of the session itself, counted by answers.
func requestStep(n int) string { return "request " + strconv.Itoa(n) }

// event reports an event of the session to the worker, if it concerns the ledger or the display.
func (r *running) event(ctx context.Context, e engine.Event) {
	m := message{}
	switch {
	case e.Request != nil:
		step := requestStep(r.answers + 1)
		if e.Agent != nil {
			step = fmt.Sprintf("agent %s %d", e.Agent.Log, r.subs[e.Agent.Log]+1)
		}
		r.open[step] = true
		r.announce(ctx, batch.Row{Step: step, Kind: batch.Started, Model: e.Request.Model})
		return
	case e.Entry != nil && e.Entry.Answer != nil && e.Agent != nil:
		r.subs[e.Agent.Log]++
		step := fmt.Sprintf("agent %s %d", e.Agent.Log, r.subs[e.Agent.Log])
		if e.Entry.Answer.Partial {
			return
		}
		delete(r.open, step)
		m.Rows = []batch.Row{{Step: step, Kind: batch.Settled}} // what it cost is in the entry for the agent's end
	case e.Entry != nil && e.Agent == nil:
		if m.Rows = r.spending(); len(m.Rows) == 0 {
			return
		}
	case e.Call != nil:
		if time.Since(r.shown) < 100*time.Millisecond {
			return
		}
		r.shown = time.Now()
		m.Doing = e.Call.Name
	default:
		return
	}
	if err := r.say(m); err != nil {
		r.stop(errStopped)
	}
}

// settled returns rows for requests that failed and cost nothing. After a cancellation nobody knows that, and there are
// none.
func (r *running) settled(ctx context.Context) (rows []batch.Row) {
	if ctx.Err() != nil {
		return nil
	}
	for step := range r.open {
		rows = append(rows, batch.Row{Step: step, Kind: batch.Settled})
	}
	return rows
}

// failure returns how a run ended that did not complete its task: it waits, is ready to go
// on, was refused, was cancelled or failed.
func (r *running) failure(ctx context.Context, err error, person *absent) batch.End {
	if q := person.open(); q != nil {
		return batch.End{State: batch.Waiting, Question: q}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		return batch.End{State: batch.Cancelled}
	case errors.Is(cause, errTime):
		return batch.End{State: batch.Failed, Error: fmt.Sprintf("%v, %v", errTime, r.Run.Task.Timeout), Fatal: true}
	case cause != nil: // held, stopped, or a signal
		return batch.End{State: batch.Ready, Error: cause.Error()}
	}
	end := batch.End{State: batch.Failed, Error: err.Error()}
	var e *engine.Error
	if errors.As(err, &e) {
		switch e.Exit {
		case engine.ExitRefused:
			end.State = batch.Refused
		case engine.ExitUsage:
			end.Fatal = true
		}
		if e.Hint != "" {
			end.Error += " (" + e.Hint + ")"
		}
	}
	return end
}
