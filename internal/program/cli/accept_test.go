//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestAcceptBroad: on a terminal, calling a skill that asks for Bash shows a question, in line mode and on the
// screen; "always" must be typed.
func TestAcceptBroad(t *testing.T) {
	const skill = "---\ndescription: Builds\nallowed-tools: Bash\n---\nBuild it.\n"
	server := func() *llmtest.Server {
		return serve(t, llmtest.Answer{When: "Build it", Calls: []llmtest.Call{{ID: "a", Name: "bash",
			Input: map[string]any{"command": "touch made"}}}},
			llmtest.Answer{Text: "Built."})
	}
	check := func(t *testing.T, d fixture) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(d.dir, "made")); err != nil {
			t.Error(err)
		}
	}
	const question = `Let the skill broad use all commands without asking\?`
	t.Run("line", func(t *testing.T) {
		t.Parallel()
		d := newFixture(t, server())
		d.file(t, ".claude/skills/broad/SKILL.md", skill)
		k := d.open(t)
		k.expect(`> $`)
		k.types("/broad\r")
		k.expect(question + `\s+1 yes, until this turn ends\s+2 yes, while (?s:.*)\s+3 no, ask as usual`)
		k.types("always\r")
		k.expect(`Type always to confirm`)
		k.types("always\r")
		k.expect(`skill /broad, allows Bash`)
		k.expect(`Built\.`)
		check(t, d)
	})
	t.Run("screen", func(t *testing.T) {
		t.Parallel()
		d := newFixture(t, server())
		d.file(t, ".claude/skills/broad/SKILL.md", skill)
		const w, h = 120, 40
		k := d.onScreen(t, w, h)
		k.shows(w, h, `(?m)^❯$`)
		k.types("/broad\r")
		k.shows(w, h, `(?s)What the skill asks for: allows Bash\..*`+question+`.*  2 yes, while its files stay the same.*  3 no, ask as usual +\(n, esc\)`)
		k.types("2")
		k.shows(w, h, `Type always to confirm`)
		k.types("always\r")
		k.shows(w, h, `Built\.`)
		check(t, d)
	})
}
