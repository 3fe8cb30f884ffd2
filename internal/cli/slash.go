package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/line"
	"github.com/knack-agent/knack/internal/plain"
)

// commands is the table of the program's own commands, in the order of /help:
// what a person types with a slash at a prompt, with -p, or in a line of
// stream-json. A row's Run does the work; what it shows with say is escaped
// where it is shown. Who must be asked is asked through s.who, which is nil
// where nobody is there. A row without Anytime waits for the end of a run, and
// may replace s.log with s.begin.
func (s *sessionRun) commands() []knack.Command {
	all := []knack.Command{
		{Name: "help", Description: "list the commands", Run: s.slashHelp, Anytime: true},
		{Name: "hotkeys", Description: "list the keys", Run: slashHotkeys, Anytime: true},
		{Name: "quit", Description: "leave", Run: slashQuit},

		{Name: "session", Description: "show the session", Run: s.slashSession, Anytime: true},
		{Name: "new", Description: "start an empty session", Run: s.slashNew},
		{Name: "resume", Hint: "[ID]", Description: "go on with another session, or list them", Run: s.slashResume},
		{Name: "name", Hint: "[TITLE]", Description: "show the session's title, or give it one", Run: s.slashName, Anytime: true},
		{Name: "clone", Description: "go on in a copy of the session", Run: s.slashClone},
		{Name: "fork", Hint: "[N]", Description: "start a session at an earlier message, or list them", Run: s.slashFork},
		{Name: "tree", Hint: "[N]", Description: "show the session's branches, or go to an entry", Run: s.slashTree},
		{Name: "export", Hint: "[FILE]", Description: "write the session as a page, Markdown or JSON lines", Run: s.slashExport, Anytime: true},
		{Name: "share", Description: "upload the session as a secret gist, after asking", Run: s.slashShare},
		{Name: "copy", Description: "put the last answer on the clipboard", Run: s.slashCopy, Anytime: true},
		{Name: "compact", Hint: "[FOCUS]", Description: "put a summary in the place of what came before", Run: s.slashCompact},
		{Name: "clear", Description: "empty the context and keep the session", Run: s.slashClear},
		{Name: "context", Description: "show what fills the model's window", Run: s.slashContext, Anytime: true},
		{Name: "cost", Description: "show what the session has cost, by model", Run: s.slashCost, Anytime: true},

		{Name: "model", Hint: "[NAME]", Description: "show or change the model", Run: s.slashModel},
		{Name: "effort", Hint: "[LEVEL]", Description: "show or change how hard the model thinks", Run: s.slashEffort},
		{Name: "skills", Description: "list the skills", Run: s.slashSkills, Anytime: true},
		{Name: "why", Hint: "NAME", Description: "why a skill is or is not there", Run: s.slashWhy, Anytime: true},
		{Name: "release", Hint: "[NAME|all]", Description: "take a skill's text out of the conversation", Run: s.slashRelease},

		{Name: "permissions", Hint: "[MODE]", Description: "show the rules in force, or change the mode", Run: s.slashPermissions},
		{Name: "agents", Description: "list the agents, and which work", Run: s.slashAgents, Anytime: true},
		{Name: "hooks", Description: "list the hooks", Run: s.slashHooks, Anytime: true},
		{Name: "trust", Description: "show what the project brings, and approve it", Run: s.slashTrust},
		{Name: "settings", Hint: "[KEY VALUE]", Description: "show the settings, or set one of yours", Run: s.slashSettings},
		{Name: "login", Hint: "[PROVIDER]", Description: "store a provider's key", Run: s.slashLogin},
		{Name: "logout", Hint: "[PROVIDER]", Description: "forget a provider's key, or list the stored ones", Run: slashLogout},
		{Name: "reload", Description: "read settings, skills and templates again", Run: s.slashReload},
		{Name: "init", Hint: "[FOCUS]", Description: "have the model write AGENTS.md", Run: slashInit},
		{Name: "changelog", Description: "show the version, and where its changes are told", Run: slashChangelog, Anytime: true},
	}
	for i := range all {
		all[i].Kind = "command"
	}
	return all
}

// typed is all that a person can type after a slash beside skills; where
// names meet, the first has it (spec skills §2).
func (s *sessionRun) typed() []knack.Command { return slices.Concat(s.templates, s.commands()) }

func (s *sessionRun) slashHelp(_ context.Context, _ string, say func(string)) (string, error) {
	all, _ := s.agent.Namespace()
	table := s.commands()
	rank := func(c knack.Command) int { // as the table has them, then what else is no skill
		i := slices.IndexFunc(table, func(d knack.Command) bool {
			return c.Kind == d.Kind && (c.Name == d.Name || c.Name == d.Kind+":"+d.Name)
		})
		if i < 0 {
			return len(all)
		}
		return i
	}
	shown := slices.DeleteFunc(slices.Clone(all), func(c knack.Command) bool { return c.Skill != nil })
	slices.SortStableFunc(shown, func(a, b knack.Command) int { return rank(a) - rank(b) })
	shown = append(shown,
		knack.Command{Name: "NAME", Hint: "ARGS", Description: "a skill: /skills lists them"},
		knack.Command{Name: "/TEXT", Description: "says /TEXT to the model"})
	say(strings.TrimRight(listCommands(shown, ""), "\n"))
	return "", nil
}

func slashQuit(context.Context, string, func(string)) (string, error) { return "", line.ErrQuit }

func (s *sessionRun) slashSkills(_ context.Context, _ string, say func(string)) (string, error) {
	cat := s.library.Catalog()
	var b strings.Builder
	for _, e := range cat.Entries() {
		fmt.Fprintf(&b, "%-24s %-12s %s\n", plain.Line(e.Name()), e.Origin.Kind, cat.State(e, s.view))
	}
	say(cmp.Or(strings.TrimRight(b.String(), "\n"), "there are no skills here"))
	return "", nil
}

func (s *sessionRun) slashWhy(_ context.Context, name string, say func(string)) (string, error) {
	if name == "" {
		return "", errors.New("/why needs the name of a skill")
	}
	view := s.agent.View
	view.For = knack.ByModel
	view.Window = s.agent.Model.Info().Window
	view.Touched = touched(s.log)
	cat := &catalogView{Catalog: s.library.Catalog(), view: view, all: s.problems(s.library.Catalog()), sandboxes: s.sandboxes}
	var b strings.Builder
	w := cat.why(name)
	printWhy(&b, cat, w)
	printChronicle(&b, s.log, w)
	say(strings.TrimRight(b.String(), "\n"))
	return "", nil
}

func (s *sessionRun) slashRelease(_ context.Context, name string, say func(string)) (string, error) {
	if name == "" {
		texts := s.log.State().Texts
		for _, t := range texts {
			say(fmt.Sprintf("%-24s %d tokens", plain.Line(t.Skill), t.Tokens))
		}
		if len(texts) == 0 {
			say("no skill's text is in the conversation")
		}
		return "", nil
	}
	done, err := agent.ReleaseByHand(s.log, name, "by hand")
	for _, r := range done {
		say(plain.Line(r.Line()))
	}
	if err == nil && len(done) == 0 {
		err = fmt.Errorf("no text of a skill %q is in the conversation", name)
	}
	return "", err
}

// complete lists what a line that begins with a slash may become: names that
// begin as it does, else those that have its letters in that order, the
// nearest first.
func (s *sessionRun) complete(text string) []string {
	typed, ok := strings.CutPrefix(text, "/")
	if !ok || strings.ContainsAny(typed, " \t") {
		return nil
	}
	all, _ := s.agent.Namespace()
	var names, loose []string
	far := map[string]int{}
	for _, c := range all {
		if plain.Line(c.Name) != c.Name {
			continue // it cannot be shown as it is
		}
		if strings.HasPrefix(c.Name, typed) {
			names = append(names, "/"+c.Name)
		} else if n, ok := spread(c.Name, typed); ok {
			loose = append(loose, "/"+c.Name)
			far["/"+c.Name] = n
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		return slices.Compact(names)
	}
	slices.SortFunc(loose, func(a, b string) int { return cmp.Or(far[a]-far[b], strings.Compare(a, b)) })
	return slices.Compact(loose)
}

// spread reports whether a name has the letters of a pattern in their order,
// in either case, and how far apart they stand.
func spread(name, pattern string) (gaps int, ok bool) {
	name, pattern = strings.ToLower(name), strings.ToLower(pattern)
	last := -1
	for _, r := range pattern {
		i := strings.IndexRune(name[last+1:], r)
		if i < 0 {
			return 0, false
		}
		gaps += i
		last += 1 + i
	}
	return gaps, true
}
