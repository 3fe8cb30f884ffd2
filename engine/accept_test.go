package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// trusted opens the project and trusts everything in it.
func (p fixture) trusted(t *testing.T, m llm.Model, person engine.Person) *engine.Session {
	t.Helper()
	e, s := p.open(t, p.options(m), person, engine.SessionOptions{Forget: true})
	items, err := e.Project().Untrusted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Trust(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	return s
}

// activations lists the activated skills of a session with the permissions that were granted and ignored.
func activations(s *engine.Session) string {
	var all []string
	for _, e := range s.Log().Entries() {
		if a := e.Activation; a != nil {
			line := a.Skill + " accepted[" + strings.Join(a.Accepted, " ") + "] ignored[" + strings.Join(a.Ignored, " ") + "]"
			for _, x := range a.Problems {
				line += " " + string(x.Code)
			}
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}

// TestAcceptBroad: a project's skill that asks for Bash gets it only if the user accepts that for the skill in its
// present state.
func TestAcceptBroad(t *testing.T) {
	const file = ".claude/skills/broad/SKILL.md"
	const head = "---\ndescription: Builds\nallowed-tools: Bash Read\nmodel: no-such\n---\n"
	bash := calls("bash", `{"command":"touch made"}`)
	done := llmtest.Answer{Text: "done"}
	const ask = "Let the skill broad use all commands without asking?"
	const command = "Run this command?"
	const denied, granted = "broad accepted[] ignored[Bash] tool-pattern", "broad accepted[Bash] ignored[]"
	for _, c := range []struct {
		name    string
		prompts string
		answers map[string]string // by the title of a question; its field has the title "field"
		change  func(p fixture)
		want    string
		asked   []string
		model   []llmtest.Answer
	}{
		{name: "no", prompts: "/broad", answers: map[string]string{ask: "no", command: "no"},
			want: denied, asked: []string{ask, command}},
		{name: "this turn", prompts: "/broad", answers: map[string]string{ask: "turn"}, want: granted, asked: []string{ask}},
		{name: "always, mistyped", prompts: "/broad", answers: map[string]string{ask: "always", "field": "alway",
			command: "no"},
			want: denied, asked: []string{ask, "field", command}},
		{name: "a typed name asks again", prompts: "/broad|/broad", answers: map[string]string{ask: "no", command: "no"},
			want: denied + "\n" + denied, asked: []string{ask, command, ask}, model: []llmtest.Answer{bash, done, done}},
		{name: "the next turn asks again", prompts: "/broad|/broad", answers: map[string]string{ask: "turn"},
			want: granted + "\n" + granted, asked: []string{ask, ask}, model: []llmtest.Answer{bash, done, done}},
		{name: "a model's calls do not", prompts: "go|go",
			answers: map[string]string{ask: "no", "Use the skill broad?": "once"},
			want:    denied + "\n" + denied, asked: []string{"Use the skill broad?", ask, "Use the skill broad?"},
			model: []llmtest.Answer{calls("Skill", `{"skill":"broad"}`), done, calls("Skill", `{"skill":"broad"}`), done}},
		{name: "always", prompts: "/broad", answers: map[string]string{ask: "always", "field": "always"}, want: granted,
			asked: []string{ask, "field"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newFixture(t, file, head+"Build.\n")
			var asked []string
			person := personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
				if len(q.Fields) > 0 {
					asked = append(asked, "field")
					return filled(q.Fields[0].Name, c.answers["field"]), nil
				}
				asked = append(asked, q.Title)
				if q.Title == ask && (!strings.Contains(q.Text, ".claude/skills/broad") ||
					!strings.Contains(q.Text, "model no-such") || !strings.Contains(q.Text, "Read")) {
					t.Errorf("the question does not show everything:\n%s", q.Text)
				}
				return engine.Answer{Option: c.answers[q.Title]}, nil
			})
			model := c.model
			if model == nil {
				model = []llmtest.Answer{bash, done}
			}
			s := p.trusted(t, llmtest.New(model...), person)
			for _, prompt := range strings.Split(c.prompts, "|") {
				run(t, s, prompt)
			}
			got := strings.ReplaceAll(activations(s), " model-unknown", "")
			if got != c.want || strings.Join(asked, "\n") != strings.Join(c.asked, "\n") {
				t.Errorf("activations:\n%s\nwant\n%s\nasked %q, want %q", got, c.want, asked, c.asked)
			}
			_, err := os.Stat(filepath.Join(p.dir, "made"))
			if made := err == nil; made != strings.Contains(c.want, granted) {
				t.Errorf("the command ran: got %t", made)
			}
			if c.name != "always" {
				return
			}
			// The answer also counts in other sessions, even where there is no user to ask, ...
			next := p.trusted(t, llmtest.New(bash, done), nil)
			run(t, next, "/broad")
			if got := activations(next); !strings.HasPrefix(got, granted) {
				t.Errorf("in the next session: %s", got)
			}
			// ... until any file of the skill changes, ...
			p.write(t, ".claude/skills/broad/notes.md", "New.")
			changed := p.trusted(t, llmtest.New(done), nil)
			run(t, changed, "/broad")
			if got := activations(changed); !strings.HasPrefix(got, denied) {
				t.Errorf("after a change: %s", got)
			}
			if err := os.Remove(filepath.Join(p.dir, ".claude/skills/broad/notes.md")); err != nil {
				t.Fatal(err)
			}
			items, err := next.Engine().Project().Untrusted(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := next.Engine().Trust(t.Context(), items...); err != nil {
				t.Fatal(err)
			}
			if got := run(t, next, "/trust"); !strings.Contains(got,
				"Bash of the skill .claude/skills/broad, while its files stay as they are") {
				t.Errorf("/trust does not show the answer:\n%s", got)
			}
			if got := run(t, next, "/why broad"); !strings.Contains(got,
				"allow Bash (you accepted it for its files as they are)") {
				t.Errorf("/why does not show the answer:\n%s", got)
			}
		})
	}
}

// TestAcceptInline: the user's answer also covers the inline commands of the skill, and the agent that runs it.
func TestAcceptInline(t *testing.T) {
	p := newFixture(t, ".claude/skills/inline/SKILL.md",
		"---\ndescription: I\nallowed-tools: Bash\n---\nMade: !`touch made && echo yes`\n",
		".claude/skills/forked/SKILL.md", "---\ndescription: F\nallowed-tools: Bash\ncontext: fork\n---\nFork.\n")
	person := personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		if q.Call != nil {
			t.Errorf("unexpected question: %s", q.Title)
		}
		return engine.Answer{Option: "turn"}, nil
	})
	s := p.trusted(t, llmtest.New(llmtest.Answer{Text: "ok"}, calls("bash", `{"command":"touch forked"}`),
		llmtest.Answer{Text: "ok"}), person)
	run(t, s, "/inline")
	run(t, s, "/forked")
	var prompt string
	for _, e := range s.Log().Entries() {
		if e.Type == session.TypeActivation {
			prompt += e.Activation.Prompt
		}
	}
	if !strings.Contains(prompt, "Made: yes") {
		t.Errorf("the text is\n%s", prompt)
	}
	for _, name := range []string{"made", "forked"} {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err != nil {
			t.Error(err)
		}
	}
}
