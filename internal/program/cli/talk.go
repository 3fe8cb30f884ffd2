package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/line"
	"github.com/knack-agent/knack/internal/program/tui"
	"github.com/knack-agent/knack/run/agent"
)

// talk runs `knack` on a terminal, prompt by prompt, until the user leaves.
func (f *runFlags) talk(c *cobra.Command, args []string) error {
	in, ok := c.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		if err := otherProgram(c, args); err != nil {
			return err
		}
		return engine.Usagef("knack -p 'your prompt'", "standard input is not a terminal")
	}
	first := strings.Join(f.goalAsPrompt(args), " ")
	if f.pick && first != "" {
		return engine.Usagef("knack session list", "-r (--resume) needs the ID of a session if a prompt is given")
	} else if f.pick {
		first = "/resume"
	}
	if err := askWord(c, args); err != nil {
		return err
	}
	f.left = &leftTerminal{}
	e, err := f.open(c)
	if err != nil {
		return err
	}
	err = f.talkIn(c, e, in, first)
	if len(f.left.messages) > 0 {
		begun := f.left.begin(c)
		f.stays, err = begun == nil, errors.Join(err, begun)
	}
	return err
}

// talkIn is talk in an open directory, which it closes.
func (f *runFlags) talkIn(c *cobra.Command, e *engine.Engine, in *os.File, first string) error {
	ctx, stderr := c.Context(), c.ErrOrStderr()
	defer closeEngine(e, stderr)
	if err := askRoutes(c, e); err != nil {
		return err
	}
	if useScreen(engine.Env(nil)) {
		return f.screen(c, e, in, first)
	}
	if !f.trust && !f.bare {
		if err := askTrust(c, e); err != nil {
			return err
		}
	}
	front := &line.Front{In: in, Out: drawn(c), Color: colors(c.OutOrStdout()),
		History: engine.Env(nil).StateFile("history")}
	if err := e.Unread.Ask(ctx, front); err != nil {
		return err
	}
	s, err := f.start(ctx, e, front, nil, stderr)
	if err != nil {
		return err
	}
	defer exitOnSignal(e, in, stderr)()
	t := &lineMode{front: front, Conversation: engine.Converse(s), notices: notices{w: stderr}}
	if !f.verbose {
		t.notices.talking = f.known.talking
	}
	front.Complete = func(text string) []string { return t.Session().Now().Complete(text) }
	front.Summary = func(name string, input json.RawMessage) string { return t.Session().Now().Summary(name, input) }
	front.Send = func(ctx context.Context, text string, when engine.When) (engine.Queued, error) {
		return t.Session().Send(ctx, engine.QueuedMessage{Input: agent.Typed(e.Shorthand(text)), When: when})
	}

	if done, err := command.ChooseModel(ctx, s); err != nil {
		front.Print(withHint(err).Error())
	} else if done != "" {
		front.Print(done)
	}
	name := "no model"
	if model, err := s.Model(ctx); err == nil {
		name = model.Info().ID
	} else {
		front.Print(withHint(err).Error()) // not fatal: /login and other commands need no model
	}
	front.Print(fmt.Sprintf("%s, %s, %d skills. /help lists the commands.",
		plain.Line(name), plain.Line(e.Project().ShortIn(e.Project().Dir())), len(e.Catalog().Skills())))
	if s.Log().Last() > 0 {
		front.Show(s.Log())
	}
	for e, err := range t.Begin(ctx) {
		if err != nil {
			return err
		}
		t.front.Event(e)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go e.Watch(watching)
	front.First, front.Woken = first, t.woken
	front.AtEnd = func() string {
		if t.Session().Leaving() != nil {
			return "/quit"
		}
		return ""
	}
	return front.Talk(t.turn)
}

// useScreen reports whether to use the screen interface (package tui) rather than line mode.
// Line mode is for terminals that cannot move the cursor, for logs, and for users who set
// KNACK_UI=line, such as users of a screen reader.
func useScreen(env engine.Env) bool {
	switch env.Get("KNACK_UI") {
	case "line":
		return false
	case "screen":
		return true
	}
	return env.Get("TERM") != "" && env.Get("TERM") != "dumb" && env.Get("CI") == ""
}

// screen runs the conversation in the terminal interface (package tui).
func (f *runFlags) screen(c *cobra.Command, e *engine.Engine, in *os.File, first string) error {
	ctx, release := signals(c.Context())
	defer release()
	env, out := engine.Env(nil), drawn(c)
	settings := e.Project().Settings()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var before func(ctx context.Context, person engine.Person) error
	if trusts := !f.trust && !f.bare && e.NeedsTrust(); trusts || len(e.Unread.Problems()) > 0 {
		before = func(ctx context.Context, person engine.Person) error {
			if err := e.Unread.Ask(ctx, person); err != nil || !trusts {
				return err
			}
			return command.AskTrust(ctx, e, person)
		}
	}
	said := &warningLines{} // the screen owns the terminal
	defer func() {
		for _, line := range said.take() {
			fmt.Fprintln(c.ErrOrStderr(), "knack:", line)
		}
	}()
	return tui.Run(ctx, tui.Options{
		In: in, Out: out, Theme: cmp.Or(env.Get("KNACK_THEME"), settings.Theme), Colour: colors(out), Themes: themes(env),
		Notify: settings.Notify, Vim: settings.EditorMode == "vim",
		First: first, Env: env.Get,
		History: env.StateFile("history"), Bindings: engine.KeyBindings(env),
		ClaudeBindings: engine.ClaudeKeyBindings(env),
		Before:         before,
		Start: func(ctx context.Context, person engine.Person) (*engine.Session, error) {
			return f.start(ctx, e, person, nil, said)
		},
		Warnings: said.take,
		Notices: func(problems []knack.Problem) []knack.Problem {
			if f.verbose {
				return problems
			}
			return f.known.talking(problems)
		},
		Greeting: func(s *engine.Session, key string) tui.Greeting { return greeting(s, env, key) },
		Shown:    func() { go e.Watch(watching) }, // it searches the directories of skills once more
	})
}

// themes is the directory of the user's theme files; "": there is none.
func themes(env engine.Env) string {
	if dir := env.ConfigDir(); dir != "" {
		return filepath.Join(dir, "themes")
	}
	return ""
}

// warningLines collects what the start of a session prints.
type warningLines struct{ bytes.Buffer }

// take returns the lines, without the program's name, and forgets them.
func (w *warningLines) take() (lines []string) {
	for line := range strings.Lines(w.String()) {
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "knack: "))
	}
	w.Reset()
	return lines
}

// greeting is what the first screen says.
func greeting(s *engine.Session, env engine.Env, modeKey string) tui.Greeting {
	e := s.Engine()
	p, mode := e.Project(), s.Mode()
	g := tui.Greeting{Title: "Knack " + p.Version(), Place: fromHome(p.Dir(), env.Get("HOME")),
		Try: "Ask about this code, or say what to change   / commands   ? keys"}
	if model := knownModel(s); model != "" {
		g.Facts = append(g.Facts, tui.Fact{Text: model, Key: "/model"})
	}
	g.Facts = append(g.Facts, tui.Fact{Text: string(mode) + ": " + modeText(mode), Key: modeKey})
	if mode == permission.Bypass {
		g.Needs = append(g.Needs, "Nothing is asked in this mode: the model may change and run everything that you can.")
	}
	if p.Settings().Sandbox == "off" {
		g.Needs = append(g.Needs, "The sandbox is off: commands may read and write everything that you can.")
	}
	switch {
	case e.NeedsTrust():
		g.Needs = append(g.Needs, "Files of this folder are off until you trust them. /trust shows them.")
	case !e.Trusted():
		g.Facts = append(g.Facts, tui.Fact{Text: "This folder is not trusted. Nothing in it needs that.", Key: "/trust"})
	}
	return g
}

// knownModel returns the ID of the session's model, if no server has to be asked for it.
func knownModel(s *engine.Session) string {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := s.Engine()
	m, err := e.Models().Default(ctx, cmp.Or(s.Log().State().Model, e.Project().Settings().Model))
	if err != nil {
		return ""
	}
	return m.Info().ID
}

// modeText says what a mode means.
func modeText(m permission.Mode) string {
	switch m {
	case permission.AcceptEdits:
		return "changes files here without asking"
	case permission.Plan:
		return "changes nothing until you start the plan"
	case permission.Bypass:
		return "asks nothing"
	case permission.DontAsk:
		return "refuses what no rule allows"
	}
	return "asks before changes"
}

// fromHome replaces the home directory in a path by ~.
func fromHome(dir, home string) string {
	if rel, err := filepath.Rel(home, dir); err == nil && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return dir
}

// lineMode is the state of line mode.
type lineMode struct {
	*engine.Conversation
	front   *line.Front
	notices notices
}

// woken waits until something in the background may begin a turn.
func (t *lineMode) woken(ctx context.Context) bool {
	for st := range t.Session().Watch(ctx) {
		if st.Wakes {
			return true
		}
	}
	return false
}

// turn runs what the user typed, or with "" the turn that something in the background begins.
func (t *lineMode) turn(ctx context.Context, text string) error {
	s, in := t.Session(), engine.Woken()
	if text != "" {
		var err error
		if in, err = s.Attach(ctx, agent.Typed(s.Engine().Shorthand(text))); err != nil {
			return err
		}
	}
	defer t.notices.print(s.Engine())
	quit := false
	for e, err := range t.Run(ctx, in) {
		if err != nil {
			return withHint(err)
		}
		t.notices.print(s.Engine())
		t.front.Event(e)
		quit = quit || e.Reply != nil && e.Reply.Quit
	}
	for _, m := range t.Unsent() {
		t.front.First = strings.TrimPrefix(t.front.First+"\n"+m.Text, "\n")
	}
	if next := t.Session(); next != s {
		t.front.Show(next.Log())
	}
	if quit {
		return line.ErrQuit
	}
	return nil
}

// askRoutes asks once about variables in another program's settings that decide where requests are sent.
func askRoutes(c *cobra.Command, e *engine.Engine) error {
	routes := e.Project().Foreign().Routes()
	if len(routes) == 0 {
		return nil
	}
	for _, r := range routes {
		fmt.Fprintf(c.ErrOrStderr(), "  %s  (%s)\n", r, plain.Line(e.Project().Short(r.Path)))
	}
	yes, err := confirm(c, "Send requests, with your conversations, there? Keys that Knack stored are never sent there.",
		"set the variables yourself")
	if err != nil {
		return err
	}
	if err := e.Project().Foreign().Answer(yes); err != nil {
		return err
	}
	_, err = e.Reload(c.Context())
	return err
}

// askTrust shows what the project contains that is not approved or has changed since it was,
// and asks once for approval. Without approval the program continues without it.
func askTrust(c *cobra.Command, e *engine.Engine) error {
	if !e.NeedsTrust() {
		return nil
	}
	items, err := e.Project().Untrusted(c.Context())
	if err != nil {
		fmt.Fprintln(c.ErrOrStderr(), "knack: warn:", plain.Line(err.Error()))
	}
	if len(items) == 0 {
		return nil
	}
	e.Project().WriteItems(c.ErrOrStderr(), items)
	yes, err := confirm(c, command.TrustQuestion(len(items)), "knack trust --yes approves what is shown")
	if err != nil || !yes {
		return err
	}
	if err := askNetwork(c, items); err != nil {
		return err
	}
	if err := askWrite(c, items); err != nil {
		return err
	}
	_, err = e.Trust(c.Context(), items...)
	return err
}

// withHint returns an error followed by its hint, to show at the prompt.
func withHint(err error) error {
	var f *engine.Error
	if errors.As(err, &f) && f.Hint != "" {
		return fmt.Errorf("%w\nhint: %s", err, strings.ReplaceAll(engine.PromptHint(f.Hint), "\n", "\nhint: "))
	}
	return err
}

// exitOnSignal handles SIGTERM and SIGHUP (the terminal was closed): it closes the engine, which
// ends everything that it started, restores the terminal and exits. The returned function
// stops the handling.
func exitOnSignal(e *engine.Engine, in *os.File, stderr io.Writer) func() {
	oldState, _ := term.GetState(int(in.Fd()))
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGHUP)
	stopped := make(chan struct{})
	go func() {
		select {
		case <-stopped:
		case s := <-ch:
			ended := notices{w: stderr, printed: len(e.Notices())}
			e.Close() // records the turn as interrupted
			if oldState != nil {
				term.Restore(int(in.Fd()), oldState)
			}
			ended.print(e)
			if s == syscall.SIGHUP {
				os.Exit(int(engine.ExitHungUp))
			}
			os.Exit(int(engine.ExitTerminated))
		}
	}()
	return func() {
		signal.Stop(ch)
		close(stopped)
	}
}

// drawn returns standard output for front ends that write control sequences, and so must escape all text themselves
// (TestStandardOutput lists them). What other commands write to a terminal is escaped.
func drawn(c *cobra.Command) io.Writer { return underlying(c.OutOrStdout()) }

// colors reports whether output to w may be coloured.
func colors(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	if v := os.Getenv("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	return isTerminal(w)
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	if w, ok := stream.(io.Writer); ok {
		stream = underlying(w)
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
