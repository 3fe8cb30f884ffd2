//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestReloadChanged: /reload removes what no longer matches its approval: an agent, a template, hooks and allow rules
// of the settings.
func TestReloadChanged(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^Plan it\\.$", Text: "Planned."},
		llmtest.Answer{When: "^still\\?$", Text: "Alone."},
	))
	write := func(more string) {
		d.file(t, ".claude/agents/reviewer.md", "---\nname: reviewer\ndescription: Reviews"+more+"\n---\nYou review.\n")
		d.file(t, ".knack/prompts/steps.md", "Plan it."+more+"\n")
		d.file(t, ".claude/settings.json",
			`{"permissions": {"allow": ["Bash(touch *)"]}, "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", `+
				`"command": "echo `+more+` >>hooked.txt"}]}]}}`)
	}
	write("")
	k := d.start(t)
	k.expect(`Trust th(is item|ese \d+ items)\? \[y/N\] `)
	k.types("y\n")
	k.enters("/steps")
	k.expect(`Planned\.`)
	k.enters("/agents")
	k.expect(`reviewer +project`)
	hooked := filepath.Join(d.dir, "hooked.txt")
	if err := os.Remove(hooked); err != nil {
		t.Fatal(err)
	}
	write(" more")
	k.enters("/steps")
	k.expect(`error: .*steps\.md: .*changed`)
	k.enters("/reload")
	k.expect(`templates: 0, removed steps`)
	k.expect(`agents: \d+, removed reviewer`)
	k.expect(`settings\.json.*changed`)
	k.enters("/hooks")
	k.expect(`authoring@builtin`) // those of the settings are gone
	k.enters("/permissions")
	k.prompt()
	k.types("still?\r")
	k.expect(`Alone\.`)
	k.leaves()
	if _, err := os.Stat(hooked); err == nil {
		t.Error("the changed hook ran")
	}
}

// TestReloadContext: /reload reads AGENTS.md again and reports the change, and the next request contains it.
func TestReloadContext(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^one$", Want: []string{"USE TABS"}, Text: "First."},
		llmtest.Answer{When: "^two$", Want: []string{"USE SPACES"}, Text: "Second."},
	))
	d.file(t, "AGENTS.md", "USE TABS\n")
	k := d.open(t)
	k.enters("one")
	k.expect(`First\.`)
	d.file(t, "AGENTS.md", "USE SPACES\n")
	k.enters("/reload")
	k.expect(`context files: 1, changed AGENTS\.md`)
	k.enters("two")
	k.expect(`Second\.`)
	k.leaves()
}
