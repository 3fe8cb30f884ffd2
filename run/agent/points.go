package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/gate"
)

// PointsOf tells in sentences what a skill asks for. The text comes from the skill. ineffective are the rules that have
// no effect unless another question is answered, see [Review].
func PointsOf(a knack.Asks, ineffective map[string]string) []gate.Reason {
	var all []gate.Reason
	add := func(danger bool, format string, args ...any) {
		all = append(all, gate.Reason{Text: fmt.Sprintf(format, args...), Danger: danger})
	}
	broad := func(rule string) bool {
		return !strings.Contains(rule, "(") && (rule == "*" || strings.HasPrefix(rule, "Bash"))
	}
	var some []string
	for _, rule := range a.Grants {
		switch {
		case ineffective[rule] != "":
			add(false, "It also asks for %s, which this answer does not allow.", rule)
		case broad(rule):
			add(true, "It may use %s without asking, whatever the call is.", rule)
		default:
			some = append(some, rule)
		}
	}
	if len(some) > 0 {
		add(false, "It may use without asking: %s.", strings.Join(some, ", "))
	}
	if len(a.Denies) > 0 {
		add(false, "While it is in use, these are not available: %s.", strings.Join(a.Denies, ", "))
	}
	for _, c := range a.Commands {
		add(len(permission.Dangers(c)) > 0, "It runs at once, before its text is read: `%s`.", c)
	}
	if a.Hooks != nil {
		for _, line := range hookLines(a.Hooks) {
			add(false, "It adds a hook: %s.", line)
		}
	}
	if a.Sandbox != nil {
		add(false, "It restricts commands to: %s.", a.Sandbox.String())
	}
	if a.Model != "" {
		add(false, "It switches to the model %s until the turn ends.", a.Model)
	}
	if a.Shell != "" {
		add(false, "Its commands run in the shell %s.", a.Shell)
	}
	if a.Fork {
		add(false, "It runs in a sub-agent, which sees only the skill's text, not the conversation.")
	}
	return all
}

// hookLines describes hooks as a skill writes them: when they run, and what.
func hookLines(hooks json.RawMessage) []string {
	var byEvent map[string][]struct {
		Matcher string
		Hooks   []struct{ Type, Command, URL, Prompt string }
	}
	if json.Unmarshal(hooks, &byEvent) != nil {
		return []string{string(hooks)} // of another form: shown as it is
	}
	var lines []string
	for _, event := range slices.Sorted(maps.Keys(byEvent)) {
		for _, group := range byEvent[event] {
			when := "on " + event
			if group.Matcher != "" {
				when += " of " + group.Matcher
			}
			for _, h := range group.Hooks {
				lines = append(lines, when+" it runs `"+cmp.Or(h.Command, h.URL, h.Prompt, h.Type)+"`")
			}
		}
	}
	return lines
}
