package agent

import (
	"encoding/json"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// Scopes are what the skills and hooks in use mean for a run: what they grant, deny and guard. The
// Gate decides which of it applies.
type Scopes struct {
	Skills []session.Scope
	Bounds []Bound // the restrictions of a sub-agent
	Log    *session.Log
	// The hooks that take part in decisions, for the Gate; nil: there are none.
	PreToolUse, PermissionRequest gate.HookFunc
}

// A Bound restricts a sub-agent. It comes from the sub-agent's definition or from a skill that was
// in use where the sub-agent was started. It grants nothing.
type Bound struct {
	Agent, Skill string // exactly one is set
	Denies       []string
	// Names are either the tools of the definition, and nothing else may run, or the grants of the
	// skill, which restrict the sub-agent if the ceiling of [Scopes.Overlay] says so. nil: no
	// restriction.
	Names []string
	// Hooks are those of the skill or of the definition. They guard the sub-agent's calls, but
	// cannot allow any.
	Hooks json.RawMessage
	Dir   string // the directory for relative paths in a skill's Hooks
	// Sandbox is the restriction of commands that the skill demands.
	Sandbox *knack.Restrictions
}

// UseGate returns a [Policy.Gate] that uses g and trusts all skills. Hosts that do not trust all of
// them use [Scopes.Overlay].
func UseGate(g *gate.Gate) func(Scopes) tool.Gate {
	return func(sc Scopes) tool.Gate { return g.With(sc.Overlay("", nil)) }
}

// Overlay returns the rules that a gate needs while the skills, agents and hooks of sc are in use.
// about returns what else is known about a skill: whether it is foreign, its folder, its limits;
// nil: the host trusts all skills. ceiling decides whether a sub-agent is limited to the grants of
// the skills that were in use where it was started; "": it is not.
func (sc Scopes) Overlay(ceiling gate.Ceiling,
	about func(skill string, own *knack.Restrictions) gate.SkillRules) gate.Overlay {

	if about == nil {
		about = func(string, *knack.Restrictions) gate.SkillRules { return gate.SkillRules{} }
	}
	if ceiling == "" {
		ceiling = gate.CeilingOff
	}
	in := gate.Overlay{PreToolUse: sc.PreToolUse, PermissionRequest: sc.PermissionRequest}
	for _, k := range sc.Skills {
		origin := permission.Origin("skill:" + k.Skill)
		g := about(k.Skill, k.Sandbox)
		g.Skill, g.Allow, g.Deny = k.Skill, rulesOf(k.Grants, origin), rulesOf(k.Denies, origin)
		g.Accepted = rulesOf(k.Accepted, origin)
		in.Skills = append(in.Skills, g)
	}
	for _, o := range sc.Bounds {
		g := gate.SkillRules{Skill: o.Skill, Bound: ceiling}
		origin := permission.Origin("skill:" + o.Skill)
		if o.Agent != "" {
			g.Skill, g.Bound, origin = "agent "+o.Agent, gate.CeilingOn, permission.Origin("agent "+o.Agent)
		} else {
			g.Limits = about(o.Skill, o.Sandbox).Limits
		}
		g.Allow, g.Deny = rulesOf(o.Names, origin), rulesOf(o.Denies, origin)
		in.Skills = append(in.Skills, g)
	}
	return in
}

// rulesOf parses rules. It skips invalid ones, which were reported when the skill was read.
func rulesOf(texts []string, origin permission.Origin) []permission.Rule {
	var all []permission.Rule
	for _, text := range texts {
		if r, err := permission.ParseRule(text, origin); err == nil {
			all = append(all, r)
		}
	}
	return all
}
