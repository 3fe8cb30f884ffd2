package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// definition returns the agent with a name; "" is the default. If there is none, it returns a
// general one with few tools (tools, which a skill asks for, or else those of Explore), and a
// problem that explains this.
func (r *subAgents) definition(name string, tools []string) (d *Definition, problem string) {
	name = cmp.Or(strings.TrimSpace(name), defaultAgent)
	if d := findDefinition(r.Roster.Agents, name); d != nil {
		return r.restricted(d), ""
	}
	fallback := GeneralPurpose()
	fallback.Tools = tools
	if len(tools) == 0 {
		fallback.Tools = readingTools()
	}
	var names []string
	for _, d := range r.Roster.Agents {
		if !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return &fallback, fmt.Sprintf("there is no agent %.100q: %s is used instead, with the tools %s; the agents are %s",
		name, fallback.Name, strings.Join(fallback.Tools, ", "), strings.Join(names, ", "))
}

// restricted restricts a definition of a project or a plugin to the mode and tools of the built-in
// agent with the same name.
func (r *subAgents) restricted(d *Definition) *Definition {
	i := slices.IndexFunc(r.Roster.Agents, func(b Definition) bool {
		return b.Origin == knack.Bundled && strings.EqualFold(b.Name, d.Name)
	})
	if d.Loosens() || d.Origin == knack.Bundled || i < 0 {
		return d
	}
	own, limit := *d, &r.Roster.Agents[i]
	own.Mode = permission.Stricter(limit.Mode, own.Mode)
	own.within = limit.Tools
	return &own
}

func findDefinition(defs []Definition, name string) *Definition {
	for _, same := range []func(string) bool{
		func(s string) bool { return s == name },
		func(s string) bool { return strings.EqualFold(s, name) },
		func(s string) bool { return s == defaultAgent && strings.EqualFold(name, "general") },
	} {
		if i := slices.IndexFunc(defs, func(d Definition) bool { return same(d.Name) }); i >= 0 {
			return &defs[i]
		}
	}
	return nil
}

// configure sets the model, tools, limits and other fields of child as its definition d says, limited to
// what the run itself has.
func (r *subAgents) configure(ctx context.Context, child *Agent, d *Definition) {
	state := r.log.State()
	child.Tools = slices.Clone(child.Tools)
	child.Roster.Agents, child.Roster.Background = r.Roster.Agents, r.Roster.Background
	child.Steer = nil
	child.System = strings.TrimSpace(child.System) + "\n\n" + subText
	child.Release = ReleasePolicy{kind: releaseNever} // its conversation is not continued after the task
	child.Limits = Limits{Requests: d.MaxTurns}
	child.Fallback = r.Fallback
	if d.OnlySkills {
		child.Skills.View.Only = onlyBoth(child.Skills.View.Only, d.Skills)
	}
	child.Model, child.Effort = r.Model, cmp.Or(d.Effort, state.Effort, r.Effort)
	if name := cmp.Or(d.Model, state.Model); name != "" && r.Resolve != nil {
		m, err := r.Resolve(name)
		if err == nil && d.Model != "" {
			now, _ := r.effectiveModel(state)
			if err = r.maySwitch(ctx, now, m, name, ByAgent); err != nil {
				r.log.Append(session.Entry{Type: session.TypeNote, Note: &session.Note{
					People: "the agent " + d.Name + " runs with " + r.Model.Info().ID + ": " + err.Error()}})
			}
		}
		if err == nil {
			child.Model, child.Instead = m, r.Model
		} else {
			r.debug("model", "the model of an agent was not found", "agent", d.Name, "name", name, "error", err)
		}
	}

	if d.Tools == nil {
		own := r.Tools.Names()
		child.Tools = slices.DeleteFunc(child.Tools, func(t tool.Tool) bool { return !slices.Contains(own, t.Name) })
		child.Without = slices.Clone(r.Without)
		child.DynamicTools = r.DynamicTools
	} else {
		child.MoreTools = nil
		own := Tools()
		var names []string
		for _, rule := range d.Tools {
			name, _, _ := strings.Cut(rule, "(")
			names = append(names, strings.TrimSpace(name))
			if strings.HasPrefix(name, "mcp__") && strings.Count(name, "__") == 1 {
				names = append(names, name+"__*") // all tools of the server
			}
		}
		spec := cmp.Or(strings.Join(names, ","), "-*")
		dynamic := slices.Clone(names)
		for _, rule := range child.Servers.Rules {
			dynamic = append(dynamic, rule+"__*")
		}
		child.DynamicTools = selectTools(r.DynamicTools, cmp.Or(strings.Join(dynamic, ","), "-*"))
		child.SkillTools = selectOfSkills(child.SkillTools, spec)
		child.Tools, _ = tool.Select(child.Tools, "", spec) // the loader has already reported names that were not found
		child.Without = slices.Clone(r.Without)
		if r.startsAny() {
			child.Without = slices.Clone(r.root().Without) // a definition cannot bring back tools that the user removed
		} else if r.parent != nil { // a sub-agent never has more tools than its parent
			own := r.Tools.Names()
			child.Tools = slices.DeleteFunc(child.Tools, func(t tool.Tool) bool { return !slices.Contains(own, t.Name) })
		}
		chosen, _ := tool.Select(own, "", spec)
		for _, t := range own {
			if _, ok := chosen.Find(t.Name); !ok {
				child.Without = append(child.Without, t.Name)
			}
		}
	}
	if child.Servers.Tools != nil {
		child.DynamicTools = mergeTools(child.Servers.Tools, child.DynamicTools)
	}
	if d.within != nil {
		child.DynamicTools = selectTools(child.DynamicTools, strings.Join(d.within, ","))
		child.SkillTools = selectOfSkills(child.SkillTools, strings.Join(d.within, ","))
		child.Tools, _ = tool.Select(child.Tools, "", strings.Join(d.within, ","))
	}
	for _, rule := range d.DisallowedTools {
		if strings.Contains(rule, "(") {
			continue // it does not remove the tool; see boundsOf
		}
		if strings.HasPrefix(rule, "mcp__") {
			child.DynamicTools = selectTools(child.DynamicTools, "*,-"+rule+",-"+rule+"__*")
		}
		child.SkillTools = selectOfSkills(child.SkillTools, "*,-"+rule)
		if t, ok := child.Tools.Find(rule); ok {
			name := t.Name
			child.Tools = slices.DeleteFunc(child.Tools, func(t tool.Tool) bool { return t.Name == name })
		}
		if t, ok := Tools().Find(rule); ok {
			child.Without = append(child.Without, t.Name)
		}
	}
}

// onlyBoth returns the skills that may be used where two restrictions hold, see knack.View.Only; a nil one is none.
func onlyBoth(a, b []string) []string {
	if a == nil {
		return append([]string{}, b...)
	}
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
}

// selectTools restricts dynamic tools to those that spec selects.
func selectTools(tools func() tool.Set, spec string) func() tool.Set {
	if tools == nil {
		return nil
	}
	return func() tool.Set {
		chosen, _ := tool.Select(tools(), "", spec)
		return chosen
	}
}

// selectOfSkills is selectTools for the tools that skills bring.
func selectOfSkills(tools func(session.State) tool.Set, spec string) func(session.State) tool.Set {
	if tools == nil {
		return nil
	}
	return func(state session.State) tool.Set {
		return selectTools(func() tool.Set { return tools(state) }, spec)()
	}
}

// mergeTools returns the tools of both sets. If both have a name, the tool of own is used.
func mergeTools(own, other func() tool.Set) func() tool.Set {
	if other == nil {
		return own
	}
	return func() tool.Set {
		set := slices.Clone(own())
		for _, t := range other() {
			if indexOf(set, t.Name) < 0 {
				set = append(set, t)
			}
		}
		return set
	}
}

// startsAny reports whether the agents that this one starts may have tools that it does not have
// itself: its definition must ask for that, and come from the user or the administrator.
func (r *subAgents) startsAny() bool {
	return r.def != nil && r.def.StartsAny && r.def.Loosens()
}

// boundsOf returns the restrictions on an agent started with definition d: what the skills in use
// here deny, and what the definition denies. If the definition lists patterns, only those tools and
// the tools of its servers may run. What skills grant is not passed on to sub-agents.
//
// The hooks of these skills and of the definition guard the agent's calls, but cannot allow any.
func (r *subAgents) boundsOf(d *Definition, servers []string) (all []gate.Bound, guards []hook.Hook) {
	all, guards = slices.Clone(r.bounds), slices.Clone(r.guards)
	for _, s := range r.log.State().Scopes {
		review := r.reviewOf(s)
		all = append(all, gate.Bound{Skill: s.Skill, Denies: s.Denies, Names: s.Grants, Limits: review.Facts.Limits})
		guards = append(guards, review.Hooks...)
	}
	own := gate.Bound{Agent: d.Name, Denies: d.DisallowedTools}
	if slices.ContainsFunc(d.Tools, func(rule string) bool { return strings.Contains(rule, "(") }) {
		own.Names = slices.Concat(d.Tools, servers)
	}
	if r.Roster.Hooks != nil {
		guards = append(guards, r.Roster.Hooks(d)...)
	}
	for i := range guards {
		guards[i].Mute = true
	}
	return append(all, own), guards
}
