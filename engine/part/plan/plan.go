// Package plan is the part with plan mode: the model plans while nothing is changed, and hands the plan in, which the
// user starts, changes or refuses. That nothing is changed is not its task but the gate's.
package plan

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// What the model is told about plan mode.
var (
	//go:embed plan.md
	planText string
	//go:embed plan-approve.md
	planApproveText string
	//go:embed plan-answer.md
	planAnswerText string
	//go:embed plan-agent.md
	planAgentText string
	//go:embed plan-end.md
	planEndText string
	//go:embed plan-tool.md
	planToolText string
)

var (
	//go:embed EnterPlanMode.json
	enterPlanSchema []byte
	//go:embed ExitPlanMode.json
	exitPlanSchema []byte
)

// Part is plan mode.
func Part() engine.Part {
	return engine.Part{Name: "plan", Open: open,
		Known: func(engine.Brought) engine.PartTools {
			return engine.PartTools{Unlisted: tools(nil, nil, func() bool { return true })}
		},
		Commands: []engine.Command{
			{Name: "plan", Hint: "[PROMPT]", Description: "plan first: nothing is changed until you start the plan", Run: begin,
				Effect: func(now permission.Mode, _ string) engine.Effect {
					return engine.ModeEffect(now, permission.Plan)
				}},
		}}
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	m := &mode{conv: c}
	if before, ok := c.Before().(*mode); ok {
		m.before = before.from()
	}
	return &engine.Live{Note: m.note, ModeChanged: m.changed, Value: m,
		Tools: func() engine.PartTools { return engine.PartTools{Unlisted: tools(m.enter, m.exit, m.isOffered)} }}, nil
}

// begin switches to plan mode, and then sends a prompt if there is one.
func begin(ctx context.Context, s *engine.Session, prompt string) (engine.Reply, error) {
	if err := s.Set(ctx, session.Setting{Mode: permission.Plan}); err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Text: "plan mode: nothing is changed until you start a plan (/permissions default leaves it)",
		Value: map[string]permission.Mode{"mode": s.Mode()}, Prompt: prompt}, nil
}

// tools returns EnterPlanMode and ExitPlanMode. EnterPlanMode is for skills written for other agents: the model
// sees it only if a skill grants it.
func tools(enterPlan func(context.Context) (tool.Result, error),
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

// mode is plan mode as the model enters and leaves it.
type mode struct {
	conv *engine.Conv

	mu     sync.Mutex
	before permission.Mode // the mode from which plan mode was entered; "": not known
}

// changed records from which mode plan mode is entered.
func (m *mode) changed(from, to permission.Mode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case to != permission.Plan:
		m.before = ""
	case from != permission.Plan:
		m.before = from
	}
}

// from returns the mode from which plan mode was entered; "": not known.
func (m *mode) from() permission.Mode {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.before
}

// isOffered reports whether the model gets the tool with which it hands in a plan. Where somebody can approve plans it
// always does: a list of tools that changes with the mode would lose the provider's cache.
func (m *mode) isOffered() bool {
	return m.conv.Interactive() || m.conv.Mode() == permission.Plan
}

// note returns the message that informs the model that plan mode has begun or ended; nil: it knows. It is not a part of
// the system prompt, because a change of that loses the provider's cache.
func (m *mode) note(a engine.Asking, state session.State) *session.Note {
	on, known := a.Mode == permission.Plan, state.NotedMode == permission.Plan
	switch {
	case on && !known && a.Sub:
		return &session.Note{Model: strings.TrimSpace(planAgentText), Mode: a.Mode}
	case on && !known:
		return &session.Note{Model: strings.TrimSpace(m.text()), Mode: a.Mode}
	case !on && known:
		return &session.Note{Model: strings.TrimSpace(planEndText), Mode: a.Mode}
	}
	return nil
}

// text returns what the model is told when plan mode begins.
func (m *mode) text() string {
	how := planApproveText
	if !m.conv.Interactive() || m.conv.Options().Tools != "" { // it has no ExitPlanMode
		how = planAnswerText
	}
	if own := m.conv.Host().Plan; own != "" {
		how = "\n\n" + own + "\n\n" + how
	}
	return planText + how
}

func (m *mode) enter(ctx context.Context) (tool.Result, error) {
	if m.conv.Mode() == permission.Plan {
		return tool.Text("Plan mode is already on."), nil
	}
	if err := m.conv.SetMode(ctx, permission.Plan); err != nil {
		return tool.Result{}, err
	}
	return tool.Text("Plan mode is on."), nil
}

// exit asks the user what becomes of a plan: it is started, with or without questions about changes, or the model
// continues planning. If there is nobody to ask, the plan is the answer of the run.
func (m *mode) exit(ctx context.Context, plan string) (tool.Result, error) {
	if m.conv.Mode() != permission.Plan {
		return tool.Errorf("Plan mode is not on: continue without ExitPlanMode."), nil
	}
	if plan = cmp.Or(strings.TrimSpace(plan), lastText(m.conv.Log())); plan == "" {
		return tool.Errorf("There is no plan: pass it as plan."), nil
	}
	yes := engine.Option{ID: engine.OptionYes, Label: "start, and ask before changes", Allow: true}
	asks := permission.Default
	if b := m.from(); b == permission.DontAsk || b == permission.Bypass { // a mode in which nothing is asked
		asks, yes.Label = b, "start, in the mode "+string(b)
	}
	q := engine.Question{Title: "Start this plan?", Text: plan, Asker: engine.AskerPlan, Options: []engine.Option{
		{ID: engine.OptionEdits, Label: "start, and stop asking for edits in this folder", Allow: true},
		yes, {ID: engine.OptionNo, Label: "keep planning", Ask: "what to change?"}}}
	if m.from() == permission.AcceptEdits {
		q.Current = engine.OptionEdits
	}
	a, err := m.conv.Ask(ctx, q)
	switch {
	case errors.Is(err, engine.ErrCannot):
		res := tool.Text("Nobody can approve a plan here: it is the answer.")
		res.Terminate, res.Answer = true, plan
		return res, nil
	case err != nil:
		return tool.Result{}, err
	case (a.Option != engine.OptionYes && a.Option != engine.OptionEdits || a.Declined) && a.Reason != "" && !a.Stop:
		res := tool.Errorf("The user wants another plan: %s", a.Reason)
		res.People = "not started: " + a.Reason
		return res, nil
	case a.Option != engine.OptionYes && a.Option != engine.OptionEdits || a.Declined:
		res := tool.Errorf("The user has not approved the plan. Wait for what the user says about it.")
		res.Terminate, res.People = true, "not started"
		return res, nil
	case m.conv.Mode() != permission.Plan:
		return tool.Errorf("The user changed the mode meanwhile: it stays as it is."), nil
	}
	if a.Option == engine.OptionEdits {
		asks = permission.AcceptEdits
	}
	if err := m.conv.SetMode(ctx, asks); err != nil {
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
