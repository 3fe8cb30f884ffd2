package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/knack-agent/knack/run/agent"
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
	t := s.Now()
	now := t.resolved(m.Input) // what it calls is looked up again when it leaves the queue
	if c, ok := t.command(now); ok && c.Anytime {
		reply, err := c.run(ctx, s, now)
		return Queued{Reply: &reply}, err
	} else if ok && m.When != Later {
		return Queued{}, fmt.Errorf("/%s: %w", c.Name, ErrCommandWaits)
	}
	s.mu.Lock()
	if !s.running {
		s.mu.Unlock()
		return Queued{}, ErrIdle
	}
	s.woken.begin(false, false)
	m = s.queue.add(m)
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
	_, found := s.queue.take(func(m QueuedMessage) bool { return m.ID == id })
	if found {
		s.changed()
	}
	return found
}

// steer removes and returns the next message for the running turn.
func (t *Turn) steer() (agent.Input, bool) {
	m, ok := t.session.queue.take(func(m QueuedMessage) bool { return m.When == Next })
	if !ok {
		return agent.Input{}, false
	}
	t.session.changed()
	return t.session.Now().resolved(m.Input), true
}

// A queue is the messages that the user has sent and that no turn has taken yet.
type queue struct {
	mu     sync.Mutex
	all    []QueuedMessage
	lastID int // number of IDs that were given
}

// add adds a message and gives it an ID if it has none.
func (q *queue) add(m QueuedMessage) QueuedMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.ID == "" {
		q.lastID++
		m.ID = fmt.Sprintf("m%d", q.lastID)
	}
	if m.When == Now {
		q.all = slices.Insert(q.all, 0, m)
	} else {
		q.all = append(q.all, m)
	}
	return m
}

// take removes and returns the first of certain messages.
func (q *queue) take(which func(QueuedMessage) bool) (QueuedMessage, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.all, which)
	if i < 0 {
		return QueuedMessage{}, false
	}
	m := q.all[i]
	q.all = slices.Delete(q.all, i, i+1)
	return m, true
}

func anyMessage(QueuedMessage) bool { return true }

func (q *queue) list() []QueuedMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.all)
}
