package agent_test

import (
	"testing"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// TestContext: the measured sizes are those of what is sent.
func TestContext(t *testing.T) {
	m := llmtest.New(llmtest.Reply("hello to you"), llmtest.Reply("done"))
	a := skilled(t, m, map[string]string{"pdf": skill("", "Do PDF.")})
	a.System = "You are a system."
	log := session.New(session.Header{})
	before := a.Context(log)
	if before.System != len(a.System) || before.Tools == 0 || before.Listing == 0 || before.Texts+before.Messages != 0 ||
		before.Tokens == 0 {
		t.Errorf("an empty session: %+v", before)
	}
	turn(t, a, log, "hello")
	context := a.Context(log)
	specs := 0
	for _, s := range m.Requests()[0].Tools {
		specs += len(s.Name) + len(s.Description) + len(s.Schema)
	}
	if context.Tools+context.Listing != specs || context.Tools != before.Tools || context.Listing != before.Listing {
		t.Errorf("%d bytes of tools were sent: %+v, before %+v", specs, context, before)
	}
	if want := len("hello") + len("hello to you"); context.Messages != want {
		t.Errorf("%d bytes of text were sent: %+v", want, context)
	}
	turn(t, a, log, "/pdf")
	if c := a.Context(log); c.Texts == 0 || c.Messages < context.Messages || c.Tokens <= 0 {
		t.Errorf("with a skill: %+v", c)
	}
	index := skilled(t, m, map[string]string{"pdf": skill("", "Do PDF.")})
	index.Skills.View.Index = true
	if c := index.Context(log); c.Listing != 0 {
		t.Errorf("the skills are in an index, not in a tool: %+v", c)
	}
	if c := (&agent.Agent{Model: m}).Context(session.New(session.Header{})); c != (agent.Context{}) {
		t.Errorf("an empty context: %+v", c)
	}
}
