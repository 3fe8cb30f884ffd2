package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/line"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/session"
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
		{Name: "skills", Description: "list the skills", Run: s.slashSkills, Anytime: true},
		{Name: "why", Hint: "NAME", Description: "why a skill is or is not there", Run: s.slashWhy, Anytime: true},
		{Name: "release", Hint: "[NAME|all]", Description: "take a skill's text out of the conversation; list the texts", Run: s.slashRelease},
		{Name: "model", Hint: "[NAME]", Description: "show or change the model", Run: s.slashModel},
		{Name: "session", Description: "show the session", Run: s.slashSession, Anytime: true},
		{Name: "new", Description: "start an empty session", Run: s.slashNew},
		{Name: "reload", Description: "read the skills again", Run: s.slashReload},
		{Name: "quit", Description: "leave", Run: slashQuit},
	}
	for i := range all {
		all[i].Kind = "command"
	}
	return all
}

// typed is all that a person can type after a slash beside skills; where
// names meet, the first has it (spec skills §2).
func (s *sessionRun) typed() []knack.Command { return slices.Concat(s.templates, s.commands()) }

// begin goes on with another log from here on: the one before is closed.
func (s *sessionRun) begin(log *session.Log) error {
	g, err := s.newGate(s.who) // answers "in this session" were for the other
	if err != nil {
		return errors.Join(err, log.Close())
	}
	old := s.log
	if !s.forgets {
		noteUsage(old.Entries()[s.began:])
	}
	s.gate, s.log, s.began = g, log, len(log.Entries())
	return old.Close()
}

func (s *sessionRun) slashHelp(_ context.Context, _ string, say func(string)) (string, error) {
	all, _ := s.agent.Namespace()
	width := 0
	typed := func(c knack.Command) string { return strings.TrimSpace("/" + c.Name + " " + c.Hint) }
	for _, c := range all {
		if c.Kind == "command" {
			width = max(width, len(typed(c)))
		}
	}
	var b strings.Builder
	for _, c := range s.commands() {
		i := slices.IndexFunc(all, func(d knack.Command) bool {
			return d.Kind == c.Kind && (d.Name == c.Name || d.Name == c.Kind+":"+c.Name)
		})
		fmt.Fprintf(&b, "%-*s  %s\n", width, typed(all[i]), c.Description)
	}
	for _, c := range all {
		if c.Kind == "template" {
			fmt.Fprintf(&b, "%-*s  %s\n", width, plain.Line(typed(c)), oneLine(c.Description, 60))
		}
	}
	fmt.Fprintf(&b, "%-*s  a skill: /skills lists them\n", width, "/NAME ARGS")
	fmt.Fprintf(&b, "%-*s  says /TEXT to the model", width, "//TEXT")
	say(b.String())
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
	cat := &catalogView{Catalog: s.library.Catalog(), view: view, all: s.problems(s.library.Catalog())}
	var b strings.Builder
	w := cat.why(name)
	printWhy(&b, w)
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

func (s *sessionRun) slashModel(_ context.Context, name string, say func(string)) (string, error) {
	if name != "" {
		m, err := s.agent.Resolve(name)
		if err != nil {
			return "", err
		}
		s.agent.Model = m
		if _, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Model: m.Info().ID}}); err != nil {
			return "", err
		}
	}
	say(plain.Line(s.agent.Model.Info().ID))
	return "", nil
}

func (s *sessionRun) slashSession(_ context.Context, _ string, say func(string)) (string, error) {
	st := s.log.State()
	say(fmt.Sprintf("%s: %d turns, %d requests, $%.4f", s.log.ID(), st.Turns, st.Requests, st.Cost))
	return "", nil
}

func (s *sessionRun) slashNew(_ context.Context, _ string, say func(string)) (string, error) {
	h := session.Header{ID: session.NewID(time.Now()), Dir: s.dir}
	log := session.New(h)
	if !s.forgets {
		var err error
		if log, err = sessionStore(s.dir).Create(h); err != nil {
			return "", err
		}
	}
	if err := s.begin(log); err != nil {
		return "", err
	}
	say("a new session: " + log.ID())
	return "", nil
}

func (s *sessionRun) slashReload(ctx context.Context, _ string, say func(string)) (string, error) {
	say(fmt.Sprintf("%d skills", len(s.library.Reload(ctx).Skills())))
	return "", nil
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
