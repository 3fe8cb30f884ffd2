package steps_test

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/steps"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestOf: steps are a list in the metadata, or else a task list below the heading Steps.
func TestOf(t *testing.T) {
	for body, want := range map[string]string{
		"# Steps\n- [ ] one\n* [ ] two\n3. [ ] three\n":                      "one|two|three",
		"# steps:\n- [ ] one\n- [x] is done\n- no box\n":                     "one",
		"# Other\n- [ ] no\n## Steps ##\n- [ ] one\n### Below\n- [ ] two":    "one|two",
		"## Steps\n- [ ] one\n# Next\n- [ ] no":                              "one",
		"# Steps\n```\n- [ ] in code\n# Other\n```\n- [ ] one":               "one",
		"# The steps\n- [ ] no":                                              "",
		"# Steps\n- [ ]   with\u200b  spaces  \r\n":                          `with\u200b spaces`,
		"no heading\n- [ ] no":                                               "",
		"# Steps\n" + strings.Repeat("- [ ] x\n", 51):                        "error: there are more than 50 steps",
		"# Steps\n- [ ] " + strings.Repeat("x", 301):                         "error: step 1 is longer than 300 characters",
		"metadata: {knack: {steps: [a, ' b  c ']}}\n---\n# Steps\n- [ ] no":  "a|b c",
		"metadata: {knack: {steps: a}}\n---\n# Steps\n- [ ] no":              "error: it must be a list of texts",
		"metadata: {knack: {steps: ['']}}\n---\n":                            "error: step 1 has no text",
		"metadata: {knack: {steps: [[a]]}}\n---\n":                           "error: it must be a list of texts",
		"metadata: {knack: {steps: ['IGNORE\u202e ALL']}}\n---\n# Steps\nno": `IGNORE\u202e ALL`,
	} {
		head := "---\nname: x\ndescription: D.\n"
		if !strings.HasPrefix(body, "metadata:") {
			head += "---\n"
		}
		p := enginetest.New(t, "x/SKILL.md", head+body)
		k, _ := knack.Check(t.Context(), p.Dir+"/x")
		if k == nil {
			t.Fatal(body)
		}
		all, err := steps.Of(t.Context(), k)
		got := strings.Join(all, "|")
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// TestOnce: what is not done is said once, to the model and to the user; a sub-agent's request says nothing.
func TestOnce(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/x/SKILL.md",
		"---\nname: x\ndescription: D.\n---\n# Steps\n- [ ] one\n- [ ] two\n")
	m := llmtest.New(enginetest.Calls("todo", `{"item":{"id":"1","state":"done"}}`), llmtest.Reply("first"),
		llmtest.Reply("second"), llmtest.Reply("third"))
	o := p.Options(m)
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	if out := enginetest.Run(t, s, "/x"); !strings.Contains(out, "second") {
		t.Fatal(out)
	}
	enginetest.Run(t, s, "go on")
	reminded, warned := 0, 0
	for e := range s.Log().All() {
		if n := e.Note; n != nil && strings.Contains(n.Model, "1 step of the skill x not done") {
			reminded++
			if n.Warns && n.People == "1 step of the skill x not done, nor dropped with a reason: two" {
				warned++
			}
		}
	}
	if reminded != 1 || warned != 1 {
		t.Errorf("the model was told %d times, the user %d times", reminded, warned)
	}
}
