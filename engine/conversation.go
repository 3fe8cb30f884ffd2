package engine

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/knack-agent/knack/run/agent"
)

// A Conversation runs turns and follows the commands that replace the session, such as /new and /resume. One turn
// runs at a time; the other methods may be called at any time and from any goroutine.
type Conversation struct {
	mu      sync.Mutex
	session *Session
	unsent  []QueuedMessage // of sessions that were replaced
}

// Converse returns the Conversation that begins with s.
func Converse(s *Session) *Conversation { return &Conversation{session: s} }

// Session returns the session that is current.
func (c *Conversation) Session() *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Begin shows the session with an Event, and begins it: see [Session.Begin]. Call it before the first turn; Run begins
// those that follow.
func (c *Conversation) Begin(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s := c.Session()
		if !yield(Event{Session: s}, nil) {
			return
		}
		for e, err := range s.Begin(ctx) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Run is [Session.Run] for the session that is current. If a command replaces it, Run yields an Event with the next
// session, closes the old one and begins the next; this may last, because both run hooks. From that Event on, the next
// session is current, and may run a turn.
func (c *Conversation) Run(ctx context.Context, in agent.Input) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s, next := c.Session(), (*Session)(nil)
		for e, err := range s.Run(ctx, in) {
			if e.Reply != nil && e.Reply.Next != nil {
				next = e.Reply.Next
			}
			if !yield(e, err) {
				if next != nil { // the caller never learns of it
					next.Close()
				}
				return
			}
		}
		if next == nil {
			return
		}
		left := takeAll(s)
		c.mu.Lock()
		c.session, c.unsent = next, append(c.unsent, left...)
		c.mu.Unlock()
		if !yield(Event{Session: next}, nil) {
			s.Close()
			return
		}
		if err := s.Close(); err != nil && !yield(Event{}, err) {
			return
		}
		for e, err := range next.Begin(ctx) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Turn runs a turn and returns its Report, also if it fails. show, if not nil, gets the events as they happen.
func (c *Conversation) Turn(ctx context.Context, in agent.Input, show func(Event)) (r Report, err error) {
	r.Began = time.Now()
	defer func() { r.Took = time.Since(r.Began) }()
	for e, err := range c.Run(ctx, in) {
		if err != nil {
			return r, err
		}
		r.Add(e)
		if show != nil {
			show(e)
		}
	}
	return r, nil
}

// Unsent removes and returns the messages that no turn has taken, because the last one was stopped or failed, or
// its session was replaced.
func (c *Conversation) Unsent() []QueuedMessage {
	left := takeAll(c.Session())
	c.mu.Lock()
	defer c.mu.Unlock()
	left = slices.Concat(c.unsent, left)
	c.unsent = nil
	return left
}

// Close closes the current session.
func (c *Conversation) Close() error { return c.Session().Close() }

// takeAll removes and returns the messages that no turn of a session has taken.
func takeAll(s *Session) (all []QueuedMessage) {
	for m, ok := s.queue.take(anyMessage); ok; m, ok = s.queue.take(anyMessage) {
		all = append(all, m)
	}
	if len(all) > 0 {
		s.changed()
	}
	return all
}
