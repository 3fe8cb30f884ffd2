package secrets_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/secrets"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestAsked: the first command that would get a value asks for it, once; a refusal is not asked again, and a change is.
func TestAsked(t *testing.T) {
	p := enginetest.New(t)
	dir := filepath.Join(p.Home, ".claude", "skills", "x")
	files := map[string]string{"SKILL.md": "---\nname: x\ndescription: Does x.\nmetadata:\n  knack:\n    env:\n" +
		"      - {name: A_TOKEN, description: Of A.}\n      - {name: B_TOKEN, required: false}\n---\nX.\n",
		"a.sh": `echo "${A_TOKEN-none} is ${#A_TOKEN} long, and ${B_TOKEN-none}"`}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text)
	}
	line, err := json.Marshal(map[string]string{"command": "sh " + filepath.ToSlash(dir) + "/a.sh"})
	if err != nil {
		t.Fatal(err)
	}
	run := func(answer engine.Answer) (result string, asked []engine.Question) {
		t.Helper()
		m := llmtest.New(llmtest.Use("Skill", map[string]any{"skill": "x"}), enginetest.Calls("bash", string(line)),
			enginetest.Calls("bash", string(line)), llmtest.Reply("done"))
		o := p.Options(m)
		o.Values["permissions.allow"] = []string{"Bash", "Skill"}
		person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
			asked = append(asked, q)
			if len(q.Options) > 0 && answer.Option == "" {
				return engine.Answer{Option: "session"}, nil
			}
			return answer, nil
		})
		e, s := p.Open(t, o, person, engine.SessionOptions{})
		defer e.Close()
		if out := enginetest.Run(t, s, "go"); !strings.Contains(out, "done") {
			t.Fatal(out)
		}
		return enginetest.Conversation(s), asked
	}
	value := map[string]json.RawMessage{"A_TOKEN": json.RawMessage(`"canary-1234"`), "B_TOKEN": json.RawMessage(`""`)}

	result, asked := run(engine.Answer{Values: value})
	if len(asked) != 2 || asked[0].Asker != engine.AskerSecrets || asked[0].Fields[0].Type != engine.FieldSecret ||
		asked[0].Fields[0].Help != "Of A." || asked[0].Fields[1].Required || !strings.Contains(asked[0].Text, dir) {
		t.Errorf("asked: %+v", asked)
	}
	if strings.Count(result, "[secret] is 11 long, and none") != 2 || strings.Contains(result, "canary") {
		t.Error(result)
	}
	result, asked = run(engine.Answer{Declined: true})
	if len(asked) != 1 || !strings.Contains(result, "none is 0 long") {
		t.Errorf("declined: %d questions\n%s", len(asked), result)
	}

	// What is stored is used without a question, until the skill changes.
	env := p.Options(nil).Env
	k, problems := knack.Check(t.Context(), dir)
	if k == nil {
		t.Fatal(problems)
	}
	b, err := secrets.BindingOf(k)
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Open(env).Put(b, secrets.Wanted{Name: "A_TOKEN"}, "canary-123", true); err != nil {
		t.Fatal(err)
	}
	result, asked = run(engine.Answer{Declined: true})
	if len(asked) != 0 || !strings.Contains(result, "[secret] is 10 long") {
		t.Errorf("stored: %d questions\n%s", len(asked), result)
	}
	if err := secrets.Open(env).Saw(k); err != nil {
		t.Fatal(err)
	}
	write("b.sh", "echo new")
	result, asked = run(engine.Answer{Option: "no"})
	if len(asked) != 1 || asked[0].Title != "The skill x has changed since you gave it A_TOKEN" ||
		!strings.Contains(asked[0].Text, "Since then added: b.sh.") ||
		!strings.Contains(result, "none is 0 long") {
		t.Errorf("changed: %+v\n%s", asked, result)
	}
	result, asked = run(engine.Answer{Option: "other", Values: value})
	if len(asked) != 3 || !strings.Contains(result, "[secret] is 11 long") {
		t.Errorf("another one: %+v\n%s", asked, result)
	}
	result, asked = run(engine.Answer{Option: "keep"})
	if len(asked) != 1 || !strings.Contains(result, "[secret] is 10 long") {
		t.Errorf("kept: %+v\n%s", asked, result)
	}
	result, asked = run(engine.Answer{Declined: true})
	if len(asked) != 0 || !strings.Contains(result, "[secret] is 10 long") {
		t.Errorf("kept before: %d questions\n%s", len(asked), result)
	}
}
