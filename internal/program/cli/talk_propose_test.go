//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestProposedSkill: /skillify proposes a change of a skill; the user sees the passage, how its queries find it before
// and after, and the difference; a no leaves it as it is, and a yes writes it, with the next version.
func TestProposedSkill(t *testing.T) {
	t.Parallel()
	const before = "---\nname: notes\ndescription: Writes things.\nmetadata:\n  version: 0.9\n---\nList the commits.\n"
	propose := func() llmtest.Answer {
		return llmtest.Use("ProposeSkills", map[string]any{"proposals": []any{map[string]any{
			"skill": "notes", "why": "It is found by what you type.",
			"evidence": []any{map[string]any{"quote": "write the release notes without merges"}},
			"edits": []any{map[string]any{"path": "SKILL.md", "old": "Writes things.",
				"new": "Writes release notes from the commits. Use when a release is made."}},
		}}})
	}
	for _, screen := range []bool{true, false} {
		d := newFixture(t, serve(t, llmtest.Answer{Text: "Here they are."}, propose(), llmtest.Answer{Text: "As you like."},
			propose(), llmtest.Answer{Text: "Written."}))
		dir := filepath.Join(d.home(), ".claude", "skills", "notes")
		if err := os.MkdirAll(filepath.Join(dir, "evals"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"SKILL.md": before, "evals/eval_queries.json": `[
			{"query": "write release notes from the commits", "should_trigger": true},
			{"query": "what is the weather", "should_trigger": false}]`} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		content := func() string {
			data, err := os.ReadFile(filepath.Join(dir, "SKILL.md"))
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}
		const w, h = 120, 60
		var k *terminal
		expect, enter := func(want string) { k.shows(w, h, want) }, func(line string) { k.types(line + "\r") }
		answer := func(key string) { k.types(key) }
		if screen {
			k = d.onScreen(t, w, h)
		} else {
			k = d.open(t)
			expect, enter = func(want string) { k.expect(want) }, k.enters
			answer = func(key string) { k.types(key + "\r") }
		}
		if screen {
			expect(`❯`)
		}
		enter("please write the release notes without merges")
		expect(`Here they are\.`)
		enter("/skillify notes")
		expect(`(?s)you: “write the release notes without merges”.*Found, before: by 0 of 1 queries that should, ` +
			`and by 0 of 1 others\..*Found, after: by 1 of 1 queries.*\+ *version: 0\.10`)
		answer("2")
		expect(`As you like\.`)
		if content() != before {
			t.Fatal(content())
		}
		enter("/skillify again")
		expect(`(?s)yes, change it`)
		answer("1")
		expect(`Written\.`)
		want := strings.NewReplacer("Writes things.", "Writes release notes from the commits. Use when a release is made.",
			"0.9", "0.10").Replace(before)
		if got := content(); got != want {
			t.Errorf("got %s", got)
		}
		if screen {
			k.quits()
		} else {
			k.leaves()
		}
	}
}
