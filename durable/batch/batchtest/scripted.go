package batchtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// Steps is how many requests a scripted run sends.
const Steps = 3

// A Script does the work of runs without a model, for programs that kill workers and then check the accounts. A run
// keeps a session, as real runs do, and goes on where it ends. Each call of the model is a line in a file, so that
// calls can be counted whatever happens to the queue.
type Script struct {
	Sessions session.Store
	Calls    string        // the file
	Answer   time.Duration // how long the model takes
}

// ScriptIn returns the Script that keeps its files in a directory.
func ScriptIn(dir string) (Script, error) {
	s := Script{Sessions: session.Store{Dir: filepath.Join(dir, "sessions")}, Calls: filepath.Join(dir, "calls")}
	return s, os.MkdirAll(s.Sessions.Dir, 0o700)
}

// Items returns the items of n scripted runs.
func Items(n int) (all []batch.Item) {
	for i := range n {
		all = append(all, batch.Item{Key: fmt.Sprint("item", i), Task: batch.Task{Prompt: "three steps"}})
	}
	return all
}

// locked is how long a run waits for its session, which a worker that hangs may still have.
const locked = 10 * time.Millisecond

// Run does the work of a lease, and ends it. The error is ErrLost if another worker has the run.
func (s Script) Run(ctx context.Context, q batch.Queue, l batch.Lease) error {
	calls, err := os.OpenFile(s.Calls, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer calls.Close()
	for {
		err := s.attempt(ctx, q, calls, l)
		if !errors.Is(err, errBusy) {
			return err
		}
		time.Sleep(locked)
		if _, err := q.Heartbeat(ctx, l, nil); err != nil {
			return err
		}
	}
}

// errBusy means that another worker has the session.
var errBusy = errors.New("another worker has the session")

func (s Script) attempt(ctx context.Context, q batch.Queue, calls io.Writer, l batch.Lease) error {
	id := "s-" + l.Run.ID
	open := func() (*session.Log, error) { return s.Sessions.Create(session.Header{ID: id}) }
	if info, err := os.Stat(filepath.Join(s.Sessions.Dir, id+".jsonl")); err == nil && info.Size() > 0 {
		open = func() (*session.Log, error) { return s.Sessions.Open(id) }
	}
	journal, err := open()
	if errors.Is(err, session.ErrLocked) {
		return errBusy
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	var rows []batch.Row
	step := 0
	for e := range journal.All() {
		if e.Answer != nil {
			step++
			rows = append(rows, spending(step, e))
		}
	}
	for step < Steps {
		step++
		rows = append(rows, batch.Row{Step: fmt.Sprint(step), Kind: batch.Started, Model: "scripted"})
		if _, err := q.Heartbeat(ctx, l, rows); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(calls, "%s %d %d\n", l.Run.ID, step, l.Token); err != nil {
			return err
		}
		time.Sleep(s.Answer)
		e, err := journal.Append(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{Model: "scripted",
			Cost: 0.001, Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text("answer")}},
			Usage: llm.Usage{Input: 10, Output: 1}}})
		if err != nil { // the worker that took the run over has written
			return errBusy
		}
		rows = []batch.Row{spending(step, e)}
	}
	return q.Finish(ctx, l, batch.End{State: batch.Done, Text: "done", Session: id}, rows)
}

func spending(step int, e session.Entry) batch.Row {
	return batch.Row{Step: fmt.Sprint(step), Kind: batch.Spending, Model: e.Answer.Model, Requests: 1,
		Usage: e.Answer.Usage, Cost: e.Answer.Cost}
}

// Accounts are what a batch of scripted runs came to.
type Accounts struct {
	Done     int // runs
	Lost     int // leases that were taken over
	Ledger   batch.Spent
	Sessions batch.Spent
	Calls    int // of the model
	Repeated int // of them: calls of a step that had one before
	Unlisted int // of the repeated: not among the requests that the ledger lists as unknown
}

// Accounts reads what the ledger, the sessions and the file of calls say about a batch. All its runs must be done.
func (s Script) Accounts(changes iter.Seq2[batch.Change, error]) (a Accounts, err error) {
	var listed []string
	for c, err := range changes {
		if err != nil {
			return a, err
		}
		if c.Run == nil {
			a.Ledger = c.Totals.Spent
			continue
		}
		if c.Run.State != batch.Done {
			return a, fmt.Errorf("%s is %s", c.Run.Key, c.Run.State)
		}
		a.Done++
		a.Lost += c.Run.Lost
		for _, row := range batch.Unanswered(*c.Run) {
			listed = append(listed, fmt.Sprint(c.Run.ID, " ", row.Step, " ", row.Token))
		}
		journal, err := s.Sessions.Read("s-" + c.Run.ID)
		if err != nil {
			return a, err
		}
		for x := range session.Spending(slices.Collect(journal.All())...) {
			a.Sessions.Add(batch.Spent{Requests: x.Requests, Usage: x.Usage, Cost: x.Cost})
		}
		if err := journal.Close(); err != nil {
			return a, err
		}
	}
	f, err := os.Open(s.Calls)
	if err != nil {
		return a, err
	}
	defer f.Close()
	calls := map[string][]string{} // of each step
	lines := bufio.NewScanner(f)
	for ; lines.Scan(); a.Calls++ {
		step := lines.Text()[:strings.LastIndex(lines.Text(), " ")]
		calls[step] = append(calls[step], lines.Text())
	}
	a.Repeated = a.Calls - len(calls)
	for _, of := range calls {
		unlisted := 0
		for _, call := range of {
			if !slices.Contains(listed, call) {
				unlisted++
			}
		}
		a.Unlisted += max(0, unlisted-1) // one has its answer
	}
	return a, lines.Err()
}

// Check returns what is wrong with the accounts of a number of runs whose workers were killed while they had so many.
func (a Accounts) Check(runs, killed int) error {
	switch l, s := a.Ledger, a.Sessions; {
	case a.Done != runs:
		return fmt.Errorf("%d runs ended, not %d", a.Done, runs)
	case l.Requests != s.Requests || l.Usage != s.Usage || fmt.Sprintf("%.6f", l.Cost) != fmt.Sprintf("%.6f", s.Cost):
		return errors.New("the ledger and the sessions differ")
	case l.Requests != runs*Steps:
		return fmt.Errorf("%d requests are recorded, not %d", l.Requests, runs*Steps)
	case a.Repeated > killed:
		return fmt.Errorf("%d calls were repeated, more than %d", a.Repeated, killed)
	case a.Unlisted > 0:
		return fmt.Errorf("%d repeated calls are not listed", a.Unlisted)
	}
	return nil
}

// String describes the accounts in lines.
func (a Accounts) String() string {
	return fmt.Sprintf("  %d runs ended once; %d leases of dead or hanging workers\n"+
		"  ledger: %d requests, $%.3f; sessions: %d requests, $%.3f\n"+
		"  %d calls of the model: %d repeated, %d of them not listed; %d requests are listed as unknown\n", a.Done, a.Lost,
		a.Ledger.Requests, a.Ledger.Cost, a.Sessions.Requests, a.Sessions.Cost, a.Calls, a.Repeated, a.Unlisted,
		a.Ledger.Unknown)
}
