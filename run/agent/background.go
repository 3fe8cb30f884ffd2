package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/knack-agent/knack/run/session"
)

// Background runs sub-agents while the conversation that started them continues. Its zero value
// is ready to use. Close it before the logs of the conversations. It is safe for concurrent use
// and can serve several sessions.
type Background struct {
	// Wait makes a run continue until its agents have ended and the model has seen their reports.
	// Set it for conversations that will not be resumed. Sub-agents always wait for their own
	// agents.
	Wait bool
	// Changed is called when an agent has started or ended; nil: nothing is. It must not wait for this Background.
	Changed func()

	mu      sync.Mutex
	closed  bool
	workers []*worker     // in start order, without those whose end is recorded
	changed chan struct{} // closed when a worker ends; nil if nothing waits for that
	running sync.WaitGroup
}

// A worker is a sub-agent in the background.
type worker struct {
	parentLog *session.Log // the log of the conversation that started it
	sub       *run
	stop      context.CancelCauseFunc
	ended     chan struct{}  // closed when it has ended
	end       *session.Agent // set when it has ended; protected by Background.mu
}

var errClosed = errors.New("the session ended")

// start runs the task of a sub-agent. The agent does not stop when ctx, the context of the call, is
// cancelled.
func (b *Background) start(ctx context.Context, log *session.Log, sub *run, t task) error {
	defer b.notify() // after unlocking
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		sub.log.Close()
		return errClosed
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	w := &worker{parentLog: log, sub: sub, stop: stop, ended: make(chan struct{})}
	b.workers = append(b.workers, w)
	b.running.Go(func() {
		end := sub.agents.work(ctx, t)
		stop(nil)
		b.mu.Lock()
		w.end = &end
		close(w.ended)
		if b.changed != nil {
			close(b.changed)
			b.changed = nil
		}
		b.mu.Unlock()
		b.notify()
	})
	return nil
}

func (b *Background) notify() {
	if b.Changed != nil {
		b.Changed()
	}
}

// takeEnded removes and returns the agents of a conversation that have ended. more is closed when
// another one ends; it is nil if none is working.
func (b *Background) takeEnded(log *session.Log) (ended []*worker, more <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	working := false
	b.workers = slices.DeleteFunc(b.workers, func(w *worker) bool {
		switch {
		case w.parentLog != log:
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

// cancel stops the agents of a conversation and waits until they have ended.
func (b *Background) cancel(log *session.Log, why error) {
	b.mu.Lock()
	all := slices.Clone(b.workers)
	b.mu.Unlock()
	for _, w := range all {
		if w.parentLog == log {
			w.stop(why)
		}
	}
	for _, w := range all {
		if w.parentLog == log {
			<-w.ended
		}
	}
}

// Stop stops the agent of a conversation whose log has the given id. It reports whether such an
// agent was working.
func (b *Background) Stop(log *session.Log, id string, why error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.workers {
		if w.parentLog == log && w.end == nil && w.sub.log.ID() == id {
			w.stop(why)
			return true
		}
	}
	return false
}

// Log returns the log of a working agent of a conversation by its id, or nil if there is none.
func (b *Background) Log(log *session.Log, id string) *session.Log {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.workers {
		if w.parentLog == log && w.end == nil && w.sub.log.ID() == id {
			return w.sub.log
		}
	}
	return nil
}

// Unreported returns the agents whose end the conversation has not recorded yet. An agent that has
// ended has a Reason, a working one has none.
func (b *Background) Unreported(log *session.Log) []session.Agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []session.Agent
	for _, w := range b.workers {
		switch {
		case w.parentLog != log:
		case w.end != nil:
			all = append(all, *w.end)
		default:
			all = append(all, w.sub.subRecord)
		}
	}
	return all
}

// Close stops all agents, waits for them, and records in the logs of their conversations how they
// ended, unless that is already recorded. Later starts fail.
func (b *Background) Close() error {
	b.mu.Lock()
	b.closed = true
	all := slices.Clone(b.workers)
	b.mu.Unlock()
	for _, w := range all {
		w.stop(errClosed)
	}
	b.running.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.workers = b.workers, nil
	return recordEnds(all)
}

// End does the same as Close for a single conversation; new agents may still be started.
func (b *Background) End(log *session.Log) error {
	b.cancel(log, errClosed)
	ended, _ := b.takeEnded(log)
	return recordEnds(ended)
}

// recordEnds records how agents ended in the logs of their conversations, for the case that no run
// does it any more.
func recordEnds(ended []*worker) error {
	var errs []error
	for _, w := range ended {
		if w.end.Reason == session.EndCancelled {
			w.end.Reason = session.EndInterrupted
		}
		_, err := w.parentLog.Append(session.Entry{Type: session.TypeAgent, Agent: w.end})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// finished records the agents that have ended in the background and emits their events. more
// is closed when another one ends; it is nil if none is working.
func (r *subAgents) finished() (found bool, more <-chan struct{}, err error) {
	if r.Roster.Background == nil {
		return false, nil, nil
	}
	ended, more := r.Roster.Background.takeEnded(r.log)
	for _, w := range ended {
		a := *w.end
		of := &Sub{Name: a.Name, Log: a.Log, Call: a.Call, Depth: w.sub.depth()}
		for e := range w.sub.log.All() {
			r.emit(Event{Agent: of, Entry: &e})
		}
		if _, err := r.record(session.Entry{Type: session.TypeAgent, Agent: &a}); err != nil {
			return found, more, err
		}
		found = true
	}
	return found, more, nil
}

// await waits for a background agent to end, and reports whether one did. It does not wait if no agent
// is working, or if this run should end without its agents.
func (r *subAgents) await(ctx context.Context) (bool, error) {
	for {
		found, more, err := r.finished()
		if found || err != nil {
			return found, err
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

// stopBackground stops the background agents whose reports would not be read: those of a cancelled turn and
// those of a sub-agent.
func (r *subAgents) stopBackground(cancelled bool) error {
	if r.Roster.Background == nil || !cancelled && r.parent == nil {
		return nil
	}
	r.Roster.Background.cancel(r.log, context.Canceled)
	_, _, err := r.finished()
	return err
}

// interrupted records agents as interrupted if they were working when an earlier program ended: the
// log has their start but not their end, and Background does not run them.
func (r *subAgents) interrupted() error {
	open := r.log.State().Agents
	if r.Roster.Background != nil {
		for _, a := range r.Roster.Background.Unreported(r.log) {
			delete(open, a.Log)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(open)) {
		a := open[id]
		a.Reason = session.EndInterrupted
		if r.Roster.Interrupted != nil {
			if log, err := r.Roster.Interrupted(id); err == nil {
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
