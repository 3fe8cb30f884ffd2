package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/tool"
)

// TestCeilingNow: a changed ceiling applies to the next turn of the running session, whether /settings changes it or
// /reload reads it.
func TestCeilingNow(t *testing.T) {
	const file = "~/.config/knack/settings.json"
	for name, change := range map[string]func(p fixture, s *engine.Session){
		"settings": func(_ fixture, s *engine.Session) { run(t, s, "/settings skills.enforceAllowedTools on") },
		"reload": func(p fixture, s *engine.Session) {
			p.write(t, file, `{"permissions": {"allow": ["touch"]}, "skills": {"enforceAllowedTools": "on"}}`)
			run(t, s, "/reload")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t, file, `{"permissions": {"allow": ["touch"]}}`,
				"~/.config/knack/skills/lint/SKILL.md", "---\ndescription: Lints\nallowed-tools: Read\n---\nLint.\n")
			var did []string
			m := llmtest.New(calls("touch", `{"what":"a"}`), llmtest.Reply("one"), calls("touch", `{"what":"b"}`),
				llmtest.Reply("two"))
			_, s := p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touch(&did, nil)}}})
			if got := run(t, s, "/lint"); !strings.Contains(got, "touched a") {
				t.Fatalf("without a ceiling:\n%s", got)
			}
			change(p, s)
			if got := run(t, s, "/lint"); !strings.Contains(got, `the allowed-tools of skill "lint" do not include it`) {
				t.Errorf("with a ceiling:\n%s", got)
			}
		})
	}
}

// TestVanishedSkill: what a skill may do was decided at its activation. It does not change if the skill's files are
// removed during the turn, but ends with the turn.
func TestVanishedSkill(t *testing.T) {
	p := newFixture(t, "~/.config/knack/settings.json", `{"permissions": {"allow": ["touch"]}}`,
		"~/.config/knack/skills/broad/SKILL.md", "---\ndescription: Builds\nallowed-tools: Bash\n---\nBuild.\n")
	var did []string
	var e *engine.Engine
	remove := func() {
		if err := os.RemoveAll(filepath.Join(p.home, ".config/knack/skills/broad")); err != nil {
			t.Error(err)
		}
		if _, err := e.Reload(t.Context()); err != nil {
			t.Error(err)
		}
	}
	mkdir := calls("bash", `{"command":"mkdir -p made && rmdir made"}`)
	m := llmtest.New(calls("touch", `{"what":"a"}`), mkdir, llmtest.Reply("one"), mkdir, llmtest.Reply("two"))
	e, s := p.open(t, p.options(m), nil, engine.SessionOptions{Host: engine.Host{Tools: tool.Set{touch(&did, remove)}}})
	if got := run(t, s, "/broad"); strings.Contains(got, "was not run") || len(did) != 1 {
		t.Errorf("in the turn:\n%s", got)
	}
	if s.Catalog().Skill("broad") != nil {
		t.Error("the skill is still there")
	}
	if got := run(t, s, "go on"); !strings.Contains(got, "was not run") {
		t.Errorf("in the next turn:\n%s", got)
	}
}
