package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// planTools returns EnterPlanMode and ExitPlanMode, which skills written for other agents call. The
// model sees them only if a skill grants them, or once it has entered plan mode with them.
func planTools(enterPlan func(context.Context) (tool.Result, error),
	exitPlan func(ctx context.Context, plan string) (tool.Result, error),
	entered func() bool) tool.Set {
	harmless := func(name string) func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return func(context.Context, json.RawMessage) ([]permission.Subject, error) {
			return []permission.Subject{{Kind: permission.Kind(name), Default: permission.Allow}}, nil
		}
	}
	enter := tool.New("EnterPlanMode", "Switches to plan mode: nothing is changed until the user has approved a plan.",
		func(ctx context.Context, _ struct{}, _ tool.Input) (tool.Result, error) { return enterPlan(ctx) })
	enter.Effect, enter.Ordered = tool.Reads, true
	enter.Convert = func(in tool.Object) { clear(in) }
	enter.Subjects = harmless(enter.Name)
	enter.Unlisted = func() bool { return true }
	type input struct {
		Plan string `json:"plan,omitempty" jsonschema:"the plan; without one, the text of this answer is the plan"`
	}
	exit := tool.New("ExitPlanMode", "Shows the plan to the user and asks whether to leave plan mode and carry it out.",
		func(ctx context.Context, in input, _ tool.Input) (tool.Result, error) {
			return exitPlan(ctx, in.Plan)
		})
	exit.Effect, exit.Ordered = tool.Asks, true
	exit.Convert = func(in tool.Object) {
		for name := range in {
			if name != "plan" {
				delete(in, name)
			}
		}
	}
	exit.Subjects = harmless(exit.Name)
	exit.Unlisted = func() bool { return !entered() }
	return tool.Set{enter, exit}
}

// planMode is plan mode as the model enters and leaves it.
type planMode struct {
	session *Session

	mu     sync.Mutex
	before permission.Mode // see from
}

// from returns the mode in which the model entered plan mode; "": plan mode is off, or the user chose it.
func (p *planMode) from() permission.Mode {
	if p.session.Mode() != permission.Plan {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before
}

// set records the mode in which the model entered plan mode; "": somebody has set the mode since.
func (p *planMode) set(before permission.Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = before
}

func (p *planMode) enter(ctx context.Context) (tool.Result, error) {
	s := p.session
	from := s.Mode()
	if from == permission.Plan {
		return tool.Text("Plan mode is already on."), nil
	}
	if err := s.SetTyped(ctx, session.Setting{Mode: permission.Plan}); err != nil {
		return tool.Result{}, err
	}
	p.set(from)
	text := "Plan mode is on: explore without changing anything. When the plan is complete, call ExitPlanMode with it."
	if s.person == nil {
		text = "Plan mode is on: explore without changing anything. Nobody can approve a plan here, so give the plan as " +
			"your answer."
	}
	return tool.Text(text), nil
}

// exit asks the user whether to carry out a plan. If the user agrees, the mode from before plan
// mode is restored.
func (p *planMode) exit(ctx context.Context, plan string) (tool.Result, error) {
	s, from := p.session, p.from()
	switch {
	case s.Mode() != permission.Plan:
		return tool.Errorf("Plan mode is not on: continue without ExitPlanMode."), nil
	case from == "":
		return tool.Errorf("The user chose plan mode, and only the user can leave it: give the plan as your answer."), nil
	case s.person == nil:
		return tool.Errorf("Nobody can approve a plan here: give the plan as your answer."), nil
	}
	if plan = cmp.Or(strings.TrimSpace(plan), lastText(s.log)); plan == "" {
		return tool.Errorf("There is no plan: pass it as plan."), nil
	}
	title := fmt.Sprintf("Leave plan mode and carry out this plan in the mode %s?", from)
	a, err := s.ask(ctx, hook.NoticePermission, title, Question{Title: title, Text: plan, Asker: AskerPlan,
		Options: []Option{
			{ID: OptionNo, Label: "no, continue planning"}, {ID: OptionYes, Label: "yes, carry it out", Allow: true},
			{ID: OptionEdits, Label: "yes, and accept all edits", Allow: true,
				Help: "mode acceptEdits: files here are changed without asking"}}})
	switch {
	case errors.Is(err, ErrCannot):
		return tool.Errorf("Nobody can approve a plan here: give the plan as your answer."), nil
	case err != nil:
		return tool.Result{}, err
	case a.Option != OptionYes && a.Option != OptionEdits || a.Declined:
		return tool.Errorf("%s", strings.TrimSuffix("The user did not approve the plan: "+a.Reason, ": ")), nil
	case p.from() != from:
		return tool.Errorf("The user changed the mode meanwhile: it stays as it is."), nil
	}
	if a.Option == OptionEdits {
		from = permission.AcceptEdits
	}
	if err := s.SetTyped(ctx, session.Setting{Mode: from}); err != nil {
		return tool.Result{}, err
	}
	return tool.Text("The user approved the plan. Carry it out."), nil
}

// lastText returns the text of the model's last answer.
func lastText(log *session.Log) string {
	for e := range log.Backward() {
		if e.Answer != nil {
			return strings.TrimSpace(llm.TextOf(e.Answer.Message.Parts))
		}
	}
	return ""
}
