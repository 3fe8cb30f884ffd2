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
	"syscall"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
)

// print runs one prompt and leaves, `knack -p`; or, with structured input, one
// after the other.
func (f *runFlags) print(c *cobra.Command, args []string) error {
	var out output
	switch f.outputFormat {
	case "text":
		out = &textOutput{w: c.OutOrStdout(), errs: c.ErrOrStderr()}
	case "json", "stream-json":
		out = newJSONOutput(c.OutOrStdout(), f.outputFormat == "stream-json", f.partial)
	default:
		return engine.Usagef("--output-format text, json or stream-json", "--output-format %s: unknown format", f.outputFormat)
	}
	var in agent.Input
	switch f.inputFormat {
	case "text":
		var err error
		if in, err = prompt(c.InOrStdin(), args); err != nil {
			return err
		}
	case "stream-json":
		if len(args) > 0 {
			return engine.Usagef("pipe lines of JSON into knack -p --input-format stream-json", "a prompt and structured input cannot be given together")
		}
	default:
		return engine.Usagef("--input-format text or stream-json", "--input-format %s: unknown format", f.inputFormat)
	}
	ctx, stop := signals(c.Context())
	defer stop()
	e, err := f.open(ctx, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer e.Close()
	var schema *answerSchema
	if f.jsonSchema != "" {
		if schema, err = readSchema(f.jsonSchema); err != nil {
			return err
		}
		f.appendPrompt = append(f.appendPrompt, schema.prompt())
	}
	s, err := f.start(ctx, e, nil, c.ErrOrStderr())
	if err != nil {
		return err
	}
	p := &printer{schema: schema, session: s, out: &sharedOutput{output: out}, stderr: c.ErrOrStderr(), notices: notices{w: c.ErrOrStderr()}}
	if f.inputFormat == "stream-json" {
		if err := p.begin(ctx); err != nil {
			return err
		}
		go e.Watch(ctx)
		return p.stream(ctx, c.InOrStdin())
	}
	if in, err = s.Attach(ctx, in); err != nil {
		return err
	}
	for _, a := range args {
		if path, ok := strings.CutPrefix(a, "@"); ok && path != "" && !slices.Contains(in.Touched, s.Path(path)) {
			return engine.Usagef("ls "+plain.Line(filepath.Dir(path)), "%s: there is no such file to attach", plain.Line(path))
		}
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	return p.turn(ctx, in)
}

// A printer runs turns and prints them. A command may replace its session.
type printer struct {
	session *engine.Session
	out     output
	stderr  io.Writer
	notices notices
	quit    bool
	schema  *answerSchema // nil: any answer will do
}

// begin shows the session, and tells its hooks that it starts.
func (p *printer) begin(ctx context.Context) error {
	p.out.begin(ctx, p.session)
	for e, err := range p.session.Begin(ctx) {
		if err != nil {
			return err
		}
		p.out.event(e)
	}
	return nil
}

// turn runs one user turn and shows it. An answer that does not match the schema
// is asked for once more.
func (p *printer) turn(ctx context.Context, in agent.Input) error {
	return p.try(ctx, in, p.schema != nil)
}

func (p *printer) try(ctx context.Context, in agent.Input, again bool) error {
	s := p.session
	defer p.notices.print(s.Engine())
	var end *agent.End
	var next *engine.Session
	var failed, denied bool // of the offline model: a procedure failed, and what it called was refused
	for e, err := range s.Run(ctx, in) {
		if err != nil {
			p.out.end(err)
			return err
		}
		p.notices.print(s.Engine())
		if end != nil { // a message that came meanwhile has a turn of its own
			p.out.end(nil)
			end = nil
		}
		p.out.event(e)
		if e.Entry != nil && e.Agent == nil {
			failed = failed || e.Entry.Answer != nil && e.Entry.Answer.Stop == llm.Failed
			denied = denied || e.Entry.Decision != nil && e.Entry.Decision.By.Verdict != permission.Allow
		}
		if e.End != nil {
			end = e.End
		}
		if e.Reply != nil {
			next, p.quit = e.Reply.Next, e.Reply.Quit
		}
	}
	if next != nil {
		if err := s.Close(); err != nil {
			return err
		}
		p.session = next
		if err := p.begin(ctx); err != nil {
			return err
		}
	}
	if p.schema != nil && next == nil && end != nil && end.Reason == "done" && end.Requests > 0 {
		value, err := p.schema.check(end.Text)
		switch {
		case err == nil:
			p.out.structured(value)
		case again:
			return p.try(ctx, agent.Text(p.schema.again(err)), false)
		default:
			err = fmt.Errorf("%w: %w", errSchema, err)
			p.out.end(err)
			return &engine.Error{Err: err}
		}
	}
	p.out.end(nil)
	if end == nil {
		end = &agent.End{}
	}
	switch {
	case failed && denied:
		return &engine.Error{Err: errors.New("the procedure was refused"), Hint: "knack help permissions", Exit: engine.ExitRefused}
	case failed:
		return &engine.Error{Err: errors.New("the procedure failed")}
	}
	return outcome(ctx, end)
}

// outcome makes of how a run ended an exit code.
func outcome(ctx context.Context, end *agent.End) error {
	switch end.Reason {
	case "cancelled":
		var sig signalError
		if errors.As(context.Cause(ctx), &sig) {
			return &engine.Error{Err: sig, Exit: sig.code}
		}
		return &engine.Error{Err: errors.New("interrupted"), Exit: engine.ExitInterrupted}
	case "limit":
		return &engine.Error{Err: errors.New("the run was stopped: " + end.Why), Hint: "knack -c -p 'go on'"}
	case "stopped":
		return engine.Stopped(end.Why)
	}
	return nil
}

// prompt is the words of the command line, which the user typed, with what was
// piped in before them, which nobody did.
func prompt(stdin io.Reader, args []string) (agent.Input, error) {
	words := strings.Join(args, " ")
	piped, err := readPipe(stdin)
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
		return agent.Input{}, engine.Usagef("knack -p 'your prompt'", "the prompt is empty")
	}
	return agent.Input{Text: text, Typed: words}, nil
}

// readsTerminal reports whether nothing is piped in: a terminal, or no
// standard input at all (/dev/null).
func readsTerminal(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	return err != nil || fi.Mode()&os.ModeCharDevice != 0
}

// maxPipe bounds what is read of a pipe.
const maxPipe = 10 << 20

// readPipe reads standard input where it is a pipe or a file.
func readPipe(stdin io.Reader) (string, error) {
	if readsTerminal(stdin) {
		return "", nil
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxPipe+1))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if len(data) > maxPipe {
		return "", fmt.Errorf("standard input: more than %d MiB", maxPipe>>20)
	}
	return string(data), nil
}

// signalError is why a run was cancelled.
type signalError struct {
	name string
	code engine.Exit
}

func (e signalError) Error() string { return e.name }

// signals cancels the context on SIGINT and SIGTERM. The second of them ends
// the program at once.
func signals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-ch:
			signal.Stop(ch)
			if s != os.Interrupt {
				cancel(signalError{"terminated", engine.ExitTerminated})
			} else {
				cancel(signalError{"interrupted", engine.ExitInterrupted})
			}
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(done)
		cancel(nil)
	}
}
