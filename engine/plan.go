package engine

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// What the model is told about plan mode.
var (
	//go:embed prompts/plan.md
	planText string
	//go:embed prompts/plan-approve.md
	planApproveText string
	//go:embed prompts/plan-answer.md
	planAnswerText string
	//go:embed prompts/plan-agent.md
	planAgentText string
	//go:embed prompts/plan-end.md
	planEndText string
	//go:embed prompts/plan-tool.md
	planToolText string
)

var (
	//go:embed EnterPlanMode.json
	enterPlanSchema []byte
	//go:embed ExitPlanMode.json
	exitPlanSchema []byte
)

// planNote returns the message that informs the model that plan mode has begun or ended; nil: it knows. It is not a
// part of the system prompt, because a change of that loses the provider's cache.
func planNote(mode permission.Mode, state session.State, begins string) *session.Note {
	on, known := mode == permission.Plan, state.NotedMode == permission.Plan
	switch {
	case on && !known:
		return &session.Note{Model: strings.TrimSpace(begins), Mode: mode}
	case !on && known:
		return &session.Note{Model: strings.TrimSpace(planEndText), Mode: mode}
	}
	return nil
}

// planTools returns EnterPlanMode and ExitPlanMode. EnterPlanMode is for skills written for other agents: the model
// sees it only if a skill grants it.
func planTools(enterPlan func(context.Context) (tool.Result, error),
	exitPlan func(ctx context.Context, plan string) (tool.Result, error),
	offersExit func() bool) tool.Set {
	harmless := func(name string) func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return func(context.Context, json.RawMessage) ([]permission.Subject, error) {
			return []permission.Subject{{Kind: permission.Kind(name), Default: permission.Allow}}, nil
		}
	}
	enter := tool.Define("EnterPlanMode", "Switches to plan mode: nothing is changed until the user has approved a plan.",
		enterPlanSchema,
		func(ctx context.Context, _ struct{}, _ tool.Input) (tool.Result, error) { return enterPlan(ctx) })
	enter.Effect, enter.Ordered = tool.Reads, true
	enter.Convert = func(in tool.Object) { clear(in) }
	enter.Subjects = harmless(enter.Name)
	enter.Unlisted = func() bool { return true }
	type input struct {
		Plan string `json:"plan,omitempty" jsonschema:"the plan, as Markdown; without one, the text of this answer is the plan"`
	}
	exit := tool.Define("ExitPlanMode", strings.TrimSpace(planToolText), exitPlanSchema,
		func(ctx context.Context, in input, _ tool.Input) (tool.Result, error) {
			return exitPlan(ctx, in.Plan)
		})
	exit.Effect, exit.Ordered = tool.Asks, true
	exit.Summary = tool.SummaryOf(func(in input) string {
		first, _, _ := strings.Cut(strings.TrimSpace(in.Plan), "\n")
		return cmp.Or(strings.TrimSpace(strings.TrimLeft(first, "#")), "the plan above")
	})
	exit.Convert = func(in tool.Object) {
		for name := range in {
			if name != "plan" {
				delete(in, name)
			}
		}
	}
	exit.Subjects = harmless(exit.Name)
	exit.Unlisted = func() bool { return !offersExit() }
	return tool.Set{enter, exit}
}

// planMode is plan mode as the model enters and leaves it.
type planMode struct {
	session *Session

	mu     sync.Mutex
	before permission.Mode // the mode from which plan mode was entered; "": not known
}

// changed records from which mode plan mode is entered.
func (p *planMode) changed(from, to permission.Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case to != permission.Plan:
		p.before = ""
	case from != permission.Plan:
		p.before = from
	}
}

// from returns the mode from which plan mode was entered; "": not known.
func (p *planMode) from() permission.Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before
}

// isOffered reports whether the model gets the tool with which it hands in a plan. Where somebody can approve plans it
// always does: a list of tools that changes with the mode would lose the provider's cache.
func (p *planMode) isOffered() bool {
	return p.session.person != nil || p.session.Mode() == permission.Plan
}

// text returns what the model is told when plan mode begins.
func (p *planMode) text() string {
	how := planApproveText
	if p.session.person == nil || len(p.session.unlisted) == 0 {
		how = planAnswerText
	}
	if own := p.session.Host().Plan; own != "" {
		how = "\n\n" + own + "\n\n" + how
	}
	return planText + how
}

func (p *planMode) enter(ctx context.Context) (tool.Result, error) {
	if p.session.Mode() == permission.Plan {
		return tool.Text("Plan mode is already on."), nil
	}
	if err := p.session.SetTyped(ctx, session.Setting{Mode: permission.Plan}); err != nil {
		return tool.Result{}, err
	}
	return tool.Text("Plan mode is on."), nil
}

// exit asks the user what becomes of a plan: it is started, with or without questions about changes, or the model
// continues planning. If there is nobody to ask, the plan is the answer of the run.
func (p *planMode) exit(ctx context.Context, plan string) (tool.Result, error) {
	s := p.session
	if s.Mode() != permission.Plan {
		return tool.Errorf("Plan mode is not on: continue without ExitPlanMode."), nil
	}
	if plan = cmp.Or(strings.TrimSpace(plan), lastText(s.log)); plan == "" {
		return tool.Errorf("There is no plan: pass it as plan."), nil
	}
	yes := Option{ID: OptionYes, Label: "start, and ask before changes", Allow: true}
	asks := permission.Default
	if m := p.from(); m == permission.DontAsk || m == permission.Bypass { // a mode in which nothing is asked
		asks, yes.Label = m, "start, in the mode "+string(m)
	}
	q := Question{Title: "Start this plan?", Text: plan, Asker: AskerPlan, Options: []Option{
		{ID: OptionEdits, Label: "start, and accept edits", Allow: true, Help: "files here are changed without asking"},
		yes, {ID: OptionNo, Label: "keep planning", Ask: "what to change?"}}}
	if p.from() == permission.AcceptEdits {
		q.Current = OptionEdits
	}
	a, err := s.ask(ctx, hook.NoticePermission, q.Title, q)
	switch {
	case errors.Is(err, ErrCannot):
		res := tool.Text("Nobody can approve a plan here: it is the answer.")
		res.Terminate, res.Answer = true, plan
		return res, nil
	case err != nil:
		return tool.Result{}, err
	case (a.Option != OptionYes && a.Option != OptionEdits || a.Declined) && a.Reason != "" && !a.Stop:
		return tool.Errorf("The user wants another plan: %s", a.Reason), nil
	case a.Option != OptionYes && a.Option != OptionEdits || a.Declined:
		res := tool.Errorf("The user has not approved the plan. Wait for what the user says about it.")
		res.Terminate = true
		return res, nil
	case s.Mode() != permission.Plan:
		return tool.Errorf("The user changed the mode meanwhile: it stays as it is."), nil
	}
	if a.Option == OptionEdits {
		asks = permission.AcceptEdits
	}
	if err := s.SetTyped(ctx, session.Setting{Mode: asks}); err != nil {
		return tool.Result{}, err
	}
	var in struct{ Plan string }
	if json.Unmarshal(a.Input, &in) == nil && in.Plan != "" && in.Plan != plan {
		return tool.Text("The user changed the plan and approved it. Carry this out:\n\n" + in.Plan), nil
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
