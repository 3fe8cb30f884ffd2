package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Slash splits "/name args" at the first blank or newline. ok is false for a line that does not
// begin with a slash or begins with //.
func Slash(line string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(line, "/")
	if !ok || rest == "" || strings.HasPrefix(rest, "/") || strings.TrimSpace(rest[:1]) == "" {
		return "", "", false
	}
	i := strings.IndexAny(rest, " \t\r\n")
	if i < 0 {
		return rest, "", true
	}
	return rest[:i], strings.TrimSpace(rest[i:]), true
}

// Called is what the slash at the start of an input calls.
type Called struct {
	Name, Args string
	// Command has that name; nil: none has it, and Name is an alias of a skill, a path or a mistake.
	Command *knack.SlashCommand
	others  []knack.SlashCommand // all that can be typed, for suggestions
}

// Resolve finds what a line calls; nil: it does not begin with a slash. all is everything that can
// be typed after a slash, see [knack.Catalog.Commands].
func Resolve(line string, all []knack.SlashCommand) *Called {
	name, args, ok := Slash(line)
	if !ok {
		return nil
	}
	c := &Called{Name: name, Args: args, others: all}
	if found, ok := knack.Called(all, name); ok {
		c.Command = &found
	}
	return c
}

// called returns what the slash at the start of an input calls; nil: nothing.
func (r *run) called(in Input) *Called {
	if in.Called != nil || r.Skills.Catalog == nil {
		return in.Called
	}
	all, _ := r.Skills.Catalog().Commands(r.Skills.View, nil, nil)
	return Resolve(in.Text, all)
}

// skillExists reports whether a skill of this name exists, even if it cannot be called.
func (r *run) skillExists(name string) bool {
	return r.Skills.Catalog != nil && len(r.Skills.Catalog().Why(name, r.Skills.View).Found) > 0
}

// unknown returns the error for a name that nothing has, with similar names as suggestions.
func (c *Called) unknown() error {
	names := make([]string, len(c.others))
	for i, other := range c.others {
		names[i] = other.Name
	}
	bare, skill := strings.CutPrefix(c.Name, "skill:")
	what := "command: /"
	if skill {
		what = "skill: "
	}
	no := &knack.Refusal{Code: knack.RefusedUnknown, Near: knack.Near(bare, names)}
	name := plain.Line(bare)
	switch {
	case !skill && slices.Contains(knack.ControlCommands(), name):
		no.Message = fmt.Sprintf("/%s: the name is reserved for a command that this version does not have", name)
		no.Near = nil
	case len(no.Near) > 0:
		no.Message = fmt.Sprintf("unknown %s%.200s; did you mean /%s?", what, name, strings.Join(no.Near, ", /"))
	default:
		no.Message = fmt.Sprintf("unknown %s%.200s", what, name)
	}
	return no
}
