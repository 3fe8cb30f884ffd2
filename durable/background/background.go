// Package background has sessions that work without a terminal, on the queue of a machine: a list of them with what
// they do, messages to them, answers to what they ask, and their end.
//
// A session in the background is a batch of its own, whose tasks are its messages, one after the other: so a killed
// process loses nothing, and what a message cost is counted once. The conversation is a normal session, which any front
// end shows and continues while no task of it runs. Package work has the worker.
package background

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/work"
)

// A State is what a session does.
type State string

const (
	Ready   State = "ready"   // a message waits for a process that takes it
	Running State = "running" // it works
	Waiting State = "waiting" // for an answer of the user
	Done    State = "done"    // it has answered the last message
	Failed  State = "failed"
	Refused State = "refused" // permission was refused, and it could not go on
	Stopped State = "stopped" // by the user
)

// Working reports whether a session in this state goes on by itself.
func (s State) Working() bool { return s == Ready || s == Running }

// A Session is one that was sent to the background, as it is now.
type Session struct {
	ID     string `json:"id"` // of the conversation, too
	Name   string `json:"name"`
	Dir    string `json:"dir"` // absolute; where it works
	State  State  `json:"state"`
	Prompt string `json:"prompt"` // the message that it works on, or was the last; "": it goes on with an earlier one
	// Question is what it waits for; nil: nothing.
	Question *work.Question `json:"question,omitempty"`
	Text     string         `json:"text,omitempty"`  // the last answer
	Error    string         `json:"error,omitempty"` // why the last message was not done
	Queued   int            `json:"queued"`          // messages that wait until it has done those before
	Created  time.Time      `json:"created"`
	Changed  time.Time      `json:"changed"` // when it last began or ended to work on a message
	Cost     float64        `json:"cost"`    // US dollars, in the background alone

	// Batch and Runs are what the queue has about it: the options, and a run for each message.
	Batch batch.Batch `json:"-"`
	Runs  []batch.Run `json:"-"`
}

// BatchID returns the batch of a session.
func BatchID(session string) string { return batch.BackgroundPrefix + session }

// List returns the sessions that were not removed, those that were begun last first. id limits it to one; "": all.
func List(ctx context.Context, q batch.Queue, id string) (all []Session, err error) {
	f := batch.Filter{}
	if id != "" {
		f.Batch = BatchID(id)
	}
	at := map[string]int{}
	for c, err := range q.Watch(ctx, f) {
		if err != nil {
			return nil, err
		}
		if b := c.Batch; b != nil {
			if id, ok := strings.CutPrefix(b.ID, batch.BackgroundPrefix); ok && !b.Hidden {
				at[b.ID] = len(all)
				all = append(all, Session{ID: id, Name: b.Name, Dir: b.Dir, Created: b.Created, Cost: c.Totals.Spent.Cost,
					Batch: *b})
			}
			continue
		}
		if i, ok := at[c.Run.Batch]; ok {
			all[i].Runs = append(all[i].Runs, *c.Run)
		}
	}
	for i := range all {
		all[i].fold()
	}
	slices.Reverse(all)
	return all, nil
}

// fold derives the state from the runs.
func (s *Session) fold() {
	s.Changed = s.Created
	i := s.current()
	if i < 0 {
		s.State = Done
		return
	}
	r := s.Runs[i]
	s.Prompt = Text(r.Task)
	for _, later := range s.Runs[i+1:] {
		if later.State == batch.Ready {
			s.Queued++
		}
	}
	for _, r := range s.Runs {
		for _, t := range [...]time.Time{r.Began, r.Ended} {
			if t.After(s.Changed) {
				s.Changed = t
			}
		}
		if r.End != nil && r.State.Ended() {
			s.Text, s.Error = r.End.Text, r.End.Error
		}
	}
	switch r.State {
	case batch.Waiting:
		q := work.QuestionOf(r)
		s.State, s.Question = Waiting, &q
	case batch.Cancelled:
		s.State = Stopped
	default:
		s.State = State(r.State)
	}
	if s.State != Failed && s.State != Refused {
		s.Error = ""
	}
}

// current returns the index of the first run that has not ended, or of the last; -1: there is none.
func (s *Session) current() int {
	i := slices.IndexFunc(s.Runs, func(r batch.Run) bool { return !r.State.Ended() })
	if i < 0 {
		i = len(s.Runs) - 1
	}
	return i
}

// Text is what the user wrote for a task.
func Text(t batch.Task) string {
	if t.Skill != "" {
		return strings.TrimSpace("/" + t.Skill + " " + t.Args)
	}
	return t.Prompt
}

// ErrNone means that there is no such session in the background.
var ErrNone = errors.New("there is no such session in the background")

// Find returns the session that an ID means, or the beginning or the end of one, or a name. Without one the error is
// [ErrNone]; that several are meant is an error, too.
func Find(ctx context.Context, q batch.Queue, id string) (Session, error) {
	if id == "" {
		return Session{}, ErrNone
	}
	exact, err := List(ctx, q, id)
	if err != nil {
		return Session{}, err
	}
	if len(exact) == 1 {
		return exact[0], nil
	}
	all, err := List(ctx, q, "")
	if err != nil {
		return Session{}, err
	}
	var found []Session
	for _, s := range all {
		if strings.HasPrefix(s.ID, id) || strings.HasSuffix(s.ID, id) || strings.EqualFold(s.Name, id) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return Session{}, ErrNone
	case 1:
		return found[0], nil
	}
	return Session{}, fmt.Errorf("%d sessions are meant by %s", len(found), id)
}

// Begin sends a session to the background, with its first message there: a new session, or one that exists and that no
// process has open. A Session that was there before goes on with the new options. A message whose process ends early,
// as one that was killed, is begun once more.
func Begin(ctx context.Context, q batch.Queue, s Session, t batch.Task) error {
	b := batch.Batch{ID: BatchID(s.ID), Name: s.Name, Dir: s.Dir, Options: s.Batch.Options}
	b.Jobs, b.Retries, b.WaitLimit, b.Hidden = 1, 1, noLimit, false
	return add(ctx, q, b, s.ID, t)
}

// noLimit is how long a question waits. The limit of a batch would turn silence into a no; here the user may answer at
// any time.
const noLimit = 100 * 365 * 24 * time.Hour

// ErrWaits means that a session waits for an answer, which must come first.
var ErrWaits = errors.New("it waits for an answer")

// Send adds a message to a session, which works on it after those that it has. The error is [ErrWaits] while it waits
// for an answer.
func Send(ctx context.Context, q batch.Queue, s Session, t batch.Task) error {
	if s.State == Waiting {
		return ErrWaits
	}
	return add(ctx, q, s.Batch, s.ID, t)
}

// add submits a message under the first key that is free, so that neither message is lost if two programs send one at
// once.
func add(ctx context.Context, q batch.Queue, b batch.Batch, session string, t batch.Task) error {
	t.Session, t.Needs = session, max(t.Needs, batch.SessionVersion)
	one, err := List(ctx, q, session)
	if err != nil {
		return err
	}
	n := 0
	if len(one) == 1 {
		n = len(one[0].Runs)
	}
	for {
		n++
		added, err := q.Submit(ctx, b, []batch.Item{{Key: strconv.Itoa(n), Task: t}})
		if err != nil || added > 0 {
			return err
		}
	}
}

// Answer answers the question that a session waits for. The text is as for [work.Question.Reply]. The first answer
// counts; after it there is no question, and the error is [batch.ErrState].
func Answer(ctx context.Context, q batch.Queue, s Session, text string) error {
	i := s.current()
	if s.State != Waiting || i < 0 {
		return batch.ErrState
	}
	a, err := s.Question.Reply(text)
	if err != nil {
		return err
	}
	return q.Requeue(ctx, s.Runs[i].ID, &a)
}

// Stop stops what a session does, and forgets the messages that wait. The conversation stays.
func Stop(ctx context.Context, q batch.Queue, s Session) error { return q.Cancel(ctx, s.Batch.ID) }

// ErrWorks means that a session still has something to do.
var ErrWorks = errors.New("it has not ended")

// Remove takes a session off the list. The conversation stays, and so does what it cost. The error is [ErrWorks] if the
// session has not ended.
func Remove(ctx context.Context, q batch.Queue, s Session) error {
	if s.State.Working() || s.State == Waiting {
		return ErrWorks
	}
	b := s.Batch
	b.Hidden = true
	_, err := q.Submit(ctx, b, nil)
	return err
}
