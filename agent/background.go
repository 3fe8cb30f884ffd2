package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/knack-agent/knack/session"
)

// Background holds the sub-agents that work while the conversation that
// started them continues, and the goroutines that they run in. The zero
// Background has none. Close it before the logs of the conversations. It is
// safe for concurrent use, and for several sessions.
type Background struct {
	// Wait makes a run continue until its agents have ended and the model has seen
	// their reports, for conversations that nobody will resume. Sub-agents always
	// wait for their own.
	Wait bool

	mu      sync.Mutex
	closed  bool
	all     []*worker     // in the order of their starts, without those whose end is recorded
	changed chan struct{} // closed when one ends; nil: nothing waits
	done    sync.WaitGroup
}

// A worker is a sub-agent in the background.
type worker struct {
	log  *session.Log // of the conversation that it works for
	sub  *run
	stop context.CancelCauseFunc
	over chan struct{}  // closed when it has ended
	end  *session.Agent // set when it has ended; under Background.mu
}

var errClosed = errors.New("the session ended")

// start runs the task of a sub-agent. ctx is that of the call, which it
// outlives.
func (b *Background) start(ctx context.Context, log *session.Log, sub *run, t task) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		sub.log.Close()
		return errClosed
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	w := &worker{log: log, sub: sub, stop: stop, over: make(chan struct{})}
	b.all = append(b.all, w)
	b.done.Go(func() {
		end := sub.work(ctx, t)
		stop(nil)
		b.mu.Lock()
		defer b.mu.Unlock()
		w.end = &end
		close(w.over)
		if b.changed != nil {
			close(b.changed)
			b.changed = nil
		}
	})
	return nil
}

// take hands over what has ended for a conversation. more is closed when
// another one ends; nil: none works.
func (b *Background) take(log *session.Log) (ended []*worker, more <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	working := false
	b.all = slices.DeleteFunc(b.all, func(w *worker) bool {
		switch {
		case w.log != log:
			return false
		case w.end == nil:
			working = true
			return false
		}
		ended = append(ended, w)
		return true
	})
	if working {
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		more = b.changed
	}
	return ended, more
}

// cancel stops the agents of a conversation and waits for them.
func (b *Background) cancel(log *session.Log, why error) {
	b.mu.Lock()
	all := slices.Clone(b.all)
	b.mu.Unlock()
	for _, w := range all {
		if w.log == log {
			w.stop(why)
		}
	}
	for _, w := range all {
		if w.log == log {
			<-w.over
		}
	}
}

// Stop stops one agent of a conversation, by the id of its log. It reports
// whether that one works.
func (b *Background) Stop(log *session.Log, id string, why error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.all {
		if w.log == log && w.end == nil && w.sub.log.ID() == id {
			w.stop(why)
			return true
		}
	}
	return false
}

// Log returns the log of an agent that works for a conversation, by its id; nil:
// none of that id works.
func (b *Background) Log(log *session.Log, id string) *session.Log {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.all {
		if w.log == log && w.end == nil && w.sub.log.ID() == id {
			return w.sub.log
		}
	}
	return nil
}

// Unheard lists the agents whose end a conversation has not recorded. Those
// that have ended have a Reason.
func (b *Background) Unheard(log *session.Log) []session.Agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []session.Agent
	for _, w := range b.all {
		switch {
		case w.log != log:
		case w.end != nil:
			all = append(all, *w.end)
		default:
			all = append(all, w.sub.what)
		}
	}
	return all
}

// Close stops all agents, waits for them, and records in the logs of their
// conversations how those ended whose end is not recorded yet. Agents started
// later are refused.
func (b *Background) Close() error {
	b.mu.Lock()
	b.closed = true
	all := slices.Clone(b.all)
	b.mu.Unlock()
	for _, w := range all {
		w.stop(errClosed)
	}
	b.done.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.all = b.all, nil
	return recordEnds(all)
}

// End does for one conversation what Close does for all.
func (b *Background) End(log *session.Log) error {
	b.cancel(log, errClosed)
	ended, _ := b.take(log)
	return recordEnds(ended)
}

// recordEnds records how agents ended, where no run will do so any more.
func recordEnds(ended []*worker) error {
	var errs []error
	for _, w := range ended {
		if w.end.Reason == session.EndCancelled {
			w.end.Reason = session.EndInterrupted
		}
		_, err := w.log.Append(session.Entry{Type: session.TypeAgent, Agent: w.end})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// finishedAgents records what has ended in the background, and shows what it did.
// more is closed when more ends; nil: nothing works.
func (r *run) finishedAgents() (any bool, more <-chan struct{}, err error) {
	if r.Roster.Background == nil {
		return false, nil, nil
	}
	ended, more := r.Roster.Background.take(r.log)
	for _, w := range ended {
		a := *w.end
		of := &Sub{Name: a.Name, Log: a.Log, Call: a.Call, Depth: w.sub.depth()}
		for _, e := range w.sub.log.Entries() {
			r.emit(Event{Agent: of, Entry: &e})
		}
		if _, err := r.record(session.Entry{Type: session.TypeAgent, Agent: &a}); err != nil {
			return any, more, err
		}
		any = true
	}
	return any, more, nil
}

// await waits, where the run is to wait, until something has ended in the
// background; false: there is nothing to wait for.
func (r *run) await(ctx context.Context) (bool, error) {
	for {
		any, more, err := r.finishedAgents()
		if any || err != nil {
			return any, err
		}
		if more == nil || !r.Roster.Background.Wait && r.parent == nil {
			return false, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// leave stops the background agents whose reports nobody would read: those of a
// cancelled turn, and those of a sub-agent.
func (r *run) leave(cancelled bool) error {
	if r.Roster.Background == nil || !cancelled && r.parent == nil {
		return nil
	}
	r.Roster.Background.cancel(r.log, context.Canceled)
	_, _, err := r.finishedAgents()
	return err
}

// interrupted records of the agents that worked when the program ended that
// nobody knows what they did.
func (r *run) interrupted() error {
	open := r.log.State().Agents
	if r.Roster.Background != nil {
		for _, a := range r.Roster.Background.Unheard(r.log) {
			delete(open, a.Log)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(open)) {
		a := open[id]
		a.Reason = session.EndInterrupted
		if r.Roster.Forked != nil {
			if log, err := r.Roster.Forked(id); err == nil {
				s := log.State()
				a.Requests, a.Usage, a.Cost, a.Denials = s.Requests, s.Usage, s.Cost, s.Denials
			}
		}
		if _, err := r.record(session.Entry{Type: session.TypeAgent, Agent: &a}); err != nil {
			return err
		}
	}
	return nil
}
