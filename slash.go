package knack

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A CommandKind is what a [SlashCommand] is. Callers may use other kinds than these.
type CommandKind string

const (
	CommandSkill    CommandKind = "skill"
	CommandProgram  CommandKind = "command" // the program itself runs it
	CommandTemplate CommandKind = "template"
	CommandMCP      CommandKind = "mcp" // a prompt of an MCP server
)

// A SlashCommand is a command that a person may type after a slash.
type SlashCommand struct {
	Name        string // as typed, without the slash
	Kind        CommandKind
	Description string // one line
	Hint        string // of the arguments
	Source      string // origin: a path or a kind of source; "": the program itself
	Skill       *Skill // for kind skill

	// Expand returns the prompt of a template for the arguments typed after its name, and
	// the files that its own text names as @path, to be attached. It is nil for skills and
	// for commands that the caller runs itself.
	Expand func(ctx context.Context, args string) (prompt string, files []string, err error)
}

// ControlCommands returns the names of commands that control the program. No skill can replace them.
func ControlCommands() []string {
	return strings.Fields("help quit permissions trust login logout settings hooks plugin mcp model undo rewind plan")
}

// Commands combines everything that can be typed after a slash into one namespace:
// first, whose names always win, then skills in order, then rest. If a name is taken,
// the skill is called skill:NAME, another command KIND:NAME, and a Problem reports it.
// Skills that a person cannot call are left out.
func (c *Catalog) Commands(v View, first, rest []SlashCommand) ([]SlashCommand, []Problem) {
	all := append(make([]SlashCommand, 0, len(first)+len(c.skills)+len(rest)), first...)
	for _, s := range c.skills {
		if c.typable(s, v) {
			all = append(all, slashCommand(s))
		}
	}
	all = append(all, rest...)
	return all, clashes(all)
}

// typable reports whether a person can call a skill.
func (c *Catalog) typable(s *Skill, v View) bool {
	v.For = ByUser
	return !s.NotUser && c.whyUnavailable(s, v, ByUser) == ""
}

func slashCommand(s *Skill) SlashCommand {
	return SlashCommand{Name: s.Name, Kind: CommandSkill, Description: s.Summary(), Hint: s.ArgumentHint, Skill: s}
}

// clashes renames the commands whose names are taken, and returns a Problem for each.
func clashes(all []SlashCommand) (problems []Problem) {
	taken := make(map[string]*SlashCommand, len(all))
	for i := range all {
		cmd := &all[i]
		if by := taken[cmd.Name]; by != nil {
			p := Problem{Code: CodeShadowed, Severity: Warn, Path: cmd.Source,
				Message: fmt.Sprintf("/%s is %s: this %s is called /%s:%s", cmd.Name, by.ownerText(), cmd.Kind, cmd.Kind, cmd.Name)}
			if cmd.Skill != nil {
				p.Path = cmd.Skill.Path
			}
			if cmd.Kind == CommandProgram {
				p.Hint = "/" + string(cmd.Kind) + ":" + cmd.Name + " runs the built-in command"
				if by.Skill == nil || by.Skill.Origin.Kind != Project {
					p.Severity = Info // the user chose the name
				}
			}
			problems = append(problems, p)
			cmd.Name = string(cmd.Kind) + ":" + cmd.Name
		}
		if taken[cmd.Name] == nil {
			taken[cmd.Name] = cmd
		}
	}
	return problems
}

// ownerText describes the owner of a name.
func (c *SlashCommand) ownerText() string {
	switch {
	case c.Skill != nil:
		return "the skill " + c.Skill.Path
	case c.Source != "":
		return "the " + string(c.Kind) + " " + c.Source
	case c.Kind == CommandProgram:
		return "a built-in command"
	}
	return "a " + string(c.Kind)
}

// Called finds a SlashCommand by name in the result of Commands. The name may be as
// listed, or KIND:NAME, which always refers to that kind.
func Called(all []SlashCommand, name string) (SlashCommand, bool) {
	kind, rest, qualified := strings.Cut(name, ":")
	i := slices.IndexFunc(all, func(c SlashCommand) bool { return c.Name == name })
	if i < 0 && qualified {
		i = slices.IndexFunc(all, func(c SlashCommand) bool { return c.Kind == CommandKind(kind) && c.Name == rest })
	}
	if i < 0 {
		return SlashCommand{}, false
	}
	return all[i], true
}
