package plan_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/plan"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// TestPlanMode: however plan mode began, ExitPlanMode asks the user what becomes of the plan.
func TestPlanMode(t *testing.T) {
	enter, exit, done := enginetest.Calls("EnterPlanMode", `{}`), enginetest.Calls("ExitPlanMode", `{"plan":"1. Do it","allowedPrompts":[]}`),
		llmtest.Answer{Text: "done"}
	const question = "Start this plan?"
	for _, c := range []struct {
		name   string
		answer engine.Answer // without Option and Declined: there is no user to ask
		before permission.Mode
		model  []llmtest.Answer
		during func(t *testing.T, s *engine.Session) // while the question is open
		want   string                                // the text of the results
		after  permission.Mode
		unused bool // nobody is asked
		end    string
	}{
		{name: "start and ask", answer: engine.Answer{Option: "yes"}, model: []llmtest.Answer{enter, exit, done},
			before: permission.AcceptEdits, after: permission.Default, want: "The user approved the plan"},
		{name: "start and accept edits", answer: engine.Answer{Option: engine.OptionEdits}, before: permission.Default,
			model: []llmtest.Answer{enter, exit, done}, after: permission.AcceptEdits, want: "The user approved the plan"},
		{name: "in a mode in which nothing is asked", answer: engine.Answer{Option: "yes"}, before: permission.DontAsk,
			model: []llmtest.Answer{enter, exit, done}, after: permission.DontAsk, want: "The user approved the plan"},
		{name: "keep planning", answer: engine.Answer{Option: "no", Reason: "shorter"}, before: permission.Default,
			model: []llmtest.Answer{enter, exit, done}, after: permission.Plan, want: "The user wants another plan: shorter",
			end: "done"},
		{name: "without feedback the user speaks next", answer: engine.Answer{Declined: true}, before: permission.Default,
			model: []llmtest.Answer{enter, exit}, after: permission.Plan, want: "The user has not approved the plan"},
		{name: "a host ends the run", answer: engine.Answer{Declined: true, Reason: "no", Stop: true},
			before: permission.Plan, model: []llmtest.Answer{exit}, after: permission.Plan,
			want: "The user has not approved the plan"},
		{name: "another plan", answer: engine.Answer{Option: "yes", Input: []byte(`{"plan":"2. Do more"}`)},
			before: permission.Plan, model: []llmtest.Answer{exit, done}, after: permission.Default,
			want: "Carry this out:\n\n2. Do more"},
		{name: "nobody can approve it", before: permission.Plan, model: []llmtest.Answer{exit}, after: permission.Plan,
			want: "it is the answer", end: "1. Do it"},
		{name: "the user chose plan mode", answer: engine.Answer{Option: "yes"}, before: permission.Plan,
			model: []llmtest.Answer{exit, done}, after: permission.Default, want: "The user approved the plan"},
		{name: "not on", answer: engine.Answer{Option: "yes"}, before: permission.AcceptEdits, unused: true,
			model: []llmtest.Answer{exit, done}, after: permission.AcceptEdits, want: "Plan mode is not on"},
		{name: "the user changes the mode meanwhile", answer: engine.Answer{Option: "yes"}, before: permission.Default,
			model: []llmtest.Answer{enter, exit, done}, after: permission.AcceptEdits,
			during: func(t *testing.T, s *engine.Session) {
				if err := s.Set(t.Context(), session.Setting{Mode: permission.AcceptEdits}); err != nil {
					t.Error(err)
				}
			}, want: "The user changed the mode meanwhile"},
		{name: "the plan is the answer's text", answer: engine.Answer{Option: "yes"}, before: permission.Plan,
			after: permission.Default, want: "The user approved the plan",
			model: []llmtest.Answer{{Text: "1. Do it", Calls: []llmtest.Call{{Name: "ExitPlanMode", Input: "{}"}}}, done}},
		{name: "nothing is changed", answer: engine.Answer{Option: "yes"}, before: permission.Default, unused: true,
			after: permission.Plan, want: "plan", model: []llmtest.Answer{enter, enginetest.Calls("write",
				`{"path":"x","content":"y"}`), done}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := enginetest.New(t)
			var s *engine.Session
			asked := 0
			var person engine.Person
			if c.answer.Option != "" || c.answer.Declined {
				person = enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
					asked++
					if q.Text != "1. Do it" || q.Title != question || q.Asker != engine.AskerPlan || len(q.Options) != 3 {
						t.Errorf("the question: %+v", q)
					}
					if c.during != nil {
						c.during(t, s)
					}
					return c.answer, nil
				})
			}
			m := llmtest.New(c.model...)
			o := p.Options(m)
			o.Values["permissions.defaultMode"] = string(c.before)
			_, s = p.Open(t, o, person, engine.SessionOptions{Forget: true})
			var report engine.Report
			for e, err := range s.Run(t.Context(), agent.Typed("go")) {
				if err != nil {
					t.Fatal(err)
				}
				report.Add(e)
			}
			got := enginetest.Conversation(s)
			if want := person != nil && !c.unused; !strings.Contains(got, c.want) || s.Mode() != c.after ||
				(asked == 1) != want {
				t.Errorf("mode %s, want %s; asked %d times\n%s\nwant %s", s.Mode(), c.after, asked, got, c.want)
			}
			if c.end != "" && report.End.Text != c.end {
				t.Errorf("the answer is %q, want %q", report.End.Text, c.end)
			}
			if n := len(m.Requests()); n != len(c.model) {
				t.Errorf("%d requests, want %d", n, len(c.model))
			}
		})
	}
}

// TestPlanMessages: a message informs the model that plan mode has begun or ended, once, and again after a compaction.
// What was sent before stays as it is, the tools too.
func TestPlanMessages(t *testing.T) {
	const begins, ends = "Plan mode is on", "Plan mode has ended"
	p := enginetest.New(t)
	m := llmtest.New(slices.Repeat([]llmtest.Answer{{Text: "x"}}, 8)...)
	_, s := p.Open(t, p.Options(m), enginetest.PersonFunc(nil), engine.SessionOptions{Forget: true})
	for _, mode := range []permission.Mode{permission.Default, permission.Plan, permission.Plan, permission.AcceptEdits,
		permission.Default, permission.Plan} {
		if err := s.Set(t.Context(), session.Setting{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		enginetest.Run(t, s, "go")
	}
	var got []string
	tools := ""
	for i, r := range m.Requests() {
		text := enginetest.TextOf(r.Messages[len(r.Messages)-1].Parts)
		switch {
		case strings.Contains(text, begins) && strings.Contains(text, "call ExitPlanMode"):
			got = append(got, "begins")
		case strings.Contains(text, ends):
			got = append(got, "ends")
		default:
			got = append(got, "")
		}
		var names []string
		for _, x := range r.Tools {
			names = append(names, x.Name)
		}
		if all := strings.Join(names, " ") + r.System; i > 0 && all != tools {
			t.Errorf("request %d has another prefix:\n%s\n%s", i, tools, all)
		} else {
			tools = all
		}
	}
	if want := []string{"", "begins", "", "ends", "", "begins"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if !strings.Contains(tools, "ExitPlanMode") || strings.Contains(tools, "EnterPlanMode") {
		t.Errorf("the tools are %s", tools)
	}
	if _, err := s.Log().Append(session.Entry{Type: session.TypeCompaction,
		Compaction: &session.Compaction{Trigger: session.TriggerClear}}); err != nil {
		t.Fatal(err)
	}
	if enginetest.Run(t, s, "go"); !strings.Contains(enginetest.Conversation(s), begins) {
		t.Error("after the context was emptied, the model does not know that plan mode is on")
	}

	m = llmtest.New(llmtest.Answer{Text: "x"})
	o := p.Options(m)
	o.Values["permissions.defaultMode"] = "plan"
	_, s = p.Open(t, o, nil, engine.SessionOptions{Forget: true})
	enginetest.Run(t, s, "go")
	if text := enginetest.Conversation(s); !strings.Contains(text, "end with the plan as your answer") {
		t.Errorf("without a user:\n%s", text)
	}
}

// TestPlanToolsListed: where nobody can be asked, the model sees these tools only if a skill grants them, or in plan
// mode.
func TestPlanToolsListed(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/plans/SKILL.md",
		"---\ndescription: P\nallowed-tools: EnterPlanMode\n---\nPlan.\n")
	m := llmtest.New(llmtest.Answer{Text: "one"}, enginetest.Calls("EnterPlanMode", `{"x":1}`), llmtest.Answer{Text: "two"})
	_, s := p.Open(t, p.Options(m), nil, engine.SessionOptions{Forget: true})
	for _, prompt := range []string{"go", "/plans"} {
		enginetest.Run(t, s, prompt)
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
	o := p.Options(llmtest.New(enginetest.Calls("EnterPlanMode", `{}`), llmtest.Answer{Text: "x"}))
	_, s = p.Open(t, o, nil, engine.SessionOptions{Forget: true, Tools: "read"})
	if got := enginetest.Run(t, s, "go"); !strings.Contains(got, "does not exist here") {
		t.Errorf("a tool that the command line excludes can be called:\n%s", got)
	}
}

// TestEffects: which lines a host's message runs although no user typed them.
func TestEffects(t *testing.T) {
	enginetest.Effects(t, plan.Part().Commands, []string{"plan do it"}, nil)
}
