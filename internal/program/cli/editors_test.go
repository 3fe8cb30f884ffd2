//go:build unix

package cli

import (
	"testing"

	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestPeerAdapter runs the adapter through which editors use programs of the Agent SDK, with knack as that program.
func TestPeerAdapter(t *testing.T) {
	modules := nodetest.Dir(t)
	d := newFixture(t, serve(t, llmtest.Use("bash", map[string]any{"command": "touch made"}),
		llmtest.Reply("It is made."), llmtest.Answer{Want: []string{"Welcome Ann"}, Text: "Hello Ann."}))
	d.file(t, "../.claude/skills/welcome/SKILL.md", "---\nname: welcome\ndescription: Welcomes people\n---\n"+
		"Welcome $ARGUMENTS.\n")
	d.env = append(d.env, "KNACK="+knackPath(t), "KNACK_NPM="+modules)
	runScript(t, d, nodetest.Program(modules), "testdata/acp.mjs", "adapter")
}
