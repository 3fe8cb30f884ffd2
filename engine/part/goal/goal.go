// Package goal is the part with goals: a conversation goes on until a text that says what is to be reached is judged to
// be met, by a fast model without tools or by a command of the user's, or until it cannot be, or the budget is used up.
//
// The goal and each judgement are entries of the session's log, so that a resumed session goes on toward it.
package goal

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// maxTurns is how often a goal is judged before the conversation stops. The limits of the session apply, too.
const maxTurns = 20

// maxText is how long a goal may be, in bytes.
const maxText = 4 << 10

//go:embed ProposeGoal.json
var proposeSchema []byte

// Part provides goals: the command /goal, the goal of a skill in use, and a tool with which the model proposes one.
func Part() engine.Part {
	return engine.Part{Name: name, Open: open,
		SkillKeys: map[string]func(*knack.Skill) error{"goal": check},
		Known:     func(engine.Brought) engine.PartTools { return engine.PartTools{Unlisted: tool.Set{propose(nil)}} },
		Commands: []engine.Command{{Name: "goal", Hint: "[TEXT, !COMMAND, or off]",
			Description: "go on until TEXT is met, or COMMAND succeeds", Run: command,
			Effect: engine.WithoutArguments(engine.Changes)}}}
}

const name = "goal"

// Goal is the goal of one session.
type Goal struct{ conv *engine.Conv }

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	g := &Goal{c}
	return &engine.Live{GoOn: g.goOn, Status: g.status, Value: g,
		Tools: func() engine.PartTools { return engine.PartTools{Unlisted: tool.Set{propose(g.proposed)}} }}, nil
}

// Of returns the goal of a session; nil: the program has left the part out.
func Of(s *engine.Session) *Goal {
	g, _ := s.Part(name).(*Goal)
	return g
}

// Last returns what the log says about the goal last; nil: there was none.
func (g *Goal) Last() *session.Goal {
	x, _ := g.last()
	return x
}

// last is Last with the entry that says it. A goal whose message was taken back (/undo) was never set. One that has
// ended stays so, also when the turn in which it ended was taken back.
func (g *Goal) last() (x *session.Goal, entry int) {
	log := g.conv.Log()
	turn := false // one follows on this branch
	for e := range log.Backward() {
		turn = turn || engine.StartsTurn(e)
		if e.Goal == nil {
			continue
		}
		x := e.Goal
		typed := x.State == session.GoalOpen && x.By == session.ByUser && x.Turns == 0 && x.Skill == ""
		if typed && !turn && slices.ContainsFunc(log.After(e.ID), engine.StartsTurn) {
			continue
		}
		if end, id := g.ended(e.ID, x); end != nil {
			return end, id
		}
		return x, e.ID
	}
	return nil, 0
}

// ended returns how an open goal ended after an entry, on any branch; nil: it did not.
func (g *Goal) ended(after int, x *session.Goal) (end *session.Goal, entry int) {
	if x.State != session.GoalOpen {
		return nil, 0
	}
	for _, e := range slices.Backward(g.conv.Log().After(after)) {
		if y := e.Goal; y != nil && y.State != session.GoalOpen && y.Text == x.Text && y.Check == x.Check &&
			y.Skill == x.Skill {
			return y, e.ID
		}
	}
	return nil, 0
}

// open returns the goal that the conversation works toward; nil: none.
func (g *Goal) open() *session.Goal {
	if last := g.Last(); last != nil && last.State == session.GoalOpen {
		return last
	}
	return nil
}

func (g *Goal) add(x session.Goal) error {
	_, err := g.conv.Log().Append(session.Entry{Type: session.TypeGoal, Goal: &x})
	g.conv.Changed()
	return err
}

func (g *Goal) status(st *engine.Status) {
	if x := g.open(); x != nil {
		st.Parts = append(st.Parts, fmt.Sprintf("goal %d/%d", x.Turns, maxTurns))
	}
}

// Set begins to work toward a goal that the user typed: a text, or ! and a command, whose exit code 0 means that it is
// met. A text that begins with the name of a skill (/NAME) needs that skill.
func (g *Goal) Set(s *engine.Session, typed string) error {
	typed = strings.TrimSpace(typed)
	x := session.Goal{State: session.GoalOpen, By: session.ByUser}
	if check, ok := strings.CutPrefix(typed, "!"); ok {
		if x.Check = strings.TrimSpace(check); x.Check == "" {
			return engine.Usagef("/goal !go test ./...", "the command is empty")
		}
		x.Text = "The command ends with exit code 0: " + x.Check
	} else {
		x.Text = typed
	}
	switch called, _, ok := agent.Slash(typed); {
	case typed == "":
		return engine.Usagef("/goal all tests pass", "a goal needs a text")
	case len(typed) > maxText:
		return engine.Usagef("/goal all tests pass", "a goal may have %s", plain.Bytes(maxText))
	case ok && s.Catalog().Skill(called) == nil:
		return &engine.Error{Err: fmt.Errorf("the goal names the skill %s, and there is none", plain.Line(called)),
			Hint: "knack skill list"}
	}
	return g.add(x)
}

// Err returns an error if the conversation still works toward a goal, or if one ended after an entry of the log without
// being met.
func (g *Goal) Err(after int) error {
	x, entry := g.last()
	if x == nil || x.State == session.GoalMet || x.State == session.GoalOff ||
		x.State != session.GoalOpen && entry <= after {
		return nil
	}
	state := "is not met"
	if x.State == session.GoalImpossible {
		state = "cannot be met"
	}
	why := cmp.Or(x.Reason, "it was not judged")
	return &engine.Error{Err: fmt.Errorf("the goal %s: %s", state, plain.Line(why)),
		Hint: "knack -c goes on toward it; /goal off ends it"}
}

func command(_ context.Context, s *engine.Session, args string) (engine.Reply, error) {
	g := Of(s)
	switch args = strings.TrimSpace(args); args {
	case "":
		x := g.Last()
		if x == nil {
			return engine.Reply{Text: "There is no goal. /goal TEXT sets one."}, nil
		}
		return engine.Reply{Text: describe(x), Value: x}, nil
	case "off", "clear", "stop":
		x := g.open()
		if x == nil {
			return engine.Reply{Text: "There is no goal."}, nil
		}
		off := *x
		off.State, off.Reason, off.Spent = session.GoalOff, "", nil
		return engine.Reply{Text: "the goal is off", Value: off}, g.add(off)
	}
	if err := g.Set(s, args); err != nil {
		return engine.Reply{}, err
	}
	x := g.Last()
	return engine.Reply{Text: describe(x), Value: x, Prompt: Prompt(x)}, nil
}

// Prompt is what begins the work toward a goal.
func Prompt(x *session.Goal) string {
	text := "Work toward this goal until it is met:\n\n" + x.Text
	if x.Check != "" {
		return text + "\n\nThe command runs by itself when you have finished an answer."
	}
	return text + "\n\nWhen you have finished an answer, it is judged from the conversation whether the goal is met: " +
		"show evidence, such as the output of a test."
}

func describe(x *session.Goal) string {
	states := map[session.GoalState]string{session.GoalOpen: "not met yet", session.GoalMet: "met",
		session.GoalImpossible: "cannot be met", session.GoalStopped: "given up", session.GoalOff: "off"}
	text := fmt.Sprintf("goal (%s, judged %s of at most %d): %s", states[x.State], plain.Count(x.Turns, "time"), maxTurns,
		plain.Line(x.Text))
	if x.Reason != "" {
		text += "\n" + plain.Line(x.Reason)
	}
	return text
}

// goOn judges, when a turn would end, whether the goal is met. The note that it returns makes the turn go on.
func (g *Goal) goOn(ctx context.Context) (*session.Note, error) {
	x := g.open()
	if x == nil {
		if x = g.ofSkill(); x == nil {
			return nil, nil
		}
	}
	next := *x
	next.Spent = nil
	v := g.judge(ctx, &next)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	next.Turns++
	next.Reason = engine.Clip(v.Reason, 1000)
	switch {
	case v.OK:
		next.State = session.GoalMet
	case v.Impossible:
		next.State = session.GoalImpossible
	case v.err != nil:
		next.State, next.Reason = session.GoalStopped, v.err.Error()
	case next.Turns >= maxTurns:
		next.State = session.GoalStopped
		next.Reason = fmt.Sprintf("it was judged %d times: %s", maxTurns, next.Reason)
	}
	if err := g.add(next); err != nil {
		return nil, err
	}
	if next.State != session.GoalOpen {
		return &session.Note{People: describe(&next)}, nil
	}
	return &session.Note{Model: fmt.Sprintf("This is judged after each of your answers, not a message of the user. The "+
		"goal is not met yet: %s\n\nThe goal: %s\n\nGo on. If it cannot be reached, say why.", next.Reason, next.Text),
		People: fmt.Sprintf("goal: not yet (%d of %d): %s", next.Turns, maxTurns, plain.Line(next.Reason))}, nil
}

// ofSkill returns the goal of a skill that was activated since a goal was last set or judged; nil: there is none. It
// names no command: what a skill runs is decided on as its other commands are.
func (g *Goal) ofSkill() *session.Goal {
	for e := range g.conv.Log().Backward() {
		switch {
		case e.Goal != nil:
			return nil
		case e.Activation == nil || e.Activation.By == session.ByTask || e.Activation.By == session.ByAgent:
			continue
		}
		k := g.conv.Catalog().Skill(e.Activation.Skill)
		if k == nil {
			continue
		}
		if text := textOf(k); text != "" {
			x := &session.Goal{Text: text, Skill: k.Name, By: e.Activation.By, State: session.GoalOpen}
			if end, _ := g.ended(e.ID, x); end != nil {
				return nil
			}
			return x
		}
	}
	return nil
}

// textOf returns metadata.knack.goal of a skill; "": it has none.
func textOf(k *knack.Skill) string {
	text, _ := read(k)
	return text
}

// read is textOf with what is wrong with it.
func read(k *knack.Skill) (text string, err error) {
	value := k.Own("goal")
	switch {
	case value == nil:
		return "", nil
	case json.Unmarshal(value, &text) != nil:
		return "", errors.New("it must be a text")
	case len(text) > maxText:
		return "", fmt.Errorf("it is longer than %s", plain.Bytes(maxText))
	}
	return strings.TrimSpace(text), nil
}

// check says what is wrong with the goal of a skill.
func check(k *knack.Skill) error {
	_, err := read(k)
	return err
}

// propose returns the tool with which the model proposes a goal. It is for skills that name it.
func propose(run func(context.Context, string) (tool.Result, error)) tool.Tool {
	type input struct {
		Goal string `json:"goal" jsonschema:"what is to be reached, such that it can be judged from the conversation"`
	}
	t := tool.Define("ProposeGoal", "Propose a goal to the user: after a yes, you go on until it is judged to be met.",
		proposeSchema, func(ctx context.Context, in input, _ tool.Input) (tool.Result, error) { return run(ctx, in.Goal) })
	t.Effect, t.Ordered = tool.Asks, true
	t.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: permission.Kind(t.Name), Default: permission.Allow}}, nil
	}
	t.Unlisted = func() bool { return true }
	return t
}

// proposed asks the user about a goal that the model proposes.
func (g *Goal) proposed(ctx context.Context, text string) (tool.Result, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxText {
		return tool.Errorf("The goal needs a text of at most %s.", plain.Bytes(maxText)), nil
	}
	if g.open() != nil {
		return tool.Errorf("There is a goal already."), nil
	}
	a, err := g.conv.Ask(ctx, engine.Question{Title: "Go on until this goal is met?", Text: text, Options: []engine.Option{
		{ID: engine.OptionYes, Label: "yes", Allow: true}, {ID: engine.OptionNo, Label: "no"}}})
	switch {
	case errors.Is(err, engine.ErrCannot):
		return tool.Errorf("Nobody can agree to a goal here."), nil
	case err != nil:
		return tool.Result{}, err
	case a.Option != engine.OptionYes || a.Declined:
		return tool.Errorf("The user does not want this goal."), nil
	}
	if err := g.add(session.Goal{Text: text, By: session.ByModel, State: session.GoalOpen}); err != nil {
		return tool.Result{}, err
	}
	return tool.Text("The user agreed: it is judged after each of your answers."), nil
}
