package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestEngines: several engines of one process work in parallel, in the same project and home and in others, in the
// sandbox, while settings are reloaded and sessions come and go.
func TestEngines(t *testing.T) {
	t.Parallel()
	const turns = 4
	skill := "---\nname: mine\ndescription: Says what to do.\n---\nDo $ARGUMENTS.\n"
	one := newFixture(t, "~/.claude/skills/mine/SKILL.md", skill)
	two := newFixture(t, "~/.claude/skills/mine/SKILL.md", skill)
	var all sync.WaitGroup
	for i, p := range []fixture{one, one, two} {
		name := fmt.Sprintf("engine%d", i)
		var answers []llmtest.Answer
		for turn := range turns {
			answers = append(answers,
				calls("bash", fmt.Sprintf(`{"command":"echo %s-%d >> both; echo %[1]s-%[2]d > %[1]s-%[2]d"}`, name, turn)),
				calls("write", fmt.Sprintf(`{"path":"%s-w%d","content":"written"}`, name, turn)),
				calls("skill", fmt.Sprintf(`{"skill":"mine","args":"%s"}`, name)),
				llmtest.Reply(fmt.Sprintf("turn %d", turn)))
		}
		o := p.options(llmtest.New(answers...))
		o.Values = map[string]any{"permissions.allow": []string{"Bash", "Edit", "Skill"}}
		e, s := p.open(t, o, nil, engine.SessionOptions{})
		all.Go(func() {
			for turn := range turns {
				got := run(t, s, "go")
				if !strings.HasSuffix(got, fmt.Sprintf("done: turn %d", turn)) || !strings.Contains(got, "Launching skill: mine") {
					t.Errorf("%s: %s", name, got)
				}
				for file, want := range map[string]string{"": fmt.Sprintf("%s-%d\n", name, turn), "w": "written"} {
					file = filepath.Join(p.dir, fmt.Sprintf("%s-%s%d", name, file, turn))
					if data, err := os.ReadFile(file); err != nil || string(data) != want {
						t.Errorf("%s: %q, %v", file, data, err)
					}
				}
			}
		})
		all.Go(func() {
			for range turns {
				if _, err := e.Reload(t.Context()); err != nil {
					t.Error(err)
				}
				other, err := e.Start(t.Context(), nil, engine.SessionOptions{})
				if err != nil {
					t.Error(err)
					continue
				}
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for p, n := range map[fixture]int{one: 2 * turns, two: turns} {
		data, err := os.ReadFile(filepath.Join(p.dir, "both"))
		if err != nil || strings.Count(string(data), "\n") != n {
			t.Errorf("%s: %v", data, err)
		}
	}
}
