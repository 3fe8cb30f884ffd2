package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/knack-agent/knack/durable/batch"
)

// Options configure a worker.
type Options struct {
	batch.Worker
	Jobs    int      // how many runs at a time; 0: 1
	Program []string // the program of a run with its arguments, before those of the batch
	Environ []string // of the user's programs; nil: that of the process
	State   string   // the directory for logs and copies
	Include []string // patterns of the ignored files that worktrees get a copy of
	// Bypass and Unconfined let it run tasks without permission checks, and without a sandbox: its user must have said
	// so, who is not always the one who submitted them. Otherwise such tasks fail.
	Bypass, Unconfined bool
	// Beat is the time between heartbeats; 0: 2 s, or a third of a shorter lease. A cancellation arrives with the next
	// one.
	Beat time.Duration
	// Grace is how long the process of a run may take to stop; 0: 5 s.
	Grace time.Duration
	// Trust lets a copy or worktree have the trust of the directory that it was made from; nil: it is not trusted.
	Trust func(dir, from string) error
	// Show is told what runs do, and of faults. It may be called by several goroutines. nil: nobody is.
	Show func(Event)
	// Drain, if not nil, is closed when no more runs are to be claimed; Work returns when those that run have ended.
	Drain <-chan struct{}
}

// An Event tells what a worker does.
type Event struct {
	Run   *batch.Run
	Doing string // what a run does now
	Over  bool   // the run has ended, or its lease has
	Err   error  // the queue cannot be used now; it is tried again
}

// pause is how long a worker waits after the queue had nothing to run.
const pause = 300 * time.Millisecond

// Work claims and runs what the queue has for this worker until ctx ends, or Drain is closed. When ctx ends, runs are
// stopped and go on later. It returns when no process is left.
func Work(ctx context.Context, q batch.Queue, o Options) {
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	if o.Lease == 0 {
		o.Lease = batch.DefaultLease
	}
	if o.Beat == 0 {
		o.Beat = min(2*time.Second, o.Lease/3)
	}
	if o.Show == nil {
		o.Show = func(Event) {}
	}
	w := &worker{Options: o, queue: q}
	slots := make(chan struct{}, max(1, o.Jobs))
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		case <-o.Drain:
			return
		}
		l, err := w.claim(ctx)
		if err != nil {
			return
		}
		running.Go(func() {
			defer func() { <-slots }()
			w.run(ctx, l)
		})
	}
}

type worker struct {
	Options
	queue batch.Queue
	git   sync.Mutex // worktrees of one repository are made one after another
}

var errDrained = errors.New("no more runs are wanted")

// claim waits for a run.
func (w *worker) claim(ctx context.Context) (batch.Lease, error) {
	told := false
	for {
		select {
		case <-ctx.Done():
			return batch.Lease{}, ctx.Err()
		case <-w.Drain:
			return batch.Lease{}, errDrained
		default:
		}
		l, err := w.queue.Claim(ctx, w.Worker)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, batch.ErrEmpty) && ctx.Err() == nil && !told {
			told = true
			w.Show(Event{Err: err})
		}
		select {
		case <-ctx.Done():
		case <-w.Drain:
		case <-time.After(pause):
		}
	}
}

// run runs one lease to its end.
func (w *worker) run(ctx context.Context, l batch.Lease) {
	defer w.Show(Event{Run: &l.Run, Over: true})
	w.Show(Event{Run: &l.Run, Doing: "starts"})
	place, err := w.prepare(ctx, l)
	end, rows := batch.End{State: batch.Failed, Fatal: true}, []batch.Row(nil)
	switch {
	case err == nil:
		end, rows, err = w.supervise(ctx, l, place.dir)
		if err == nil { // perhaps this worker was stopped, and another one works there now
			_, err = w.queue.Heartbeat(context.WithoutCancel(ctx), l, nil)
		}
		if errors.Is(err, batch.ErrLost) {
			return
		}
		end.Session, end.Dir = SessionID(l.Run), place.dir // which may be gone later
		if err := w.keepChanges(context.WithoutCancel(ctx), l, place, &end); err != nil && end.State == batch.Done {
			end.State, end.Fatal = batch.Failed, true
			end.Error = "its changes could not be kept: " + err.Error()
		}
	case ctx.Err() != nil:
		end = batch.End{State: batch.Ready}
	default:
		end.Error = err.Error()
	}
	w.finish(ctx, l, end, rows)
}

// finish ends the lease. While the queue cannot be written it tries again; a program that is to stop gives up soon,
// because the session has everything and the next worker will find it.
func (w *worker) finish(ctx context.Context, l batch.Lease, end batch.End, rows []batch.Row) {
	if end.State == batch.Failed && l.Run.Failures < l.Batch.Retries {
		end.After = min(time.Minute, time.Second<<l.Run.Failures)
	}
	told := false
	for try := 0; ; try++ {
		err := w.queue.Finish(context.WithoutCancel(ctx), l, end, rows)
		if err == nil || errors.Is(err, batch.ErrLost) || ctx.Err() != nil && try > 3 {
			return
		}
		if !told {
			told = true
			w.Show(Event{Run: &l.Run, Err: fmt.Errorf("the end of %s cannot be recorded yet: %w", l.Run.Key, err)})
		}
		select {
		case <-time.After(w.Beat):
		case <-ctx.Done():
			time.Sleep(pause)
		}
	}
}
