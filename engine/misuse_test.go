package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// What a host fills in wrongly is an error or a problem, and never a panic.
func TestHostMisuse(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	if _, err := engine.Open(t.Context(), engine.Options{Dir: dir, Env: env, Layers: []string{"users"}}); err == nil ||
		!strings.Contains(err.Error(), `"users"`) {
		t.Errorf("an unknown layer: %v", err)
	}
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir, Env: env, Model: llmtest.New(llmtest.Reply("hi")),
		Sources: []knack.Source{nil}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Host: engine.Host{
		Tools:    tool.Set{{}, {Name: "bash"}, {Name: "two words"}, {Name: "mine"}},
		Commands: []engine.Command{{Name: "empty"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var found []string
	for _, p := range s.Problems() {
		found = append(found, p.Message)
	}
	for _, want := range []string{`tool "" is not`, "tool bash is not", `tool "two words" is not`} {
		if !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("the problems lack %q: %q", want, found)
		}
	}
	if len(found) != 3 {
		t.Errorf("%d problems: %q", len(found), found)
	}
	for _, err := range s.Run(t.Context(), agent.Typed("/empty")) {
		if err == nil || !strings.Contains(err.Error(), "no func") {
			t.Errorf("a command without a func: %v", err)
		}
	}
	for _, err := range s.Run(t.Context(), agent.Typed("hello")) {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Start(t.Context(), nil, engine.SessionOptions{Resume: s.ID()}); !errors.Is(err, session.ErrLocked) ||
		strings.Contains(err.Error(), "another process") {
		t.Errorf("a session that this process has open: %v", err)
	}
}
