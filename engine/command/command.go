// Package command has knack's own slash commands, such as /help, /resume and /skills.
//
// A command is a value: its name, what it shows in lists, and a func that gets a session and what was typed after the
// name. Commands use only what [engine.Session] exports, and return data, an [engine.Reply], which every front end
// shows in its own way. A program gives the table to the engine:
//
//	e, err := engine.Open(ctx, engine.Options{Commands: command.All(""), Parts: part.All()})
package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// All returns the commands, in the order of /help. hotkeys lists the front end's keys, for /hotkeys; "": it has none.
func All(hotkeys string) []engine.Command {
	shows, bare := engine.ShowsOnly, engine.WithoutArguments(engine.Changes)
	return []engine.Command{
		{Name: "help", Description: "list the commands", Run: help, Anytime: true, Effect: shows},
		{Name: "hotkeys", Description: "list the keys", Run: showKeys(hotkeys), Anytime: true, Effect: shows},
		{Name: "quit", Also: []string{"exit"}, Description: "leave", Run: quit, Effect: shows},

		{Name: "session", Also: []string{"status"}, Description: "show the session", Run: showSession,
			Anytime: true, Effect: shows},
		{Name: "new", Description: "start an empty session", Run: startNew},
		{Name: "resume", Also: []string{"continue"}, Hint: "[ID]", Description: "resume another session, or list them",
			Run: resume, Effect: bare},
		{Name: "name", Also: []string{"rename"}, Hint: "[TITLE]", Description: "show or set the session's title",
			Run: name, Anytime: true, Effect: shows},
		{Name: "clone", Description: "continue in a copy of the session", Run: clone},
		{Name: "fork", Also: []string{"branch"}, Hint: "[N]",
			Description: "start a session at an earlier message, or list them", Run: fork,
			Effect: bare},
		{Name: "tree", Hint: "[N [LABEL | +]]", Run: tree, Effect: bare,
			Description: "show the session's branches, go to an entry, label it"},
		{Name: "export", Hint: "[FILE]", Description: "write the session as a page, Markdown or JSON lines", Run: export,
			Anytime: true},
		{Name: "import", Hint: "FILE", Description: "continue a session of Claude Code, Pi or Knack", Run: importSession},
		{Name: "share", Description: "upload the session as a secret gist, after asking", Run: share},
		{Name: "copy", Description: "copy the last answer to the clipboard", Run: copyAnswer, Anytime: true},
		{Name: "compact", Hint: "[FOCUS]", Description: "replace the conversation so far with a summary", Run: compact,
			Effect: shows},
		{Name: "clear", Description: "empty the context and keep the session", Run: clearContext,
			Effect: shows},
		{Name: "context", Description: "show what fills the model's window", Run: showContext, Anytime: true,
			Effect: shows},
		{Name: "cost", Also: []string{"usage"}, Description: "show what the session has cost, by model", Run: cost,
			Anytime: true, Effect: shows},

		{Name: "model", Hint: "[NAME]", Description: "show or change the model", Run: setModel, Anytime: true,
			Effect: bare},
		{Name: "effort", Also: []string{"thinking"}, Hint: "[LEVEL]", Description: "show or change how hard the model thinks",
			Run: setEffort, Anytime: true, Effect: bare},
		{Name: "skills", Description: "list the skills, or those that match some words", Hint: "[WORDS]", Run: listSkills,
			Anytime: true, Effect: shows},
		{Name: "skill", Hint: "[NAME]", Description: "show a skill and the actions for it", Run: showSkill,
			Anytime: true, Effect: shows},
		{Name: "why", Hint: "[NAME]", Description: "explain why a skill was or was not loaded", Run: why, Anytime: true,
			Effect: shows},
		{Name: "release", Hint: "[NAME|all]", Description: "remove a skill's text from the conversation", Run: release,
			Effect: bare},

		{Name: "permissions", Hint: "[MODE]", Description: "show the permission rules, or change the mode",
			Run:     permissions,
			Anytime: true, Effect: modeEffect},
		{Name: "agents", Also: []string{"tasks"}, Hint: "[ID]", Description: "list agents and what runs in the background",
			Run: listAgents, Anytime: true, Effect: agentsEffect},
		{Name: "hooks", Description: "list the hooks", Run: listHooks, Anytime: true, Effect: shows},
		{Name: "mcp", Hint: "[login NAME]", Description: "list the MCP servers or show one; login, logout, retry",
			Run: mcpServers, Effect: serverEffect},
		{Name: "plugin", Also: []string{"plugins"}, Hint: "[NAME on|off]",
			Description: "list the plugins, switch one on or off; add SOURCE", Run: plugins,
			Effect: pluginEffect},
		{Name: "trust", Description: "show what the project provides, and approve it", Run: trustProject},
		{Name: "settings", Also: []string{"config"}, Hint: "[KEY VALUE]",
			Description: "show the settings, or set one of yours", Run: Settings,
			Anytime: true, Effect: settingsEffect},
		{Name: "login", Hint: "[PROVIDER]", Description: "store a provider's key", Run: login},
		{Name: "logout", Hint: "[PROVIDER]", Description: "remove a provider's stored key, or list the stored keys",
			Run: logout, Effect: bare},
		{Name: "reload", Description: "read settings, skills and templates again", Run: reload},
		{Name: "add-dir", Hint: "DIR", Description: "let tools use a directory as they use this one, until the end",
			Run: addDir, Effect: bare},
		{Name: "output-style", Hint: "[NAME]", Description: "show or change the style of answers", Run: outputStyle,
			Effect: engine.WithoutArguments(engine.Stores)},
		{Name: "doctor", Description: "check keys, servers, sandbox and trust", Run: doctor, Anytime: true,
			Effect: shows},
		{Name: "review", Hint: "[WHAT]", Description: "let the model review the uncommitted changes, or what you name",
			Run: review, Effect: shows},
		{Name: "init", Hint: "[FOCUS]", Description: "let the model write AGENTS.md", Run: initProject,
			Effect: shows},
		{Name: "changelog", Description: "show the version and where to find its changes", Run: changelog, Anytime: true,
			Effect: shows},

		{Name: "sandbox", Instead: "knack sandbox explain"},
		{Name: "keybindings", Instead: "/hotkeys; knack help keys says how to change them"},
		// The screen has these itself.
		{Name: "vim", Instead: "KNACK_UI=screen knack: only the screen has Vim's keys. Here the keys are those of /hotkeys"},
		{Name: "theme", Instead: "KNACK_UI=screen knack: only the screen has themes"},
	}
}

func help(_ context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	all := s.Now().Commands()
	table := engine.SlashCommands(s.Engine().Project().Commands())
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
	order.Stable(listed, func(a, b knack.SlashCommand) int { return rank(a) - rank(b) })
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
	return engine.Reply{Text: strings.TrimRight(List(listed, ""), "\n"), Value: value}, nil
}

// List formats one line for each command.
func List(all []knack.SlashCommand, indent string) string {
	typed := func(c knack.SlashCommand) string { return plain.Line(strings.TrimSpace("/" + c.Name + " " + c.Hint)) }
	width := 0
	for _, c := range all {
		if n := utf8.RuneCountInString(typed(c)); n <= 24 {
			width = max(width, n)
		}
	}
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "%s%-*s  %s\n", indent, width, typed(c), engine.Clip(c.Description, 70))
	}
	return b.String()
}

func showKeys(hotkeys string) func(context.Context, *engine.Session, string) (engine.Reply, error) {
	return func(context.Context, *engine.Session, string) (engine.Reply, error) {
		text := strings.TrimRight(hotkeys, "\n")
		if text == "" {
			text = "there are no keyboard shortcuts here"
		}
		return engine.Reply{Text: text}, nil
	}
}

// quit ends the program. What its parts do before, such as to propose notes, does not hold it up if it fails.
func quit(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	r := engine.Reply{Quit: true}
	if leave := s.Leaving(); leave != nil {
		r.Text = leave(ctx)
	}
	return r, nil
}

func cost(_ context.Context, s *engine.Session, _ string) (engine.Reply, error) { return Cost(s), nil }
