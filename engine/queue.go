package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/knack-agent/knack/agent"
)

// A QueuedMessage is a message that the user sends during a turn.
type QueuedMessage struct {
	agent.Input
	ID   string // Send sets it if it is ""
	When When
}

// A When determines when a message enters the conversation. The zero When is Next.
type When uint8

const (
	Next  When = iota // after the tools of the current answer
	Later             // after the turn, as a turn of its own
	Now               // at once: the current turn is cancelled, and this becomes the next one
)

// Queued is the result of Send: the message waits in the queue, or it was a command that has run.
type Queued struct {
	ID    string
	Reply *Reply
}

// ErrCommandWaits is the error for a command that cannot run during a turn.
var ErrCommandWaits = errors.New("this command runs when the turn has ended")

// Send accepts a message that the user sends during a turn. A command of the program runs at once if it
// can run at any time. Any other command runs after the turn: with Later it is queued, otherwise the
// error is ErrCommandWaits. If no turn is running, the error is ErrIdle: use Run instead.
func (s *Session) Send(ctx context.Context, m QueuedMessage) (Queued, error) {
	if err := s.open(); err != nil {
		return Queued{}, err
	}
	now := s.resolved(m.Input) // what it calls is looked up again when it leaves the queue
	if c, ok := s.command(now); ok && c.Anytime {
		reply, err := s.runCommand(ctx, c, now.Called.Args)
		return Queued{Reply: &reply}, err
	} else if ok && m.When != Later {
		return Queued{}, fmt.Errorf("/%s: %w", c.Name, ErrCommandWaits)
	}
	s.mu.Lock()
	if !s.running {
		s.mu.Unlock()
		return Queued{}, ErrIdle
	}
	if m.ID == "" {
		s.lastID++
		m.ID = fmt.Sprintf("m%d", s.lastID)
	}
	if m.When == Now {
		s.queue = slices.Insert(s.queue, 0, m)
	} else {
		s.queue = append(s.queue, m)
	}
	stop := s.interrupt
	s.mu.Unlock()
	s.changed()
	if m.When == Now && stop != nil {
		stop(errInterrupted)
	}
	return Queued{ID: m.ID}, nil
}

var errInterrupted = errors.New("interrupted by the next message")

// RemoveQueued removes a message that is still in the queue.
func (s *Session) RemoveQueued(id string) bool {
	s.mu.Lock()
	n := len(s.queue)
	s.queue = slices.DeleteFunc(s.queue, func(m QueuedMessage) bool { return m.ID == id })
	found := len(s.queue) < n
	s.mu.Unlock()
	if found {
		s.changed()
	}
	return found
}

// steer removes and returns the next message for the running turn.
func (s *Session) steer() (agent.Input, bool) {
	m, ok := s.takeFirst(func(m QueuedMessage) bool { return m.When == Next })
	if !ok {
		return agent.Input{}, false
	}
	return s.resolved(m.Input), true
}

// next removes and returns the message that starts the next turn.
func (s *Session) next() (QueuedMessage, bool) {
	return s.takeFirst(func(QueuedMessage) bool { return true })
}

// takeAll removes and returns all messages.
func (s *Session) takeAll() (all []QueuedMessage) {
	for m, ok := s.next(); ok; m, ok = s.next() {
		all = append(all, m)
	}
	return all
}

func (s *Session) takeFirst(which func(QueuedMessage) bool) (QueuedMessage, bool) {
	s.mu.Lock()
	i := slices.IndexFunc(s.queue, which)
	if i < 0 {
		s.mu.Unlock()
		return QueuedMessage{}, false
	}
	m := s.queue[i]
	s.queue = slices.Delete(s.queue, i, i+1)
	s.mu.Unlock()
	s.changed()
	return m, true
}
