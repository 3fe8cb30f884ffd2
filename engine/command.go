package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// A ProgramCommand is one of the program's own slash commands.
type ProgramCommand struct {
	Name        string // without the slash
	Hint        string // shows the arguments
	Description string // one line
	Anytime     bool   // may run during a turn
	Run         func(ctx context.Context, s *Session, args string) (Reply, error)
}

// programCommands is the table of the program's own commands, in the order of /help.
func programCommands() []ProgramCommand {
	return []ProgramCommand{
		{Name: "help", Description: "list the commands", Run: help, Anytime: true},
		{Name: "hotkeys", Description: "list the keys", Run: showHotkeys, Anytime: true},
		{Name: "quit", Description: "leave", Run: quit},

		{Name: "session", Description: "show the session", Run: showSession, Anytime: true},
		{Name: "new", Description: "start an empty session", Run: startNew},
		{Name: "resume", Hint: "[ID]", Description: "resume another session, or list them", Run: resume},
		{Name: "name", Hint: "[TITLE]", Description: "show or set the session's title", Run: name, Anytime: true},
		{Name: "clone", Description: "continue in a copy of the session", Run: clone},
		{Name: "fork", Hint: "[N]", Description: "start a session at an earlier message, or list them", Run: fork},
		{Name: "tree", Hint: "[N]", Description: "show the session's branches, or go to an entry", Run: tree},
		{Name: "export", Hint: "[FILE]", Description: "write the session as a page, Markdown or JSON lines", Run: export,
			Anytime: true},
		{Name: "share", Description: "upload the session as a secret gist, after asking", Run: share},
		{Name: "copy", Description: "copy the last answer to the clipboard", Run: copyAnswer, Anytime: true},
		{Name: "compact", Hint: "[FOCUS]", Description: "replace the conversation so far with a summary", Run: compact},
		{Name: "clear", Description: "empty the context and keep the session", Run: clearContext},
		{Name: "context", Description: "show what fills the model's window", Run: showContext, Anytime: true},
		{Name: "cost", Description: "show what the session has cost, by model", Run: cost, Anytime: true},

		{Name: "model", Hint: "[NAME]", Description: "show or change the model", Run: setModel, Anytime: true},
		{Name: "effort", Hint: "[LEVEL]", Description: "show or change how hard the model thinks", Run: setEffort,
			Anytime: true},
		{Name: "skills", Description: "list the skills, or those that match some words", Hint: "[WORDS]", Run: listSkills,
			Anytime: true},
		{Name: "skill", Hint: "[NAME]", Description: "show a skill and the actions for it", Run: showSkill,
			Anytime: true},
		{Name: "why", Hint: "[NAME]", Description: "explain why a skill was or was not loaded", Run: why, Anytime: true},
		{Name: "release", Hint: "[NAME|all]", Description: "remove a skill's text from the conversation", Run: release},

		{Name: "permissions", Hint: "[MODE]", Description: "show the permission rules, or change the mode", Run: permissions,
			Anytime: true},
		{Name: "agents", Hint: "[ID]", Description: "list agents and what runs in the background",
			Run: listAgents, Anytime: true},
		{Name: "hooks", Description: "list the hooks", Run: listHooks, Anytime: true},
		{Name: "mcp", Hint: "[login NAME]", Description: "list the MCP servers or show one; login, logout, retry",
			Run: mcpServers},
		{Name: "trust", Description: "show what the project provides, and approve it", Run: trustProject},
		{Name: "settings", Hint: "[KEY VALUE]", Description: "show the settings, or set one of yours", Run: settings,
			Anytime: true},
		{Name: "login", Hint: "[PROVIDER]", Description: "store a provider's key", Run: login},
		{Name: "logout", Hint: "[PROVIDER]", Description: "remove a provider's stored key, or list the stored keys",
			Run: logout},
		{Name: "reload", Description: "read settings, skills and templates again", Run: reload},
		{Name: "init", Hint: "[FOCUS]", Description: "let the model write AGENTS.md", Run: initProject},
		{Name: "changelog", Description: "show the version and where to find its changes", Run: changelog, Anytime: true},
	}
}

// otherNames maps names that other agents have for a command of the program to ours. A skill or template of the
// name comes first. Lists and completion do not show them.
var otherNames = map[string]string{
	"exit": "quit", "status": "session", "usage": "cost", "config": "settings", "continue": "resume", "rewind": "tree",
	"rename": "name", "branch": "fork", "tasks": "agents",
}

// elsewhere says what to type for commands of other agents that the program does not have.
var elsewhere = map[string]string{
	"add-dir": "knack -c --add-dir DIR", "doctor": "knack doctor", "plan": "/permissions plan",
	"memory": "edit AGENTS.md, which /init writes", "sandbox": "knack sandbox explain",
	"keybindings": "/hotkeys; knack help keys says how to change them",
}

// slashCommands converts commands to the type that lists, completion and the agent use.
func slashCommands(all []ProgramCommand) []knack.SlashCommand {
	out := make([]knack.SlashCommand, len(all))
	for i, c := range all {
		out[i] = knack.SlashCommand{Name: c.Name, Kind: knack.CommandProgram, Hint: c.Hint, Description: c.Description}
	}
	return out
}

// ProgramCommands returns the program's own commands, in the order of /help.
func ProgramCommands() []knack.SlashCommand { return slashCommands(programCommands()) }

// Commands returns everything that can be typed after a slash: the program's commands, skills,
// templates and the host's commands.
func (s *Session) Commands() []knack.SlashCommand {
	p := s.engine.Project()
	all, _ := p.commands(s.Catalog(), s.viewOf(p), s.Host().Commands, s.promptCommands()...)
	return all
}

// resolved returns an input with what it calls.
func (s *Session) resolved(in agent.Input) agent.Input {
	if _, _, slash := agent.Slash(in.Text); !slash {
		return in
	}
	all := s.Commands()
	in.Called = agent.Resolve(in.Text, all)
	if other, ok := otherNames[in.Called.Name]; ok && in.Called.Command == nil && typed(in) {
		if c, ok := knack.Called(all, other); ok && c.Kind == knack.CommandProgram {
			in.Called.Command = &c
		}
	}
	return in
}

// typed reports whether an input may call a command of the program: text that was piped or pasted in calls none.
func typed(in agent.Input) bool { return in.Host || in.Named || in.Typed == in.Text }

// command returns the command of the program or the host that a resolved input calls.
func (s *Session) command(in agent.Input) (c ProgramCommand, ok bool) {
	if in.Called == nil || in.Called.Command == nil || in.Called.Command.Kind != knack.CommandProgram || !typed(in) {
		return ProgramCommand{}, false
	}
	own := strings.TrimPrefix(in.Called.Command.Name, string(knack.CommandProgram)+":")
	all := slices.Concat(programCommands(), s.Host().Commands)
	i := slices.IndexFunc(all, func(c ProgramCommand) bool { return c.Name == own })
	if i < 0 {
		return ProgramCommand{}, false
	}
	return all[i], true
}

// runCommand runs a command and sets its name and arguments in the reply. It checks the value of a host's reply,
// because a front end that writes JSON could not show that reply at all.
func (s *Session) runCommand(ctx context.Context, c ProgramCommand, args string) (Reply, error) {
	if c.Run == nil { // a host's
		return Reply{}, fmt.Errorf("/%s: the host gave no func for this command", plain.Line(c.Name))
	}
	r, err := c.Run(ctx, s, args)
	r.Command, r.Args = c.Name, args
	own := slices.ContainsFunc(programCommands(), func(p ProgramCommand) bool { return p.Name == c.Name })
	if err != nil || own {
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

func help(_ context.Context, s *Session, _ string) (Reply, error) {
	all := s.Commands()
	table := ProgramCommands()
	rank := func(c knack.SlashCommand) int { // the program's commands in the order of the table, then all others
		i := slices.IndexFunc(table, func(d knack.SlashCommand) bool {
			return c.Kind == d.Kind && (c.Name == d.Name || c.Name == string(d.Kind)+":"+d.Name)
		})
		if i < 0 {
			return len(all)
		}
		return i
	}
	listed := slices.DeleteFunc(slices.Clone(all), func(c knack.SlashCommand) bool { return c.Skill != nil })
	slices.SortStableFunc(listed, func(a, b knack.SlashCommand) int { return rank(a) - rank(b) })
	type row struct {
		Name        string            `json:"name"`
		Kind        knack.CommandKind `json:"kind"`
		Hint        string            `json:"hint,omitempty"`
		Description string            `json:"description"`
	}
	value := []row{}
	for _, c := range listed {
		value = append(value, row{c.Name, c.Kind, c.Hint, c.Description})
	}
	listed = append(listed,
		knack.SlashCommand{Name: "NAME", Hint: "ARGS", Description: "a skill: /skills lists them"},
		knack.SlashCommand{Name: "/TEXT", Description: "sends /TEXT to the model"})
	return Reply{Text: strings.TrimRight(CommandList(listed, ""), "\n"), Value: value}, nil
}

// CommandList formats one line for each command.
func CommandList(all []knack.SlashCommand, indent string) string {
	typed := func(c knack.SlashCommand) string { return plain.Line(strings.TrimSpace("/" + c.Name + " " + c.Hint)) }
	width := 0
	for _, c := range all {
		if n := utf8.RuneCountInString(typed(c)); n <= 24 {
			width = max(width, n)
		}
	}
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "%s%-*s  %s\n", indent, width, typed(c), Clip(c.Description, 70))
	}
	return b.String()
}

func quit(context.Context, *Session, string) (Reply, error) { return Reply{Quit: true}, nil }

// Complete lists completions of a line. For a line that begins with a slash these are names with that
// prefix, or if there are none, names that contain its letters in the same order, best match first. For a line
// whose last word begins with @ they are MCP servers with resources, and the resources of a server.
func (s *Session) Complete(line string) []string {
	typed, ok := strings.CutPrefix(line, "/")
	if !ok || strings.ContainsAny(typed, " \t") {
		word := line[strings.LastIndexAny(line, " \t\n")+1:]
		return s.completeResource(strings.TrimSuffix(line, word), word)
	}
	var names, similarNames []string // the second: names that do not begin with what was typed
	score := map[string]int{}
	for _, c := range s.Commands() {
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
	slices.SortFunc(similarNames, func(a, b string) int { return cmp.Or(score[b]-score[a], strings.Compare(a, b)) })
	return slices.Compact(similarNames)
}

// completeTime is how long a completion waits for an MCP server.
const completeTime = 2 * time.Second

// completeResource lists completions of a word with @ that names a resource of an MCP server; before is
// the line up to the word.
func (s *Session) completeResource(before, word string) []string {
	typed, ok := strings.CutPrefix(word, "@")
	if !ok {
		return nil
	}
	var all []string
	server, uri, named := strings.Cut(typed, ":")
	if !named {
		for _, name := range s.ResourceServers() {
			if strings.HasPrefix(name, typed) {
				all = append(all, before+"@"+name+":")
			}
		}
		return all
	}
	if !slices.Contains(s.ResourceServers(), server) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	found, _ := s.Resources(ctx, server) // resources of a server that is not connected by then are in a later completion
	for _, r := range found {
		if strings.HasPrefix(r.URI, uri) {
			all = append(all, before+"@"+server+":"+r.URI)
		}
	}
	return all
}
