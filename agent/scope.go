package agent

import (
	"encoding/json"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// A Scopes is what the skills in force ask of the run: what they grant and
// deny. It says nothing of whether that is allowed.
type Scopes struct {
	Skills []session.Scope
	Bounds []Bound // of a sub-agent
	Log    *session.Log
	// The hooks in force, for the Gate; nil: none guards.
	PreToolUse, PermissionRequest gate.HookFunc
}

// A Bound is what bounds a sub-agent: its definition, or a skill in force
// where it was started. It grants nothing.
type Bound struct {
	Agent, Skill string // exactly one is set
	Denies       []string
	// Names are the skill's grants, which are a bound where they are one for the
	// skill; or the tools of a definition, if not nil nothing else may run.
	Names []string
	// Hooks are the skill's, which go on guarding, or the definition's; they
	// allow nothing.
	Hooks json.RawMessage
	Dir   string // where paths of a skill's Hooks start
	// Sandbox is the skill's, which goes on restricting commands.
	Sandbox *knack.Restrictions
}

// Gated is the Gate of a [Policy] whose calls g decides, where all skills are the
// host's own. [Scopes.Scoped] is for hosts with skills of strangers.
func Gated(g *gate.Gate) func(Scopes) tool.Gate {
	return func(sc Scopes) tool.Gate { return g.With(sc.Overlay("", nil)) }
}

// Scoped is what a gate decides by while the skills, agents and hooks of sc are
// in use: what they grant and deny, as rules. about says what else is known of
// a skill: whether strangers wrote it, its folder, its limits; nil: all skills
// are the host's own. ceiling is whether the grants of skills in whose scope a
// sub-agent was started bound it; "": they do not.
func (sc Scopes) Overlay(ceiling gate.Ceiling, about func(skill string, own *knack.Restrictions) gate.SkillRules) gate.Overlay {
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

// rulesOf are the rules among texts; the others were reported when the skill was
// read.
func rulesOf(texts []string, origin permission.Origin) []permission.Rule {
	var all []permission.Rule
	for _, text := range texts {
		if r, err := permission.ParseRule(text, origin); err == nil {
			all = append(all, r)
		}
	}
	return all
}
