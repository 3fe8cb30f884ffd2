package batch_test

import (
	"context"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part"
	batchpart "github.com/knack-agent/knack/engine/part/batch"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/batch"
)

// A keeper has one batch, one of whose tasks waits.
type keeper struct{ waits, told chan struct{} }

func (keeper) Start(context.Context, string, batch.Input, map[string]session.Seen) (string, error) {
	return "started", nil
}

func (keeper) Status(context.Context, string, string) (string, error) { return "fine", nil }

func (k keeper) Waits(ctx context.Context, _, name string, told func(batch.Waiting)) {
	select {
	case <-k.waits:
		told(batch.Waiting{Task: "two", Question: "Run this command? git commit of " + name, Command: "knack batch answer 5f"})
		k.told <- struct{}{}
	case <-ctx.Done():
	}
	<-ctx.Done()
}

// TestWaits: where a task waits for an answer, the user is told at once, with the command that gives it, and the model
// with its next request, without the words of another session. It is so again when the session is resumed.
func TestWaits(t *testing.T) {
	p := enginetest.New(t)
	k := keeper{make(chan struct{}), make(chan struct{})}
	o := p.Options(llmtest.New(llmtest.Use("Batch", map[string]any{"name": "n", "max_cost": 1, "tasks": []map[string]any{
		{"id": "two", "prompt": "commit"}}}), llmtest.Reply("begun"), llmtest.Reply("later"), llmtest.Reply("again")))
	o.Parts = part.With(o.Parts, batchpart.Part(k))
	yes := enginetest.PersonFunc(func(context.Context, engine.Question) (engine.Answer, error) {
		return engine.Answer{Option: "once"}, nil
	})
	e, s := p.Open(t, o, yes, engine.SessionOptions{})
	enginetest.Run(t, s, "start them")
	if said := enginetest.Conversation(s); strings.Contains(said, "wait for an answer") {
		t.Errorf("before: %s", said)
	}
	wait := func() {
		t.Helper()
		k.waits <- struct{}{}
		<-k.told
		all := e.Notices()
		last := all[len(all)-1]
		if last.Message != "the task two of the batch n waits for your answer: Run this command? git commit of n" ||
			last.Hint != "knack batch answer 5f" {
			t.Errorf("%+v", last)
		}
	}
	wait()
	enginetest.Run(t, s, "go on")
	const note = "Tasks of the batch n wait for an answer that only the user can give, who was told of it: two."
	if said := enginetest.Conversation(s); strings.Count(said, note) != 1 || strings.Contains(said, "git commit of") {
		t.Errorf("after: %s", said)
	}
	id := s.Log().ID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Resume: id})
	if err != nil {
		t.Fatal(err)
	}
	wait()
	enginetest.Run(t, s, "go on")
	if said := enginetest.Conversation(s); strings.Count(said, note) != 2 {
		t.Errorf("resumed: %s", said)
	}
}
