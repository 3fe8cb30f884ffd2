package background

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
)

// claimed gives the next message of a session to a worker.
func claimed(t *testing.T, q batch.Queue, id string) batch.Lease {
	t.Helper()
	l, err := q.Claim(t.Context(), batch.Worker{ID: "w", Batch: BatchID(id)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func finish(t *testing.T, q batch.Queue, l batch.Lease, end batch.End) {
	t.Helper()
	if err := q.Finish(t.Context(), l, end, nil); err != nil {
		t.Fatal(err)
	}
}

func one(t *testing.T, q batch.Queue, id string) Session {
	t.Helper()
	s, err := Find(t.Context(), q, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLife is that of a session: messages in order, a question that holds up what follows it, an end, a new message,
// and its removal.
func TestLife(t *testing.T) {
	ctx := context.Background()
	q, err := local.Open(ctx, filepath.Join(t.TempDir(), "queue"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	begun := Session{ID: "20300101-1a2b", Name: "Tidy up", Dir: "/d"}
	if err := Begin(ctx, q, begun, batch.Task{Prompt: "one"}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Claim(ctx, batch.Worker{ID: "other"}); !errors.Is(err, batch.ErrEmpty) {
		t.Errorf("a worker for all batches: %v", err)
	}
	s := one(t, q, "1a2b")
	if s.State != Ready || s.Prompt != "one" {
		t.Errorf("begun: %+v", s)
	}
	l := claimed(t, q, s.ID)
	if l.Run.Task.Session != s.ID || l.Run.Task.Needs != batch.SessionVersion {
		t.Errorf("the task: %+v", l.Run.Task)
	}
	if err := Send(ctx, q, one(t, q, "tidy up"), batch.Task{Prompt: "two"}); err != nil {
		t.Fatal(err)
	}
	if s = one(t, q, s.ID); s.State != Running || s.Queued != 1 || s.Prompt != "one" {
		t.Errorf("with a second message: %+v", s)
	}
	if err := Remove(ctx, q, s); !errors.Is(err, ErrWorks) {
		t.Errorf("removed while it works: %v", err)
	}
	finish(t, q, l, batch.End{State: batch.Waiting, Question: []byte(`{"title":"Run it?","options":[` +
		`{"id":"once","label":"yes","allow":true},{"id":"no","label":"no"}]}`)})
	if s = one(t, q, s.ID); s.State != Waiting || s.Question.Title != "Run it?" {
		t.Errorf("asks: %+v", s)
	}
	if _, err := q.Claim(ctx, batch.Worker{ID: "w", Batch: s.Batch.ID}); !errors.Is(err, batch.ErrEmpty) {
		t.Errorf("what follows a question: %v", err)
	}
	if err := Send(ctx, q, s, batch.Task{Prompt: "three"}); !errors.Is(err, ErrWaits) {
		t.Errorf("a message for a question: %v", err)
	}
	for _, bad := range []string{"yes, but not all", "maybe", ""} {
		if err := Answer(ctx, q, s, bad); err == nil {
			t.Errorf("%q is an answer", bad)
		}
	}
	if err := Answer(ctx, q, s, "no, it is late"); err != nil {
		t.Fatal(err)
	}
	if err := Answer(ctx, q, s, "yes"); !errors.Is(err, batch.ErrState) {
		t.Errorf("answered twice: %v", err)
	}
	l = claimed(t, q, s.ID)
	if got := string(l.Run.Answers[0].Value); l.Run.Answers[0].No || got != `{"option":"no","reason":"it is late"}` {
		t.Errorf("the answer: %s", got)
	}
	finish(t, q, l, batch.End{State: batch.Failed, Error: "no", Fatal: true})
	if s = one(t, q, s.ID); s.State != Ready || s.Prompt != "two" {
		t.Errorf("after the first message: %+v", s)
	}
	finish(t, q, claimed(t, q, s.ID), batch.End{State: batch.Done, Text: "Two."})
	if s = one(t, q, s.ID); s.State != Done || s.Text != "Two." || s.Error != "" {
		t.Errorf("done: %+v", s)
	}
	if err := Remove(ctx, q, s); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(ctx, q, s.ID); !errors.Is(err, ErrNone) {
		t.Errorf("removed: %v", err)
	}
	if err := Begin(ctx, q, s, batch.Task{Prompt: "three"}); err != nil {
		t.Fatal(err)
	}
	if s = one(t, q, s.ID); s.State != Ready || s.Prompt != "three" {
		t.Errorf("begun again: %+v", s)
	}
	if err := Stop(ctx, q, s); err != nil {
		t.Fatal(err)
	}
	if s = one(t, q, s.ID); s.State != Stopped {
		t.Errorf("stopped: %+v", s)
	}
}
