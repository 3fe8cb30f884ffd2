package memory_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/memory"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestNotes: with memory.auto, notes are in the system prompt and the model has the tool for them; without, neither is.
func TestNotes(t *testing.T) {
	for _, on := range []bool{true, false} {
		p := enginetest.New(t, "~/.local/state/knack/memories/user/MEMORY.md", "- answers in German\n")
		m := llmtest.New(llmtest.Reply("done"))
		o := p.Options(m)
		o.Values["memory.auto"] = on
		e, s := p.Open(t, o, nil, engine.SessionOptions{Forget: true})
		enginetest.Run(t, s, "hello")
		r := m.Requests()[0]
		tool := false
		for _, x := range r.Tools {
			tool = tool || x.Name == "memory"
		}
		if got := strings.Contains(r.System, "answers in German"); got != on || tool != on {
			t.Errorf("memory.auto %t: in the prompt %t, the tool %t", on, got, tool)
		}
		for typed, want := range map[string]string{"# use tabs": "/memory add use tabs", "# two\nlines": "# two\nlines",
			"#": "#"} {
			if got := e.Shorthand(typed); got != want {
				t.Errorf("%q stands for %q, want %q", typed, got, want)
			}
		}
		if got := enginetest.Run(t, s, "/memory"); !strings.Contains(got, filepath.Join("user", "MEMORY.md")) {
			t.Errorf("/memory: %s", got)
		}
	}
}

// TestRememberOn: after /memory on, /remember costs nothing in a session that has no tool for notes, and says what helps.
func TestRememberOn(t *testing.T) {
	p := enginetest.New(t)
	m := llmtest.New(llmtest.Reply("done"))
	e, s := p.Open(t, p.Options(m), nil, engine.SessionOptions{})
	on := enginetest.Run(t, s, "/memory on")
	if got := enginetest.Run(t, s, "/remember"); !strings.Contains(got, "the notes are on from the next session on") ||
		len(m.Requests()) > 0 {
		t.Errorf("%s\n%s, %d requests", on, got, len(m.Requests()))
	}
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := enginetest.Run(t, s, "/remember"); !strings.Contains(got, "done") {
		t.Error(got)
	}
}

// TestEffects: which lines a host's message runs although no user typed them.
func TestEffects(t *testing.T) {
	enginetest.Effects(t, memory.Part().Commands, []string{"memory"}, []string{"memory on", "memory add x", "memory off"})
}
