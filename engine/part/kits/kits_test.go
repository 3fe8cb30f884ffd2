package kits_test

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/kits"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestKits: with a kit, a request has its skills and no others; /kit off brings all back. A project's kit counts only
// after trust, and none that cannot be read is replaced by another one of its name.
func TestKits(t *testing.T) {
	skill := func(name string) string {
		return "---\nname: " + name + "\ndescription: Is skill " + name + ".\n---\nX.\n"
	}
	p := enginetest.New(t, "~/.claude/skills/one/SKILL.md", skill("one"), "~/.claude/skills/two/SKILL.md", skill("two"),
		"~/.config/knack/kits/small.json", `{"description": "Few", "skills": ["one"], "rules": {"deny": ["Bash"]}}`,
		"~/.config/knack/kits/broken.json", `{"skill": ["one"]}`, "~/.config/knack/kits/-x.json", `{}`,
		".knack/kits/small.json", `{"skills": ["two"]}`, ".knack/kits/theirs.json", `{"skills": ["two"]}`)
	m := llmtest.New(llmtest.Reply("1"), llmtest.Reply("2"), llmtest.Reply("3"))
	_, s := p.Open(t, p.Options(m), nil, engine.SessionOptions{})
	say := func(text string, want ...string) {
		t.Helper()
		out := enginetest.Run(t, s, text)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in %s", text, w, out)
			}
		}
	}
	say("/kit", "small (user): Few", "broken.json", `unknown field "skill"`, "is no name of a kit", "theirs.json")
	say("/kit small", "From the next turn on, the kit small is used: skills one, 1 rule.")
	say("hello", "1")
	say("/kit theirs", "error: ", "theirs.json", "not trusted yet")
	say("/kit smal", `there is no kit "smal"`)
	say("/kit broken", "unknown field")
	say("hello", "2")
	say("/kit off", "No kit is used")
	say("hello", "3")
	for i, want := range []string{"one", "one", "one two"} {
		r := m.Requests()[i]
		text := r.System + enginetest.TextOf(r.Messages[len(r.Messages)-1].Parts)
		for _, x := range r.Tools {
			text += x.Description
		}
		var has []string
		for _, name := range []string{"one", "two"} {
			if strings.Contains(text, "Is skill "+name+".") {
				has = append(has, name)
			}
		}
		if got := strings.Join(has, " "); got != want {
			t.Errorf("request %d has %s, want %s", i, got, want)
		}
	}
}

// TestEffects: which lines a host's message runs although no user typed them.
func TestEffects(t *testing.T) {
	enginetest.Effects(t, kits.Part().Commands, []string{"kit"}, []string{"kit x", "kit off"})
}
