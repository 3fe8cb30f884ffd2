package engine_test

import (
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// TestTemplateAtAnyTime: a template is found in the message that starts a turn, in one that arrives during a turn, and
// in one that waits for its end.
func TestTemplateAtAnyTime(t *testing.T) {
	p := newFixture(t, "~/.config/knack/settings.json", `{"permissions": {"allow": ["touch"]}}`,
		"~/.config/knack/prompts/greet.md", "Say hello to $ARGUMENTS.\n")
	var did []string
	var s *engine.Session
	send := func() {
		for line, when := range map[string]engine.When{"/greet Ben": engine.Next, "/greet Cleo": engine.Later} {
			if _, err := s.Send(t.Context(), engine.QueuedMessage{Input: agent.Typed(line), When: when}); err != nil {
				t.Error(err)
			}
		}
	}
	m := llmtest.New(calls("touch", `{"what":"a"}`), llmtest.Reply("hello"), llmtest.Reply("hello"))
	_, s = p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touch(&did, send)}}})
	run(t, s, "/greet Ada")
	var got string
	for _, e := range s.Log().Entries() {
		if e.Type == session.TypeUser {
			got += e.User.Typed + ": " + llm.TextOf(e.User.Parts) + "\n"
		}
	}
	want := "/greet Ada: Say hello to Ada.\n/greet Ben: Say hello to Ben.\n/greet Cleo: Say hello to Cleo.\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
