package agent_test

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// TestNothingToList: without a skill that the model may call there is no Skill tool and no listing, in either mode.
func TestNothingToList(t *testing.T) {
	kept := map[string]string{"kept": skill("disable-model-invocation: true\n", "KEPT"),
		"waits": skill("paths: '*.zig'\n", "WAITS")}
	for name, skills := range map[string]map[string]string{"none": {}, "kept from the model": kept} {
		for _, index := range []bool{false, true} {
			m := llmtest.New(llmtest.Reply("ok"))
			cat := catalog(t, skills)
			a := &agent.Agent{Model: m, Tools: tool.Set{echo(), touch()}, Policy: agent.Policy{Gate: open},
				Skills: agent.Skills{Catalog: func() *knack.Catalog { return cat }, View: knack.View{Index: index}}}
			turn(t, a, session.New(session.Header{ID: "s"}), "go")
			req := m.Requests()[0]
			for _, tl := range req.Tools {
				if tl.Name == "Skill" {
					t.Errorf("%s: the Skill tool exists", name)
				}
			}
			if text := all(req); strings.Contains(text, "available_skills") {
				t.Errorf("%s: the model receives %s", name, text)
			}
		}
	}
}
