package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/telemetry"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/sources"
)

// A batchResult is a line of the results of a batch.
type batchResult struct {
	Batch    string          `json:"batch"`
	Task     string          `json:"task"`
	Run      string          `json:"run"`
	State    batch.State     `json:"state"`
	Text     string          `json:"text,omitempty"`
	Error    string          `json:"error,omitempty"`
	Question json.RawMessage `json:"question,omitempty"`
	Cost     float64         `json:"cost"` // US dollars
	Requests int             `json:"requests"`
	Unknown  int             `json:"unknown_requests,omitempty"` // sent, and no answer recorded
	// Uncertain are calls that had begun when the run was stopped: they may have happened, perhaps twice. Only where the
	// rows of the ledger were read.
	Uncertain []string `json:"uncertain_calls,omitempty"`
	Seconds   float64  `json:"seconds"`
	Attempts  int      `json:"attempts"`
	Calls     int      `json:"calls,omitempty"`
	Refused   int      `json:"refused_calls,omitempty"`
	Session   string   `json:"session,omitempty"`
	Branch    string   `json:"branch,omitempty"`
	Dir       string   `json:"dir,omitempty"`
	Ignored   []string `json:"ignored,omitempty"` // files in dir that git ignores, and that are nowhere else
}

func resultOf(r batch.Run) batchResult {
	x := batchResult{Batch: r.Batch, Task: r.Key, Run: r.ID, State: r.State, Question: r.Question, Cost: r.Spent.Cost,
		Requests: r.Spent.Requests, Unknown: r.Spent.Unknown, Seconds: r.Took.Seconds(), Attempts: r.Attempt,
		Uncertain: batch.UncertainCalls(r)}
	if e := r.End; e != nil {
		x.Session, x.Branch, x.Dir, x.Calls, x.Refused = e.Session, e.Branch, e.Dir, e.Calls, e.Refusals
		x.Ignored = e.Ignored
		if r.State.Ended() {
			x.Text, x.Error = e.Text, e.Error
		}
	}
	return x
}

// A batchRunner runs tasks of a batch in this process and shows its progress and results.
type batchRunner struct {
	queue   batch.Queue
	batch   batch.Batch
	results *json.Encoder // nil: nobody reads them
	view    batchView
	out     error // the first one of writing results

	shown  map[string]batch.State // runs whose end was shown
	newer  map[string]bool        // runs that are ready, and need a newer version of the program
	totals batch.Totals
}

// A batchView shows the progress of a batch to people.
type batchView interface {
	begin(b batch.Batch, t batch.Totals)
	ended(r batch.Run)
	waits(r batch.Run)
	event(e work.Event)
	update(t batch.Totals) // may be called often
	end()
}

// work runs tasks of a batch and prints results until no task is left that can run, and asks what tasks wait for on a
// terminal.
func (f *batchFlags) work(c *cobra.Command, q batch.Queue, b batch.Batch) error {
	c.SetErr(&lockedWriter{Writer: c.ErrOrStderr()})
	w := &batchRunner{queue: q, batch: b, shown: map[string]batch.State{}, newer: map[string]bool{}}
	var out io.Writer
	switch {
	case f.out != "" && f.out != "-":
		file, err := f.create()
		if err != nil {
			return err
		}
		defer file.Close()
		out = file
	case f.out == "-" || !isTerminal(c.OutOrStdout()):
		out = c.OutOrStdout()
	}
	if out != nil {
		w.results = json.NewEncoder(plain.JSON(out))
		w.results.SetEscapeHTML(false)
	}
	w.view = newBatchView(c, out != nil && isTerminal(out))
	ctx, drain, stop := twice(c.Context(), func() {
		fmt.Fprintln(c.ErrOrStderr(), "\nknack: the running tasks end first; Ctrl-C again stops them")
	})
	defer stop()
	env, traced := telemetry.Batch(ctx, engine.Env(nil), version(), b.Name)
	defer traced()
	for {
		err := w.work(ctx, drain, f, env)
		w.view.end()
		if err == nil && w.out != nil {
			err = fmt.Errorf("the results could not be written: %w", w.out)
		}
		if err != nil {
			return err
		}
		if left := w.totals.Runs[batch.Waiting]; left == 0 || !isTerminal(c.InOrStdin()) ||
			!isTerminal(underlying(c.ErrOrStderr())) {
			return w.summary(ctx, drain, c)
		}
		if n, err := answerWaiting(c, q, batch.Filter{Batch: b.ID}); err != nil || n == 0 {
			return errors.Join(err, w.summary(ctx, drain, c))
		}
	}
}

// create makes the file of --out anew.
func (f *batchFlags) create() (*os.File, error) {
	return outfile.Open(sources.Root("."), f.out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
}

// work runs a worker and shows what happens until no task can run. env are variables for the runs.
func (w *batchRunner) work(ctx context.Context, drain <-chan struct{}, f *batchFlags, env []string) error {
	o, err := workerOptions("batch", f.lease)
	if err != nil {
		return err
	}
	if env != nil {
		o.Environ = append(os.Environ(), env...)
	}
	o.Bypass, o.Unconfined = true, true // the flags of its tasks are those of this command
	events := make(chan work.Event)
	over := make(chan struct{})
	enough := make(chan struct{}) // nothing is left
	o.Batch, o.Jobs = w.batch.ID, w.batch.Jobs
	o.Show = func(e work.Event) {
		select {
		case events <- e:
		case <-over:
		}
	}
	both := make(chan struct{})
	go func() {
		select {
		case <-drain:
		case <-enough:
		}
		close(both)
	}()
	o.Drain = both
	worker := make(chan struct{})
	watch, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	changes := make(chan batch.Change)
	failed := make(chan error, 1)
	watcher := make(chan struct{})
	defer func() {
		stopWatching()
		close(over)
		<-watcher
		<-worker
	}()
	go func() {
		defer close(watcher)
		for c, err := range w.queue.Watch(watch, batch.Filter{Batch: w.batch.ID, Follow: true}) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case changes <- c:
			case <-watch.Done():
				return
			}
		}
	}()
	go func() {
		defer close(worker)
		work.Work(ctx, w.queue, o)
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	begun, done := false, false
	finish := func() {
		if !done {
			done = true
			close(enough)
		}
	}
	defer finish()
	for {
		select {
		case c := <-changes:
			if c.Batch != nil {
				w.totals = c.Totals
				if !begun {
					begun = true
					w.view.begin(*c.Batch, c.Totals)
				}
				break
			}
			w.change(*c.Run)
		case e := <-events:
			w.view.event(e)
		case <-tick.C:
			// The batch came before its runs, so a decision waits until both were read.
			if begun && w.idle() {
				finish()
			}
			w.view.update(w.totals)
		case err := <-failed:
			finish()
			if ctx.Err() == nil {
				return fmt.Errorf("the queue cannot be read: %w", err)
			}
			failed = nil
		case <-worker:
			return w.last(context.WithoutCancel(ctx))
		}
	}
}

// idle reports whether nothing is left that a worker could do.
func (w *batchRunner) idle() bool {
	t := w.totals
	held := w.batch.MaxCost > 0 && t.Spent.Cost >= w.batch.MaxCost
	return t.Runs[batch.Running] == 0 && (t.Runs[batch.Ready] <= len(w.newer) || held)
}

// last shows the changes after the last one that was shown.
func (w *batchRunner) last(ctx context.Context) error {
	for c, err := range w.queue.Watch(ctx, batch.Filter{Batch: w.batch.ID}) {
		if err != nil {
			return err
		}
		if c.Batch != nil {
			w.totals = c.Totals
		} else {
			w.change(*c.Run)
		}
	}
	return nil
}

func (w *batchRunner) change(r batch.Run) {
	if r.State == batch.Ready && r.Task.Needs > batch.Version {
		w.newer[r.ID] = true
	} else {
		delete(w.newer, r.ID)
	}
	if !r.State.Ended() && r.State != batch.Waiting {
		delete(w.shown, r.ID) // it was begun anew
		return
	}
	if w.shown[r.ID] == r.State {
		return
	}
	w.shown[r.ID] = r.State
	if r.State == batch.Waiting {
		w.view.waits(r)
		return
	}
	w.view.ended(r)
	if w.results != nil && w.out == nil {
		w.out = w.results.Encode(resultOf(r))
	}
}

// summary prints how the batch stands, and returns the error with the exit code.
func (w *batchRunner) summary(ctx context.Context, drain <-chan struct{}, c *cobra.Command) error {
	t, stderr := w.totals, c.ErrOrStderr()
	fmt.Fprintf(stderr, "knack: batch %s: %s\n", w.batch.ID, totalsLine(t))
	hint := "knack batch report " + w.batch.ID
	drained := false
	select {
	case <-drain:
		drained = true
	default:
	}
	held := w.batch.MaxCost > 0 && t.Spent.Cost >= w.batch.MaxCost && t.Runs[batch.Ready] > 0
	switch {
	case ctx.Err() != nil:
		err := engine.Interrupted(ctx)
		var e *engine.Error
		if errors.As(err, &e) && e.Hint == "" && t.Left() > 0 {
			err = &engine.Error{Err: e.Err, Hint: "the same command goes on", Exit: e.Exit}
		}
		return err
	case drained && t.Left() > 0:
		return &engine.Error{Err: fmt.Errorf("interrupted: %s left", plain.Count(t.Left(), "task")),
			Hint: "the same command goes on", Exit: engine.ExitInterrupted}
	case held:
		return &engine.Error{Err: fmt.Errorf("the limit of %s is reached: %s left", batch.Dollars(w.batch.MaxCost),
			plain.Count(t.Left(), "task")), Hint: "the same command with a higher --max-cost goes on"}
	case len(w.newer) > 0:
		need := plain.Count(len(w.newer), "task") + " needs"
		if len(w.newer) > 1 {
			need = strings.TrimSuffix(need, "s")
		}
		return &engine.Error{Err: fmt.Errorf("%s a newer version of knack", need), Hint: "knack batch status " + w.batch.ID}
	case t.Runs[batch.Failed] > 0 || t.Runs[batch.Cancelled] > 0:
		bad := t.Runs[batch.Failed] + t.Runs[batch.Cancelled]
		if t.Runs[batch.Waiting] > 0 {
			hint = "knack batch answer " + w.batch.ID + "\n" + hint
		}
		return &engine.Error{Err: fmt.Errorf("%s not done", are(bad, "task")),
			Hint: "knack batch retry " + w.batch.ID + "\n" + hint}
	case t.Runs[batch.Waiting] > 0:
		return &engine.Error{Err: fmt.Errorf("%s for an answer", theyWait(t.Runs[batch.Waiting])),
			Hint: "knack batch answer " + w.batch.ID, Exit: engine.ExitRefused}
	case t.Runs[batch.Refused] > 0:
		return &engine.Error{Err: fmt.Errorf("%s refused", are(t.Runs[batch.Refused], "task")), Hint: hint,
			Exit: engine.ExitRefused}
	}
	fmt.Fprintf(stderr, "knack: hint: %s\n", hintOf(c.Root(), hint))
	return nil
}

func theyWait(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return plain.Count(n, "task") + " wait"
}

// totalsLine describes totals in a line.
func totalsLine(t batch.Totals) string {
	line := ""
	for _, s := range []batch.State{batch.Done, batch.Running, batch.Ready, batch.Waiting, batch.Failed, batch.Refused,
		batch.Cancelled} {
		if n := t.Runs[s]; n > 0 || s == batch.Done {
			line += fmt.Sprintf("%s %s, ", plain.Number(n), s)
		}
	}
	line += batch.Dollars(t.Spent.Cost)
	if t.Spent.Unknown > 0 {
		line += fmt.Sprintf(" (and what %s without a recorded answer cost)", plain.Count(t.Spent.Unknown, "request"))
	}
	return line
}
