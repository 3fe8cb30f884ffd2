package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/agent"
)

// A Command is a slash command of the program or of a host: a value in [Options.Commands] or [Host.Commands].
type Command struct {
	Name        string   // without the slash
	Hint        string   // shows the arguments
	Description string   // one line
	Also        []string // its names in other agents, which can be typed but are not listed
	// Instead, if not "", says what to type in place of a command of other agents that the program does not have. Such
	// an entry is not listed and has no Run.
	Instead string
	// Anytime means that it may run during a turn. Such a command must not replace the session.
	Anytime bool
	// Effect says what the command does with arguments in a permission mode, which decides for which messages of a host
	// it runs; nil: it [Changes] something.
	Effect func(mode permission.Mode, args string) Effect
	// Source is the file that defines the command; "": the program or the host does.
	Source string
	Run    func(ctx context.Context, s *Session, args string) (Reply, error)
	// Complete returns what may stand in place of args, which is what was typed after the name so far. It must not take
	// longer than a user waits for a key. nil: nothing is known.
	Complete func(ctx context.Context, s *Session, args string) []string
}

// SlashCommands converts commands to the type that lists, completion and the agent use.
func SlashCommands(all []Command) []knack.SlashCommand {
	var out []knack.SlashCommand
	for _, c := range all {
		if c.Instead == "" {
			out = append(out, knack.SlashCommand{Name: c.Name, Kind: knack.CommandProgram, Hint: c.Hint,
				Description: c.Description, Source: c.Source})
		}
	}
	return out
}

// Commands returns everything that can be typed after a slash: the program's commands, skills,
// templates and the host's commands.
func (t *Turn) Commands() []knack.SlashCommand {
	p := t.project
	all, _ := p.commands(t.session.Catalog(), t.View(), t.host.Commands, withHints(t.session.servers.Prompts())...)
	return all
}

// Commands returns the program's commands, then those of its parts, then those that the user and the project bring.
func (p *Project) Commands() []Command {
	all := programCommands(p.options)
	for _, x := range p.options.Parts {
		if x.Brings != nil {
			all = append(all, x.Brings(p.Brought)...)
		}
	}
	return all
}

// programCommands returns the commands of a program and its parts.
func programCommands(o Options) []Command {
	all := slices.Clone(o.Commands)
	for _, x := range o.Parts {
		all = append(all, x.Commands...)
	}
	return all
}

// commands returns the program's commands, then the host's.
func (t *Turn) commands() []Command {
	return slices.Concat(t.project.Commands(), t.host.Commands)
}

// resolved returns an input with what it calls.
func (t *Turn) resolved(in agent.Input) agent.Input {
	if _, _, slash := agent.Slash(in.Text); !slash {
		return in
	}
	all := t.Commands()
	in.Called = agent.Resolve(in.Text, all)
	if in.Called.Command != nil || !typed(in) { // a skill or template of the name comes first
		return in
	}
	own := t.commands()
	i := slices.IndexFunc(own, func(c Command) bool { return slices.Contains(c.Also, in.Called.Name) })
	if i < 0 {
		return in
	}
	if c, ok := knack.Called(all, own[i].Name); ok && c.Kind == knack.CommandProgram {
		in.Called.Command = &c
	}
	return in
}

// typed reports whether an input may call a command of the program: text that was piped or pasted in calls none.
func typed(in agent.Input) bool { return in.Host || in.Named || in.Typed == in.Text }

// command returns the command of the program or the host that a resolved input calls.
func (t *Turn) command(in agent.Input) (c Command, ok bool) {
	if in.Called == nil || in.Called.Command == nil || in.Called.Command.Kind != knack.CommandProgram || !typed(in) {
		return Command{}, false
	}
	own := strings.TrimPrefix(in.Called.Command.Name, string(knack.CommandProgram)+":")
	all := t.commands()
	i := slices.IndexFunc(all, func(c Command) bool { return c.Name == own && c.Instead == "" })
	if i < 0 {
		return Command{}, false
	}
	return all[i], true
}

// instead says what to type for a command of other agents that the program does not have; "": nothing is known.
func (t *Turn) instead(name string) string {
	for _, c := range t.commands() {
		if c.Name == name && c.Instead != "" {
			return c.Instead
		}
	}
	return ""
}

// run runs the command that an input calls, if the input may run it, and sets its name and arguments in the reply. It checks the reply's value, because a front end
// that writes JSON could not show the reply at all.
func (c Command) run(ctx context.Context, s *Session, in agent.Input) (Reply, error) {
	args := in.Called.Args
	if err := c.checkHost(s.Host(), s.Mode(), in); err != nil {
		return Reply{}, err
	}
	if c.Run == nil {
		return Reply{}, fmt.Errorf("/%s: the host gave no func for this command", plain.Line(c.Name))
	}
	r, err := c.Run(ctx, s, args)
	if r.Status != nil && s.hooks != nil {
		s.hooks.show(r.StatusBy, *r.Status)
	}
	r.Command, r.Args = c.Name, args
	if err != nil || r.Value == nil {
		return r, err
	}
	if _, err := json.Marshal(r.Value); err != nil {
		err = fmt.Errorf("/%s: the value of its reply cannot be encoded as JSON: %w", plain.Line(c.Name), err)
		if r.Next != nil { // nobody else closes it
			err = errors.Join(err, r.Next.Close())
		}
		return Reply{}, err
	}
	return r, nil
}

// Complete lists completions of a line. For a line that begins with a slash these are names with that
// prefix, or if there are none, names that contain its letters in the same order, best match first. For a line
// whose last word begins with @ they are MCP servers with resources, and the resources of a server. The
// arguments of a command are completed by its Complete.
func (t *Turn) Complete(line string) []string {
	typed, ok := strings.CutPrefix(line, "/")
	if name, args, more := strings.Cut(typed, " "); ok && more {
		in := t.resolved(agent.Typed(line))
		if c, ok := t.command(in); ok && c.Complete != nil {
			var lines []string
			for _, words := range c.Complete(context.Background(), t.session, args) {
				lines = append(lines, "/"+name+" "+words)
			}
			return lines
		}
	}
	if !ok || strings.ContainsAny(typed, " \t") {
		word := line[strings.LastIndexAny(line, " \t\n")+1:]
		return t.session.servers.Complete(strings.TrimSuffix(line, word), word)
	}
	var names, similarNames []string // the second: names that do not begin with what was typed
	score := map[string]int{}
	for _, c := range t.Commands() {
		if plain.Line(c.Name) != c.Name {
			continue // it cannot be displayed as it is
		}
		if strings.HasPrefix(c.Name, typed) {
			names = append(names, "/"+c.Name)
		} else if n := similar.Score(c.Name, typed); n > 0 {
			similarNames = append(similarNames, "/"+c.Name)
			score["/"+c.Name] = n
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		return slices.Compact(names)
	}
	order.Stable(similarNames, func(a, b string) int { return cmp.Or(score[b]-score[a], strings.Compare(a, b)) })
	return slices.Compact(similarNames)
}
