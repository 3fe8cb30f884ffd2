package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/goal"
	"github.com/knack-agent/knack/engine/part/undo"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/control"
	"github.com/knack-agent/knack/run/agent"
)

// print runs one prompt and exits (`knack -p`). With structured input, it runs one prompt
// after the other.
func (f *runFlags) print(c *cobra.Command, args []string) error {
	out, messages, err := f.printOutput(c)
	if err != nil {
		return err
	}
	args = f.goalAsPrompt(args)
	in, err := f.printInput(c, args)
	if err != nil {
		return err
	}
	ctx, stop := signals(c.Context())
	defer stop()
	e, err := f.open(c)
	if err != nil {
		return err
	}
	shown := notices{w: c.ErrOrStderr()}
	defer shown.close(e)
	var schema *control.Schema
	if c.Flags().Changed("json-schema") {
		if schema, err = control.ReadSchema(f.jsonSchema); err != nil {
			return err
		}
		f.appendPrompt = append(f.appendPrompt, schema.Prompt())
	}
	if f.inputFormat == "stream-json" {
		return f.serveHost(ctx, c, e, control.Options{Out: out, Messages: messages, Schema: schema, Show: shown.print})
	}
	edit := func(o *engine.SessionOptions) {
		schema.Edit(o)
		messages.Edit(o)
	}
	s, err := f.start(ctx, e, nil, edit, c.ErrOrStderr())
	if f.known != nil {
		defer func() {
			shown.known = nil // what is found when the engine is closed is printed
			f.known.close(c.ErrOrStderr(), e.Project())
		}()
	}
	if err != nil {
		return err
	}
	if !f.verbose {
		shown.known = f.known
		if text, ok := out.(*textOutput); ok {
			text.known = f.known
		}
	}
	jobs := &backgroundJobs{session: s, wait: f.background}
	r := &control.Runner{Conversation: engine.Converse(s), Out: &steadyOutput{Output: out}, Schema: schema,
		Show: shown.print, More: func(ctx context.Context) (agent.Input, bool) {
			if text, ok := out.(*textOutput); ok {
				text.flush() // the answer is not held back while something runs in the background
			}
			return jobs.more(ctx)
		}}
	if in, err = s.Attach(ctx, in); err != nil {
		return err
	}
	if err := missingFile(s, in, args); err != nil {
		return err
	}
	if f.outputFormat == "stream-json" { // its first line says which servers are connected
		if err := engine.AwaitServers(ctx, s); err != nil {
			return err
		}
	}
	if err := r.Begin(ctx); err != nil {
		return err
	}
	before := s.Log().Last()
	err = r.Turn(ctx, in)
	err = f.printEnd(c.ErrOrStderr(), s, before, r.Report, err, jobs)
	if ctx.Err() == nil {
		unanswered := s.MCP().Unanswered() // before print: a server that fails meanwhile is in one of both
		shown.printWith(e, unanswered)
	}
	return err
}

// printOutput returns what shows the session; with stream-json also the messages that it consists of, otherwise nil.
func (f *runFlags) printOutput(c *cobra.Command) (control.Output, *control.Messages, error) {
	switch f.outputFormat {
	case "text":
		return &textOutput{w: c.OutOrStdout(), errs: c.ErrOrStderr()}, nil, nil
	case "json":
		return jsonOutput{control.NewMessages(c.OutOrStdout(), false), c.ErrOrStderr()}, nil, nil
	case "stream-json":
		messages := control.NewMessages(c.OutOrStdout(), true)
		messages.Partial, messages.HookEvents = f.partial, f.hookEvents
		if f.mirror {
			messages.SetMirror(claudeDir())
			f.imported = messages.MirrorAfter
		}
		return messages, messages, nil
	}
	return nil, nil, engine.Usagef("--output-format text, json or stream-json", "--output-format %s: unknown format",
		f.outputFormat)
}

// printInput returns the prompt; with stream-json there is none yet.
func (f *runFlags) printInput(c *cobra.Command, args []string) (agent.Input, error) {
	switch f.inputFormat {
	case "text":
		in, err := prompt(c.InOrStdin(), args, c.ErrOrStderr(), pipeWait)
		if errors.Is(err, errNoPrompt) {
			err = f.noPrompt()
		}
		return in, err
	case "stream-json":
		if len(args) > 0 {
			return agent.Input{}, engine.Usagef("pipe lines of JSON into knack -p --input-format stream-json",
				"a prompt and structured input cannot be given together")
		}
		return agent.Input{}, nil
	}
	return agent.Input{}, engine.Usagef("--input-format text or stream-json", "--input-format %s: unknown format",
		f.inputFormat)
}

// serveHost runs what a host program sends. o has how that is shown.
func (f *runFlags) serveHost(ctx context.Context, c *cobra.Command, e *engine.Engine, o control.Options) error {
	go e.Watch(ctx)
	if w, ok := c.OutOrStdout().(*resultWriter); ok {
		o.Stdout, _ = w.w.(*os.File)
	}
	o.In = c.InOrStdin()
	o.Prompts, o.Unattended = f.permissionPrompt == "stdio", f.permissionPrompts == "none"
	o.Replay, o.MaySave, o.Timeout, o.Agree = f.replay, f.hostMaySave, f.hostTimeout, e.Unread.Ask
	o.Start = func(ctx context.Context, person engine.Person, edit func(*engine.SessionOptions)) (*engine.Session, error) {
		return f.start(ctx, e, person, edit, c.ErrOrStderr())
	}
	return control.Serve(ctx, o)
}

// missingFile returns an error for an argument @path that was not attached to the prompt, and is meant as a file.
func missingFile(s *engine.Session, in agent.Input, args []string) error {
	for _, a := range args {
		path, ok := strings.CutPrefix(a, "@")
		if !ok || path == "" || slices.Contains(in.Touched, s.Path(path)) {
			continue
		}
		// "@" also begins sentences, agents and resources of servers; these are not paths.
		if strings.ContainsFunc(path, unicode.IsSpace) || strings.HasPrefix(path, "agent-") || strings.Contains(path, "://") {
			continue
		}
		why := "there is no such file to attach"
		if info, err := os.Stat(s.Path(path)); err == nil && !info.Mode().IsRegular() {
			why = "only files can be attached"
		}
		return engine.Usagef("ls "+plain.Line(filepath.Dir(path)), "%s: %s", plain.Line(path), why)
	}
	return nil
}

// printEnd ends the background jobs after a turn that ended with err, and tells the user what the result as a text does
// not: what was refused and blocked, and how to take changes of files back. before is the last entry from before the
// turn. It returns how the program ends.
func (f *runFlags) printEnd(w io.Writer, s *engine.Session, before int, r engine.Report, err error,
	jobs *backgroundJobs) error {
	text := f.outputFormat == "text" // the others have it in their result
	if text {
		fmt.Fprint(w, refusedLine(r.Refused)+blockedLines(r.Blocked))
	}
	if g := goal.Of(s); err == nil && g != nil && r.Requests > 0 {
		err = g.Err(before)
	}
	jobs.close(w)
	if !f.noSession && text && undo.Of(s).ChangedSince(before+1) {
		fmt.Fprintf(w, "knack: files were changed: knack session restore %s takes that back\n", s.Log().ID())
	}
	n := len(r.Refused)
	switch {
	case err != nil || !f.exitRefused || n == 0:
		return err
	case text: // refusedLine has said it
		return &engine.Error{Err: errSilent{}, Exit: engine.ExitRefused}
	}
	return &engine.Error{Err: errors.New(plain.Count(n, "call") + " refused"), Exit: engine.ExitRefused}
}

// refusedLine says how many calls were refused, of which only the model was told, and what would permit them; "" if
// there are none.
func refusedLine(refused []engine.Refused) string {
	if len(refused) == 0 {
		return ""
	}
	var tools, rules []string
	for _, r := range refused {
		if !slices.Contains(tools, r.Tool) {
			tools = append(tools, r.Tool)
		}
		for _, rule := range r.By.Suggest {
			if !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
	}
	line := fmt.Sprintf("knack: %s refused (%s)", plain.Count(len(refused), "call"), plain.Line(strings.Join(tools, ", ")))
	const most = 5 // rules that fit a line which somebody reads
	for i, rule := range rules {
		switch {
		case i == most:
			return line + " and " + plain.Count(len(rules)-most, "more rule") + "\n"
		case i == 0:
			line += "; to permit:"
		}
		line += " --allow '" + strings.ReplaceAll(plain.Line(rule), "'", `'\''`) + "'"
	}
	return line + "\n"
}

// blockedLines says in a few lines what the sandbox refused to commands and a rule would permit: a command that failed
// for that reason was not refused itself.
func blockedLines(blocked []string) (lines string) {
	blocked = slices.DeleteFunc(slices.Clone(blocked), func(s string) bool {
		return !strings.Contains(s, "To allow it: ")
	})
	for i, text := range blocked {
		if i == 3 {
			return lines + "knack: " + plain.Count(len(blocked)-i, "more thing") + " blocked by the sandbox\n"
		}
		lines += "knack: " + strings.Replace(plain.Line(text), "Blocked", "blocked", 1) + "\n"
	}
	return lines
}

// errNoPrompt says that neither the command line nor standard input has a prompt.
var errNoPrompt = errors.New("the prompt is empty")

// noPrompt returns errNoPrompt with what to type, and the word that became the name of the worktree.
func (f *runFlags) noPrompt() error {
	if f.worktree != "" && f.worktree != anyWorktree {
		return engine.Usagef("knack -p --worktree="+plain.Line(f.worktree)+" 'your prompt'",
			"%w: %s is the NAME of --worktree", errNoPrompt, plain.Line(f.worktree))
	}
	return engine.Usagef("knack -p 'your prompt'", "%w", errNoPrompt)
}

// pipeWait is how long -p with a prompt waits for the first bytes of standard input. Programs that start it often leave
// a pipe open to which they never write.
const pipeWait = 3 * time.Second

// prompt returns the words of the command line, which the user typed, preceded by the text
// piped to standard input, which counts as not typed. If nothing comes through a pipe within wait, it goes on with the
// words alone, and without words it says what it waits for.
func prompt(stdin io.Reader, args []string, stderr io.Writer, wait time.Duration) (agent.Input, error) {
	words := strings.Join(args, " ")
	in := &firstRead{Reader: stdin, began: make(chan struct{})}
	type result struct {
		text string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := readPipe(stdin, in)
		read <- result{text, err}
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var got result
	select {
	case got = <-read:
	case <-in.began:
		got = <-read
	case <-timer.C:
		if words != "" {
			fmt.Fprintf(stderr, "knack: nothing came through standard input in %s: going on without it (</dev/null says so "+
				"at once)\n", wait)
			break
		}
		fmt.Fprintln(stderr, "knack: waiting for the prompt on standard input")
		got = <-read
	}
	piped, err := got.text, got.err
	if err != nil {
		return agent.Input{}, err
	}
	text := words
	if piped != "" {
		text = strings.TrimRight(piped, "\n")
		if words != "" {
			text += "\n\n" + words
		}
	}
	if strings.TrimSpace(text) == "" {
		return agent.Input{}, errNoPrompt
	}
	return agent.Input{Text: text, Typed: words}, nil
}

// readsTerminal reports whether nothing is piped in: standard input is a terminal, or empty
// (/dev/null).
func readsTerminal(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	return err != nil || fi.Mode()&os.ModeCharDevice != 0
}

// maxPipe is the maximum size of piped input in bytes.
const maxPipe = 10 << 20

// A firstRead closes began when the first bytes have come.
type firstRead struct {
	io.Reader
	once  sync.Once
	began chan struct{}
}

func (r *firstRead) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.once.Do(func() { close(r.began) })
	}
	return n, err
}

// readPipe reads standard input through in if it is a pipe or a file.
func readPipe(stdin, in io.Reader) (string, error) {
	if readsTerminal(stdin) {
		return "", nil
	}
	data, err := io.ReadAll(io.LimitReader(in, maxPipe+1))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if len(data) > maxPipe {
		return "", fmt.Errorf("standard input: more than %d MiB", maxPipe>>20)
	}
	return string(data), nil
}

// repeatedSignals is the time in which more signals have no effect after the first one, which still ends the commands
// that run. Programs on Node.js send SIGTERM twice within a millisecond.
const repeatedSignals = 2 * time.Second

// signals returns a context that the first SIGINT, SIGTERM or SIGHUP cancels. A signal that comes later
// than repeatedSignals after the first ends the program at once, even if commands are still running.
func signals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := func(why string, exit engine.ExitCode) { cancel(&engine.Error{Err: errors.New(why), Exit: exit}) }
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-ch:
			switch s {
			case os.Interrupt:
				end("interrupted", engine.ExitInterrupted)
			case syscall.SIGHUP:
				end("hung up", engine.ExitHungUp)
			default:
				end("terminated", engine.ExitTerminated)
			}
		case <-done:
			signal.Stop(ch)
			return
		}
		select {
		case <-time.After(repeatedSignals):
			signal.Stop(ch)
		case <-done: // the program ends; a repeated signal must not change its exit code
		}
	}()
	return ctx, func() {
		close(done)
		cancel(nil)
	}
}
