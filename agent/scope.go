package agent

import (
	"encoding/json"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// Scopes are the effects of the skills in force on a run: what they grant and
// deny. Whether that counts is decided by the Gate.
type Scopes struct {
	Skills []session.Scope
	Bounds []Bound // of a sub-agent
	Log    *session.Log
	// The hooks in force, for the Gate; nil: none guards.
	PreToolUse, PermissionRequest gate.HookFunc
}

// A Bound restricts a sub-agent: its definition, or a skill that was in force
// where it was started. It grants nothing.
type Bound struct {
	Agent, Skill string // exactly one is set
	Denies       []string
	// Names are the grants of the skill, which restrict the sub-agent if they
	// restrict the skill; or the tools of the definition: nothing else may run. nil:
	// no restriction.
	Names []string
	// Hooks are those of the skill, which still guard calls, or of the definition.
	// Their votes to allow do not count.
	Hooks json.RawMessage
	Dir   string // where paths of a skill's Hooks start
	// Sandbox still restricts commands as the skill demands.
	Sandbox *knack.Restrictions
}

// Gated makes the Gate of a [Policy] from g, for hosts that trust all their skills.
// Others use [Scopes.Overlay].
func Gated(g *gate.Gate) func(Scopes) tool.Gate {
	return func(sc Scopes) tool.Gate { return g.With(sc.Overlay("", nil)) }
}

// Overlay makes the rules by which a gate decides while the skills, agents and
// hooks of sc are in use. about returns what else is known of a skill: whether it
// is foreign, its folder, its limits; nil: the host trusts all skills. ceiling says
// whether a sub-agent is restricted to the grants of the skills that were in force
// where it was started; "": it is not.
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

// rulesOf parses rules. Invalid ones were reported when the skill was read.
func rulesOf(texts []string, origin permission.Origin) []permission.Rule {
	var all []permission.Rule
	for _, text := range texts {
		if r, err := permission.ParseRule(text, origin); err == nil {
			all = append(all, r)
		}
	}
	return all
}
