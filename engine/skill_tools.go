package engine

import (
	"slices"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// skillTools are the tools that skills bring while they are in use.
type skillTools struct {
	parts   liveParts
	place   func() Place // where they work now
	options coding.Options
	catalog func() *knack.Catalog
	spec    string               // what the user chose with --tools; "": nothing
	without func(tool.Tool) bool // what the user took away; nil: nothing
}

// of returns the tools of the skills in use. Those that the user has not chosen are left out.
func (x skillTools) of(state session.State) (set tool.Set) {
	for i, scope := range state.Scopes {
		same := func(s session.Scope) bool { return s.Skill == scope.Skill }
		k := x.catalog().Skill(scope.Skill)
		if k == nil || slices.ContainsFunc(state.Scopes[:i], same) {
			continue
		}
		for _, p := range x.parts {
			if p.SkillTools != nil {
				set = append(set, p.SkillTools(k, x.place(), x.options)...)
			}
		}
	}
	if len(set) == 0 {
		return nil
	}
	if x.spec != "" {
		set, _ = tool.Select(set, "", x.spec)
	}
	return slices.DeleteFunc(x.parts.wrap(set, x.place()), x.without)
}
