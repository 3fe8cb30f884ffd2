package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A Policy decides what may run. The zero Policy allows only calls that need no permission.
type Policy struct {
	// Gate returns the gate for calls made while the skills and hooks of Scopes are in use, such as
	// the method [gate.Gate.With] of a Gate. nil: only calls that need no permission run, see
	// [tool.Gate].
	Gate func(Scopes) tool.Gate
	// Hooks are the hooks of the settings and of the host. The hooks of skills and of sub-agents'
	// definitions are added to them while these are in use. nil: no hooks run.
	Hooks *hook.Set
	// Review judges the call of a skill without asking anybody or changing anything. It may be
	// called concurrently, and several times for one call. nil: the zero Review.
	Review func(SkillCall) Review
	// Verify checks that a skill's files have not changed since they were approved, before its call is asked about; it
	// changes nothing. nil: nothing is checked.
	Verify func(*knack.Skill) error
	// Admit is called before a skill is invoked. It checks that the skill's files have not changed
	// since they were approved, and returns which of the Ineffective rules of its Review the user
	// accepts; it may ask the user. An error refuses the skill. nil: nothing is checked, no rule is
	// accepted.
	Admit func(context.Context, SkillCall) (accepted []string, err error)
}

// A SkillCall is the call of a skill that a Policy judges.
type SkillCall struct {
	Skill *knack.Skill
	By    knack.Caller
	// Typed is the name by which the user called the skill; "": the user did not type it. Typing a
	// name approves what the skill asks for, but does not override a rule.
	Typed string
	Asks  knack.Asks // what its present content asks for
	Dir   string     // its base directory, see knack.Activation; "": none, or not known yet
}

// A Review is what a Policy knows about the call of a skill. The zero Review is that of a skill that
// may be called, and that the user trusts as if it were their own.
type Review struct {
	Refusal error // why the user may not call the skill, usually a *knack.Refusal; nil: no rule refuses it
	// Ineffective are those rules of Asks.Grants that have no effect unless the user accepts them,
	// and why.
	Ineffective map[string]string
	// Allowed are those rules of Asks.Grants that grant nothing new, because other rules allow the same.
	Allowed []string
	// TextOnly means that only the skill's text counts, see [knack.Invocation]: its call needs no consent.
	TextOnly bool
	// Unseen means that no person has seen what the skill asks for: where a rule, a mode or a typed name lets it be called
	// without a question, only its text counts.
	Unseen bool
	Facts  gate.SkillFacts
	Hooks  []hook.Hook // those that the skill adds while it is in use

	ownModel bool // Asks.Model is one of the session's provider
}

// review judges the call of a skill.
func (t *turn) review(c SkillCall) Review {
	if t.Policy.Review == nil {
		return Review{}
	}
	return t.Policy.Review(c)
}

// reviewOf returns the review of a skill in use, as it was at its activation.
func (r *run) reviewOf(s session.Scope) Review {
	if review, ok := r.reviews[s.Entry]; ok {
		return review
	}
	// Another run has activated it: this one only runs the hooks of an event, during that one's turn.
	var skill *knack.Skill
	if r.Skills.Catalog != nil {
		skill = r.Skills.Catalog().Skill(s.Skill)
	}
	if skill == nil {
		return Review{Facts: gate.SkillFacts{Foreign: true}}
	}
	return r.review(SkillCall{Skill: skill, Dir: s.Dir,
		Asks: knack.Asks{Grants: s.Grants, Denies: s.Denies, Hooks: s.Hooks, Sandbox: s.Sandbox}})
}

// callOf returns the call of a skill that has just been loaded.
func callOf(act *knack.Activation) SkillCall {
	return SkillCall{Skill: act.Skill, Dir: act.Dir, Asks: knack.Asks{Hash: act.Hash, Grants: act.Grants,
		Denies: act.Denies, Hooks: act.Hooks, Sandbox: act.Sandbox, Model: act.Model}}
}

// scopes returns what is in use.
func (r *run) scopes(state session.State) Scopes {
	in := Scopes{Bounds: r.bounds, Hooks: r.hooks.inEffect(state.Scopes)}
	for _, s := range state.Scopes {
		in.Skills = append(in.Skills, gate.Skill{Scope: s, Facts: r.reviewOf(s).Facts})
	}
	return in
}

// askGate asks the Gate about a call that the model did not make. The input must not be changed: if
// a hook changes it, the call is refused.
func (r *run) askGate(ctx context.Context, t *tool.Tool, call string, in any) (tool.Permit, error) {
	input, err := json.Marshal(in)
	if err != nil {
		return tool.Permit{}, err
	}
	var g tool.Gate
	if r.Policy.Gate != nil {
		g = r.Policy.Gate(r.scopes(r.log.State()))
	}
	permit, err := t.Propose(call, input).Decide(ctx, g)
	if err == nil && !bytes.Equal(permit.Input, input) {
		err = fmt.Errorf("a hook changed the input of %s, which may only run unchanged", t.Name)
	}
	return permit, err
}

// askSkill asks the Gate about a skill that the program itself loads for by, as if the model had called it.
// It returns the hash of the content that the decision is about.
func (r *run) askSkill(ctx context.Context, s *knack.Skill, name, call string, by knack.Caller) (hash string,
	err error) {
	t := tool.Skill("", r.skillSubjectsBy(by), nil)
	permit, err := r.askGate(ctx, &t, call, tool.SkillInput{Skill: name})
	if err != nil {
		return "", &knack.Refusal{Code: knack.RefusedByRule, Message: err.Error()}
	}
	return r.approved(ctx, permit.Subjects, s, name, by)
}
