package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// TestConversation: a command that replaces the session ends the old one and begins the next, which is current as soon
// as the caller sees it, and messages that no turn has taken are kept.
func TestConversation(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	var happened []string
	note := func(event hook.Event) hook.Hook {
		h, err := hook.New(event, "", string(event), func(context.Context, json.RawMessage) (json.RawMessage, error) {
			happened = append(happened, string(event))
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	m := llmtest.New(llmtest.Reply("hi"), llmtest.Reply("ho"))
	_, s := p.open(t, p.options(m), nil, engine.SessionOptions{ID: "first", Host: engine.Host{
		Hooks: []hook.Hook{note(hook.SessionStart), note(hook.SessionEnd)},
		Commands: []engine.Command{{Name: "leave", Run: func(ctx context.Context, s *engine.Session, _ string) (
			engine.Reply, error) {
			_, err := s.Send(ctx, engine.QueuedMessage{Input: agent.Typed("unsent"), When: engine.Later})
			next, err2 := s.Engine().Start(ctx, nil, engine.SessionOptions{ID: "second", Host: s.Host()})
			return engine.Reply{Next: next}, errors.Join(err, err2)
		}}},
	}})
	c := engine.Converse(s)
	follow := func(text string) {
		events := c.Begin(t.Context())
		if text != "" {
			events = c.Run(t.Context(), agent.Typed(text))
		}
		for e, err := range events {
			switch {
			case err != nil:
				happened = append(happened, err.Error())
			case e.Session != nil:
				if e.Session != c.Session() {
					t.Error("the session that was yielded is not the current one")
				}
				happened = append(happened, e.Session.ID())
			case enginetest.Short(e) != "":
				happened = append(happened, enginetest.Short(e))
			}
		}
	}
	follow("")
	follow("hello")
	follow("/leave")
	follow("hello")
	want := []string{"first", "SessionStart", "user: hello", "done: hi", "reply leave: ", "done: ",
		"second", "SessionEnd", "SessionStart", "user: hello", "done: ho"}
	if !slices.Equal(happened, want) {
		t.Errorf("happened:\n%s\nwant:\n%s", strings.Join(happened, "\n"), strings.Join(want, "\n"))
	}
	if left := c.Unsent(); len(left) != 1 || left[0].Text != "unsent" || len(c.Unsent()) != 0 {
		t.Errorf("not sent: %+v", left)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, err := range s.Run(t.Context(), agent.Typed("hello")) {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("the replaced session: %v", err)
		}
	}
}

// TestReport: a report is the sum of a turn, of the messages that were queued meanwhile, and of what was refused.
func TestReport(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	var did []string
	var s *engine.Session
	touching := touch(&did, nil)
	wait := tool.New("wait", "Waits.", func(ctx context.Context, _ struct{}, _ tool.Input) (tool.Result, error) {
		_, err := s.Send(ctx, engine.QueuedMessage{Input: agent.Typed("later"), When: engine.Later})
		return tool.Text("waited"), err
	})
	m := llmtest.New(llmtest.Answer{Calls: []llmtest.Call{{Name: "wait", Input: "{}"},
		{Name: "touch", Input: `{"what":"x"}`}},
		Usage: llm.Usage{Input: 10, Output: 2}}, llmtest.Reply("one"), llmtest.Reply("two"))
	_, s = p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touching, wait}}})
	c := engine.Converse(s)
	shown := 0
	r, err := c.Turn(t.Context(), agent.Typed("go"), func(engine.Event) { shown++ })
	if err != nil || shown == 0 {
		t.Fatalf("%d events, %v", shown, err)
	}
	if r.End.Text != "two" || r.Requests != 3 || r.Usage.Input < 10 || r.Stop != llm.EndTurn || r.Took < r.Waited {
		t.Errorf("%+v", r)
	}
	if len(did) != 0 || len(r.Refused) != 1 || r.Refused[0].Tool != "touch" || string(r.Refused[0].Input) != `{"what":"x"}` {
		t.Errorf("refused: %+v", r.Refused)
	}
	if err := r.Err(t.Context()); err != nil {
		t.Error(err)
	}
	if r, err = c.Turn(t.Context(), agent.Typed("/session"), nil); err != nil || r.Requests != 0 || len(r.Replies) != 1 ||
		r.Replies[0].Command != "session" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReportErr: the end of a turn becomes the exit code of the program.
func TestReportErr(t *testing.T) {
	t.Parallel()
	hungUp, cancel := context.WithCancelCause(t.Context())
	cancel(&engine.Error{Err: errors.New("hung up"), Exit: engine.ExitHungUp})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx  context.Context
		end  agent.End
		want string
		exit engine.ExitCode
	}{
		{t.Context(), agent.End{Reason: session.EndLimit, Why: "too long"}, "the run was stopped: too long", 0},
		{t.Context(), agent.End{Reason: session.EndStopped, Why: "no"}, "a hook ended the run: no", 0},
		{hungUp, agent.End{Reason: session.EndCancelled}, "hung up", engine.ExitHungUp},
		{stopped, agent.End{Reason: session.EndCancelled}, "interrupted", engine.ExitInterrupted},
	} {
		var r engine.Report
		r.Add(engine.Event{Event: agent.Event{End: &c.end}})
		var e *engine.Error
		if err := r.Err(c.ctx); !errors.As(err, &e) || err.Error() != c.want || e.Exit != c.exit {
			t.Errorf("%s: %v, want %s", c.end.Reason, err, c.want)
		}
	}
}
