package tool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/llm"
)

// A Set contains the tools of a run. If several have the same name, the first one is
// used; [Join] reports the others.
type Set []Tool

// Find returns the tool with a name or alias. An exact name takes precedence; otherwise
// case, underscores and hyphens are ignored.
func (s Set) Find(name string) (*Tool, bool) {
	for i := range s {
		if s[i].Name == name {
			return &s[i], true
		}
	}
	key := plain(name)
	if key == "" {
		return nil, false
	}
	for i := range s {
		if plain(s[i].Name) == key {
			return &s[i], true
		}
	}
	for i := range s {
		if slices.ContainsFunc(s[i].Aliases, func(a string) bool { return plain(a) == key }) {
			return &s[i], true
		}
	}
	return nil, false
}

// Line describes a call of one of the tools in one line. The line is untrusted text.
func (s Set) Line(name string, input json.RawMessage) string {
	if t, ok := s.Find(name); ok {
		return t.Line(input)
	}
	return (&Tool{}).Line(input)
}

// AllNames returns the names of all tools including their aliases, for
// [permission.ParseRules].
func (s Set) AllNames() []string {
	var all []string
	for i := range s {
		all = append(all, s[i].Names()...)
	}
	return all
}

// plain returns a name without letter case, underscores, hyphens and spaces.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// Specs describes the tools for a model, except unlisted ones.
func (s Set) Specs() []llm.ToolSpec {
	specs := make([]llm.ToolSpec, 0, len(s))
	for _, t := range s {
		if t.Unlisted == nil || !t.Unlisted() {
			specs = append(specs, llm.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema})
		}
	}
	return specs
}

// Names returns the names of the tools in order.
func (s Set) Names() []string {
	names := make([]string, len(s))
	for i, t := range s {
		names[i] = t.Name
	}
	return names
}

// Join combines several sets. If several tools have the same name, the first one is
// kept; each other one is reported as a Problem with both origins.
func Join(sets ...Set) (Set, []knack.Problem) {
	var all Set
	var problems []knack.Problem
	at := map[string]int{}
	for _, s := range sets {
		for _, t := range s {
			if i, ok := at[t.Name]; ok {
				problems = append(problems, knack.Problem{
					Code: knack.CodeNameCollision, Severity: knack.Warn,
					Message: fmt.Sprintf("tool %s of %s is not available: %s has a tool of that name", t.Name, origin(t),
						origin(all[i])),
				})
				continue
			}
			at[t.Name] = len(all)
			all = append(all, t)
		}
	}
	return all, problems
}

func origin(t Tool) string { return cmp.Or(t.Origin, "Knack") }

// Select returns the tools of all that spec chooses, in the order of all. spec consists
// of names and patterns with "*", separated by commas or white space, and is applied
// from left to right: "+x" adds to base, "-x" removes. A spec that begins with a plain
// name replaces base. base has the same syntax; an empty spec means base. A name that
// matches no tool is a Problem.
func Select(all Set, base, spec string) (Set, []knack.Problem) {
	on := make([]bool, len(all))
	apply := func(spec string) (unknown []string) {
		terms := strings.FieldsFunc(spec, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
		if len(terms) > 0 && terms[0][0] != '+' && terms[0][0] != '-' {
			clear(on)
		}
		for _, term := range terms {
			want := term[0] != '-'
			name := strings.TrimLeft(term, "+-")
			found := false
			for i := range all {
				if matches(name, all[i].Name) {
					on[i], found = want, true
				}
			}
			if found {
				continue
			}
			if t, ok := all.Find(name); ok {
				on[slices.IndexFunc(all, func(u Tool) bool { return u.Name == t.Name })] = want
				continue
			}
			// The tools of a server may be added later, or be unavailable now.
			if !strings.Contains(name, "*") && !strings.HasPrefix(name, "mcp__") {
				unknown = append(unknown, name)
			}
		}
		return unknown
	}
	apply(base)
	var problems []knack.Problem
	for _, name := range apply(spec) {
		problems = append(problems, knack.Problem{
			Code: knack.CodeToolPattern, Severity: knack.Warn,
			Message: fmt.Sprintf("tools: there is no tool %q", name), Hint: suggestion(name, all),
		})
	}
	var chosen Set
	for i := range all {
		if on[i] {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, problems
}

func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == name
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// replacements advises what to do instead of calling certain tools of other agents that Knack
// does not have.
var replacements = map[string]string{
	"WebSearch":            "work from the files, or ask the user for what has to be looked up",
	"EnterPlanMode":        "explore without changing anything, then present the plan as your answer",
	"ExitPlanMode":         "present the plan as your answer; the user decides whether it is carried out",
	"LSP":                  "search the code with grep and read",
	"NotebookRead":         "read shows notebooks",
	"View":                 "use read",
	"Search":               "use grep or find",
	"BatchTool":            "make several calls in one answer: they run in parallel",
	"TaskOutput":           "the result of an agent arrives in a message; bash_output shows that of a command",
	"TaskStop":             "bash_kill ends a background command",
	"ToolSearch":           "all tools are listed already; call them directly",
	"SendMessage":          "start an agent with everything that it needs to know",
	"ListMcpResourcesTool": "no MCP server with resources is connected",
	"ReadMcpResourceTool":  "no MCP server with resources is connected",
}

// unknownTool returns the answer to a call of a tool that does not exist.
func unknownTool(name string, tools Set) string {
	if do, ok := replacements[name]; ok {
		return fmt.Sprintf("The tool %s of other agents does not exist here: %s.", name, do)
	}
	if permission.IsOtherAgentsTool(name) {
		return fmt.Sprintf("The tool %s of other agents does not exist here: do without it, or tell the user what you "+
			"need it for.", name)
	}
	return fmt.Sprintf("Tool %s not found. %s", name, suggestion(name, tools))
}

// suggestion proposes existing names instead of the name of a tool that does not exist.
func suggestion(name string, s Set) string {
	if near := nearest(name, s.Names()); len(near) > 0 {
		return "Did you mean " + strings.Join(near, " or ") + "?"
	}
	if len(s) == 0 {
		return "There are no tools."
	}
	var names []string
	for _, t := range s.Specs() {
		names = append(names, t.Name)
	}
	if len(names) > 20 {
		names = append(names[:20:20], "…")
	}
	return "The tools are " + strings.Join(names, ", ") + "."
}

// nearest returns up to three names that are similar to a mistyped one.
func nearest(name string, names []string) []string {
	type near struct {
		name string
		d    int
	}
	var list []near
	key := plain(name)
	if key == "" || len(key) > 100 {
		return nil
	}
	for _, n := range names {
		k := plain(n)
		d := similar.Distance(key, k, 3)
		if strings.HasPrefix(k, key) || strings.HasPrefix(key, k) && k != "" {
			d = min(d, 2)
		}
		if d <= max(1, min(len(key), len(k))/2) && d <= 3 {
			list = append(list, near{n, d})
		}
	}
	order.Stable(list, func(a, b near) int { return a.d - b.d })
	var out []string
	for _, n := range list[:min(3, len(list))] {
		out = append(out, n.name)
	}
	return out
}
