package control

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestReplyNotJSON: a host's command whose value cannot be encoded fails, and the failure is written.
func TestReplyNotJSON(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Model: llmtest.New(),
		Values: map[string]any{"sandbox.mode": "off"},
		Env: func(name string) string {
			if name == "HOME" || name == "USERPROFILE" {
				return home
			}
			return ""
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	odd := engine.Command{Name: "odd", Run: func(context.Context, *engine.Session, string) (engine.Reply, error) {
		return engine.Reply{Text: "fine", Value: make(chan int)}, nil
	}}
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true,
		Host: engine.Host{Commands: []engine.Command{odd}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range []bool{false, true} {
		var out bytes.Buffer
		r := Runner{Out: NewMessages(&out, lines), Conversation: engine.Converse(s)}
		if err := r.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := r.Turn(t.Context(), agent.Typed("/odd"))
		const want = "/odd: the value of its reply cannot be encoded as JSON"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lines %v: %v", lines, err)
		}
		if got := out.String(); !strings.Contains(got, `"is_error":true`) || !strings.Contains(got, want) {
			t.Errorf("lines %v: wrote %q", lines, got)
		}
	}
}
