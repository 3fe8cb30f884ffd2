package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/llm/llmtest"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
)

// TestPlanMode: the model enters plan mode without approval; leaving it asks the user to approve the plan, and
// restores the previous mode.
func TestPlanMode(t *testing.T) {
	enter, exit, done := calls("EnterPlanMode", `{}`), calls("ExitPlanMode", `{"plan":"1. Do it","allowedPrompts":[]}`),
		llmtest.Answer{Text: "done"}
	const question = "Leave plan mode and carry out this plan in the mode acceptEdits?"
	for _, c := range []struct {
		name    string
		answer  string // "" if there is no user to ask
		before  permission.Mode
		model   []llmtest.Answer
		during  func(t *testing.T, s *engine.Session) // while the question is open
		want    string                                // the text of the results
		after   permission.Mode
		asked   []string
		unasked bool
	}{
		{name: "approved", answer: "yes", model: []llmtest.Answer{enter, exit, done}, after: permission.AcceptEdits,
			want: "The user approved the plan", asked: []string{question}},
		{name: "approved with edits", answer: engine.OptionEdits, before: permission.Default,
			model: []llmtest.Answer{enter, exit, done}, after: permission.AcceptEdits, want: "The user approved the plan",
			asked: []string{"Leave plan mode and carry out this plan in the mode default?"}},
		{name: "declined", answer: "no", model: []llmtest.Answer{enter, exit, done}, after: permission.Plan,
			want: "The user did not approve the plan: shorter", asked: []string{question}},
		{name: "headless", model: []llmtest.Answer{enter, exit, done}, after: permission.Plan,
			want: "Nobody can approve a plan here"},
		{name: "the user chose plan mode", answer: "yes", before: permission.Plan, model: []llmtest.Answer{exit, done},
			after: permission.Plan,
			want:  "The user chose plan mode, and only the user can leave it"},
		{name: "the user chose plan mode before", answer: "yes", before: permission.Plan,
			model: []llmtest.Answer{enter, exit, done},
			after: permission.Plan,
			want:  "The user chose plan mode"},
		{name: "not on", answer: "yes", model: []llmtest.Answer{exit, done}, after: permission.AcceptEdits,
			want: "Plan mode is not on"},
		{name: "the user changes the mode meanwhile", answer: "yes", model: []llmtest.Answer{enter, exit, done},
			after: permission.Default,
			during: func(t *testing.T, s *engine.Session) {
				if err := s.Set(t.Context(), session.Setting{Mode: permission.Default}); err != nil {
					t.Error(err)
				}
			}, want: "The user changed the mode meanwhile", asked: []string{question}},
		{name: "the plan is the answer's text", answer: "yes", after: permission.AcceptEdits,
			want: "The user approved the plan", asked: []string{question},
			model: []llmtest.Answer{enter, {Text: "1. Do it", Calls: []llmtest.Call{{Name: "ExitPlanMode", Input: "{}"}}},
				done}},
		{name: "nothing is changed", answer: "yes", after: permission.Plan, want: "plan",
			model: []llmtest.Answer{enter, calls("write", `{"path":"x","content":"y"}`), done}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newFixture(t)
			var s *engine.Session
			var asked []string
			var person engine.Person
			if c.answer != "" {
				person = personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
					asked = append(asked, q.Title)
					if q.Text != "1. Do it" {
						t.Errorf("the plan that is shown: %q", q.Text)
					}
					if c.during != nil {
						c.during(t, s)
					}
					return engine.Answer{Option: c.answer, Reason: "shorter"}, nil
				})
			}
			o := p.options(llmtest.New(c.model...))
			o.Values["permissions.defaultMode"] = "acceptEdits"
			if c.before != "" {
				o.Values["permissions.defaultMode"] = string(c.before)
			}
			_, s = p.open(t, o, person, engine.SessionOptions{Forget: true})
			got := run(t, s, "go")
			if !strings.Contains(got, c.want) || s.Mode() != c.after || !slices.Equal(asked, c.asked) {
				t.Errorf("mode %s, want %s; asked %q, want %q\n%s\nwant %s", s.Mode(), c.after, asked, c.asked, got, c.want)
			}
		})
	}
}

// TestPlanToolsListed: the model sees these tools only where a skill grants them, or after it has entered plan mode.
func TestPlanToolsListed(t *testing.T) {
	p := newFixture(t, "~/.claude/skills/plans/SKILL.md",
		"---\ndescription: P\nallowed-tools: EnterPlanMode\n---\nPlan.\n")
	m := llmtest.New(llmtest.Answer{Text: "one"}, calls("EnterPlanMode", `{"x":1}`), llmtest.Answer{Text: "two"})
	_, s := p.open(t, p.options(m), nil, engine.SessionOptions{Forget: true})
	for _, prompt := range []string{"go", "/plans"} {
		run(t, s, prompt)
	}
	var got []string
	for _, r := range m.Requests() {
		var names []string
		for _, x := range r.Tools {
			if strings.Contains(x.Name, "PlanMode") {
				names = append(names, x.Name)
			}
		}
		got = append(got, strings.Join(names, " "))
	}
	if want := []string{"", "EnterPlanMode", "EnterPlanMode ExitPlanMode"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	o := p.options(llmtest.New(calls("EnterPlanMode", `{}`), llmtest.Answer{Text: "x"}))
	_, s = p.open(t, o, nil, engine.SessionOptions{Forget: true, Tools: "read"})
	if got := run(t, s, "go"); !strings.Contains(got, "does not exist here") {
		t.Errorf("a tool that the command line excludes can be called:\n%s", got)
	}
}
