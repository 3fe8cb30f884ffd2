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
	var out control.Output
	var messages *control.Messages // input of stream-json
	switch f.outputFormat {
	case "text":
		out = &textOutput{w: c.OutOrStdout(), errs: c.ErrOrStderr()}
	case "json":
		out = jsonOutput{control.NewMessages(c.OutOrStdout(), false), c.ErrOrStderr()}
	case "stream-json":
		messages = control.NewMessages(c.OutOrStdout(), true)
		messages.Partial, messages.HookEvents = f.partial, f.hookEvents
		if f.mirror {
			messages.SetMirror(claudeDir())
			f.imported = messages.MirrorAfter
		}
		out = messages
	default:
		return engine.Usagef("--output-format text, json or stream-json", "--output-format %s: unknown format",
			f.outputFormat)
	}
	var in agent.Input
	args = f.goalAsPrompt(args)
	switch f.inputFormat {
	case "text":
		var err error
		if in, err = prompt(c.InOrStdin(), args, c.ErrOrStderr(), pipeWait); errors.Is(err, errNoPrompt) {
			return f.noPrompt()
		} else if err != nil {
			return err
		}
	case "stream-json":
		if len(args) > 0 {
			return engine.Usagef("pipe lines of JSON into knack -p --input-format stream-json",
				"a prompt and structured input cannot be given together")
		}
	default:
		return engine.Usagef("--input-format text or stream-json", "--input-format %s: unknown format", f.inputFormat)
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
		go e.Watch(ctx)
		var stdout *os.File
		if w, ok := c.OutOrStdout().(*resultWriter); ok {
			stdout, _ = w.w.(*os.File)
		}
		return control.Serve(ctx, control.Options{
			In: c.InOrStdin(), Out: out, Stdout: stdout, Messages: messages, Schema: schema, Show: shown.print,
			Prompts: f.permissionPrompt == "stdio", Unattended: f.permissionPrompts == "none", Replay: f.replay,
			MaySave: f.hostMaySave, Timeout: f.hostTimeout, Agree: e.Unread.Ask,
			Start: func(ctx context.Context, person engine.Person, edit func(*engine.SessionOptions)) (*engine.Session, error) {
				return f.start(ctx, e, person, edit, c.ErrOrStderr())
			},
		})
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
	if f.outputFormat == "text" { // the others have them in their result
		fmt.Fprint(c.ErrOrStderr(), refusedLine(r.Report.Refused)+blockedLines(r.Report.Blocked))
	}
	if g := goal.Of(s); err == nil && g != nil && r.Report.Requests > 0 {
		err = g.Err(before)
	}
	jobs.close(c.ErrOrStderr())
	if !f.noSession && f.outputFormat == "text" && undo.Of(s).ChangedSince(before+1) {
		fmt.Fprintf(c.ErrOrStderr(), "knack: files were changed: knack session restore %s takes that back\n", s.Log().ID())
	}
	if n := len(r.Report.Refused); err == nil && f.exitRefused && n > 0 {
		err = &engine.Error{Err: errSilent{}, Exit: engine.ExitRefused} // refusedLine has said it
		if f.outputFormat != "text" {
			err = &engine.Error{Err: errors.New(plain.Count(n, "call") + " refused"), Exit: engine.ExitRefused}
		}
	}
	if ctx.Err() == nil {
		unanswered := s.MCP().Unanswered() // before print: a server that fails meanwhile is in one of both
		shown.printWith(e, unanswered)
	}
	return err
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
