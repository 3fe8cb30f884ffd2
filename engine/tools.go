package engine

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// KnownTools returns the tools of the engine and of parts, for rules, hooks and front ends. They have no workspace and
// must not be called.
func KnownTools(parts ...Part) tool.Set { return knownOf(Brought{}, parts).tools }

// coreTools are those of KnownTools that no part has.
var coreTools = sync.OnceValue(func() tool.Set {
	return slices.Concat(coding.Tools(nil, coding.Options{Jobs: &coding.Jobs{}}), agent.Tools(), mcp.KnownTools())
})

// A ToolChange are the tools that are known before and after a reload, for display: also the project's own, but none of
// servers.
type ToolChange struct{ Old, New tool.Set }

// known is what is known of the tools of a program without a session.
type known struct {
	tools    tool.Set
	defaults string // the names of those that a session has which chooses none
}

func (k known) names() []string { return k.tools.AllNames() }

func knownOf(b Brought, parts []Part) known {
	names, all := []string{coding.Names(), "Agent"}, slices.Clone(coreTools())
	for _, x := range parts {
		if x.Known != nil {
			t := x.Known(b)
			names = append(names, t.listed()...)
			all = slices.Concat(all, t.Placed, t.Shared, t.Listed, t.Unlisted)
		}
	}
	return known{all, strings.Join(names, ",")}
}

// RuleProblems returns what is wrong with the rules in a skill's allowed-tools and disallowed-tools: patterns
// that no call matches, and tools that do not exist. tools are those that the program knows.
func RuleProblems(k *knack.Skill, tools tool.Set) (problems []knack.Problem) {
	check := func(key string, texts []string) {
		rules, bad := permission.ParseRules(texts, permission.Origin("skill:"+k.Name), "", tools.AllNames()...)
		for _, r := range rules {
			if p, ok := r.AllowProblem(); ok && key == "allowed-tools" {
				bad = append(bad, p)
			}
		}
		for _, b := range bad {
			p := knack.Problem{Code: knack.CodeToolPattern, Severity: knack.Warn, Path: k.Path,
				Message: key + ": " + b.Message, Hint: "see `knack help permissions`"}
			if b.Severity == permission.SeverityInfo {
				p.Severity = knack.Info
			}
			if i := slices.IndexFunc(rules, func(r permission.Rule) bool { return r.String() == b.Rule }); i >= 0 {
				if name := similarTool(tools, rules[i].Tool); name != "" && p.Severity == knack.Warn {
					p.Hint = "write " + strings.Replace(b.Rule, rules[i].Tool, name, 1)
				}
			}
			problems = append(problems, p)
		}
	}
	check("allowed-tools", k.AllowedTools)
	check("disallowed-tools", k.DisallowedTools)
	return problems
}

// similarTool returns the name that an author probably meant by the name of a tool that does not exist, or "".
func similarTool(tools tool.Set, name string) string {
	if t, ok := tools.Find(name); ok { // only the letter case differs
		return t.Names()[0]
	}
	if near := similar.Names(name, tools.AllNames()); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Todos returns the list of steps at the end of a conversation, as the last tool that keeps one has told it. nil: there
// is none.
func Todos(log *session.Log) json.RawMessage {
	var last session.LastDetails
	round := 0
	for _, d := range log.State().Details {
		if d.Form != session.FormTodos {
			continue
		}
		var list coding.TodoDetails
		json.Unmarshal(d.Data, &list) // an agent may have changed the list before an earlier call was recorded
		if list.Round > round || list.Round == round && d.Entry > last.Entry {
			last, round = d, list.Round
		}
	}
	return last.Data
}
