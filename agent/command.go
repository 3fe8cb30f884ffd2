package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Namespace returns everything that the user can type after a slash: the commands that control the
// program, then the skills, then the other Commands in their order. The problems report entries
// whose name was already used.
func (a *Agent) Namespace() ([]knack.SlashCommand, []knack.Problem) {
	cat, first, rest := a.commands()
	return cat.Commands(a.Skills.View, first, rest)
}

// Clashes returns the problems of Namespace. It is faster if there are many skills.
func (a *Agent) Clashes() []knack.Problem {
	cat, first, rest := a.commands()
	return cat.Clashes(a.Skills.View, first, rest)
}

// commands returns the catalogue, and the commands whose names come before and after those of skills.
func (a *Agent) commands() (cat *knack.Catalog, first, rest []knack.SlashCommand) {
	if a.Skills.Commands != nil {
		steering := knack.Steering()
		for _, c := range a.Skills.Commands() {
			if c.Kind == knack.CommandProgram && slices.Contains(steering, c.Name) {
				first = append(first, c)
			} else {
				rest = append(rest, c)
			}
		}
	}
	cat = &knack.Catalog{}
	if a.Skills.Catalog != nil {
		cat = a.Skills.Catalog()
	}
	return cat, first, rest
}

// builtins returns the names of the program's own commands and the names reserved for them.
func (a *Agent) builtins() []string {
	if a.Skills.Commands == nil {
		return nil
	}
	names := knack.Steering()
	for _, c := range a.Skills.Commands() {
		if c.Kind == knack.CommandProgram && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// skillExists reports whether a skill of this name exists, even if it cannot be called.
func (r *run) skillExists(name string) bool {
	return r.Skills.Catalog != nil && len(r.Skills.Catalog().Why(name, r.Skills.View).Found) > 0
}

// unknown returns the error for an unknown name, with similar names as suggestions.
func unknown(all []knack.SlashCommand, name string) error {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	no := &knack.Refusal{Code: knack.RefusedUnknown, Near: knack.Near(name, names)}
	name = plain.Line(name)
	switch {
	case slices.Contains(knack.Steering(), name):
		no.Message = fmt.Sprintf("/%s: the name is reserved for a command that this version does not have", name)
		no.Near = nil
	case len(no.Near) > 0:
		no.Message = fmt.Sprintf("unknown command: /%.200s; did you mean /%s?", name, strings.Join(no.Near, ", /"))
	default:
		no.Message = fmt.Sprintf("unknown command: /%.200s", name)
	}
	return no
}
