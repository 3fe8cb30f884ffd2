package engine_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A remoteSource is an MCP server with one skill, whose file changes.
type remoteSource struct{ file *string }

func (s remoteSource) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) {
		k, _ := knack.ParseHead("mcp:srv:skill://review/SKILL.md", []byte(*s.file), 0,
			knack.Origin{Kind: knack.MCP, Label: "srv", Trust: knack.Remote})
		k.Name, k.Dir = "srv:review", ""
		k.Read = func(context.Context) ([]byte, error) { return []byte(*s.file), nil }
		k.List = func(context.Context) ([]string, error) { return nil, nil }
		yield(k, nil)
	}
}

// TestGrantsOfServer: what the skill of a server asks for counts only for content that a person has seen; a rule for
// its name, a mode and a typed name load the text alone.
func TestGrantsOfServer(t *testing.T) {
	t.Parallel()
	const head = "---\nname: review\ndescription: Reviews.\nallowed-tools: \"Bash(touch:*)\"\nmodel: other\n---\n"
	const granted, text = "granted", "text"
	call := calls("Skill", `{"skill":"srv:review"}`)
	touch := calls("bash", `{"command":"touch made"}`)
	done := llmtest.Reply("done")
	const use, let = "Use the skill srv:review?", "Let the skill srv:review have what it asks for?"
	for _, c := range []struct {
		name    string
		rule    string
		mode    string
		nobody  bool
		answers map[string]string
		prompts string
		changes bool // the server changes the skill between the prompts
		want    string
		asked   string
		model   []llmtest.Answer
	}{
		{name: "a rule, nobody", rule: "Skill(srv:*)", nobody: true, prompts: "go", want: text},
		{name: "a rule", rule: "Skill(srv:review)", prompts: "go", want: text, asked: "Run this command?"},
		{name: "bypass", mode: "bypassPermissions", prompts: "go", want: text},
		{name: "typed, nobody", nobody: true, prompts: "/srv:review", want: text, model: []llmtest.Answer{touch, done}},
		{name: "typed, no", prompts: "/srv:review", want: text, asked: let + "|Run this command?",
			model: []llmtest.Answer{touch, done}},
		{name: "typed, yes", prompts: "/srv:review", answers: map[string]string{let: "always"}, want: granted, asked: let,
			model: []llmtest.Answer{touch, done}},
		{name: "a question", prompts: "go", answers: map[string]string{use: "once"}, want: granted, asked: use},
		{name: "seen before", rule: "Skill(srv:*)", prompts: "/srv:review|go", answers: map[string]string{let: "always"},
			want: granted + " " + granted, asked: let, model: []llmtest.Answer{touch, done, call, touch, done}},
		{name: "seen before, changed", rule: "Skill(srv:*)", prompts: "/srv:review|go", changes: true,
			answers: map[string]string{let: "always"}, want: granted + " " + text, asked: let + "|Run this command?",
			model: []llmtest.Answer{touch, done, call, touch, done}},
		{name: "in this session, changed", prompts: "go|go", changes: true, answers: map[string]string{use: "session"},
			want: granted + " " + text, asked: use + "|Run this command?",
			model: []llmtest.Answer{call, touch, done, call, touch, done}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newFixture(t)
			if c.model == nil {
				c.model = []llmtest.Answer{call, touch, done}
			}
			file := head + "Look at it.\n"
			o := p.options(llmtest.New(c.model...))
			o.Trust, o.Sources = true, []knack.Source{remoteSource{&file}}
			if c.mode != "" {
				o.Values["permissions.defaultMode"] = c.mode
			}
			if c.rule != "" {
				o.Values["permissions.allow"] = []string{c.rule}
			}
			var asked []string
			var person engine.Person
			if !c.nobody {
				person = personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
					asked = append(asked, q.Title)
					return engine.Answer{Option: c.answers[q.Title]}, nil
				})
			}
			_, s := p.open(t, o, person, engine.SessionOptions{})
			for i, prompt := range strings.Split(c.prompts, "|") {
				if i > 0 && c.changes {
					file += "And more.\n"
				}
				run(t, s, prompt)
			}
			var got []string
			for _, e := range s.Log().Entries() {
				a := e.Activation
				switch {
				case a == nil:
				case len(a.Grants) > 0 && a.Model != "":
					got = append(got, granted)
				case len(a.Grants) == 0 && a.Model == "" && len(a.Problems) == 1 &&
					strings.HasPrefix(a.Problems[0].Message, "only the text of srv:review is used"):
					got = append(got, text)
				default:
					t.Errorf("%+v", a)
				}
			}
			if strings.Join(got, " ") != c.want || strings.Join(asked, "|") != c.asked {
				t.Errorf("%q, want %q; asked %q, want %q", got, c.want, asked, c.asked)
			}
			_, err := os.Stat(filepath.Join(p.dir, "made"))
			if want := strings.Contains(c.want, granted) || c.mode != ""; (err == nil) != want {
				t.Errorf("the command ran: %t, want %t", err == nil, want)
			}
		})
	}
}
