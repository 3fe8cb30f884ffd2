package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
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
	"github.com/knack-agent/knack/internal/line"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/tool"
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
	var text string
	switch f.inputFormat {
	case "text":
		var err error
		if text, err = prompt(c.InOrStdin(), args); err != nil {
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
	s, err := f.open(ctx, nil, nil, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer s.close()

	if f.inputFormat == "stream-json" {
		out.init(s.initLine())
		if err := s.startHooks(ctx, c.ErrOrStderr()); err != nil {
			return err
		}
		return notQuit(s.stream(ctx, c.InOrStdin(), out))
	}
	in, err := s.attach(ctx, text)
	if err != nil {
		return err
	}
	for _, a := range args {
		if path, ok := strings.CutPrefix(a, "@"); ok && path != "" && !slices.Contains(in.Touched, s.ws.Path(path)) {
			return engine.Usagef("ls "+plain.Line(filepath.Dir(path)), "%s: there is no such file to attach", plain.Line(path))
		}
	}
	out.init(s.initLine())
	if err := s.startHooks(ctx, c.ErrOrStderr()); err != nil {
		return err
	}
	return notQuit(s.turn(ctx, in, out))
}

// notQuit is the error but for /quit, which is none.
func notQuit(err error) error {
	if errors.Is(err, line.ErrQuit) {
		return nil
	}
	return err
}

// turn runs one user turn and shows it.
func (s *sessionRun) turn(ctx context.Context, in agent.Input, out output) error {
	end := &agent.End{}
	log := s.log
	for e, err := range s.agent.Run(ctx, s.log, in) {
		if errors.Is(err, line.ErrQuit) {
			out.end(nil)
			return err
		}
		if err != nil {
			out.end(err)
			return s.explain(err)
		}
		out.event(e)
		if e.End != nil {
			end = e.End
		}
	}
	if s.log != log { // a command has opened another session
		out.init(s.initLine())
	}
	out.end(nil)
	return s.outcome(ctx, end)
}

// stream runs a user turn for each line of structured input. A line that
// cannot be read ends it; one that is refused, such as a command that is
// mistyped, has its result line and is the error of the whole.
func (s *sessionRun) stream(ctx context.Context, stdin io.Reader, out output) error {
	lines := make(chan []byte)
	var broken error // of stdin, once lines is closed
	go func() {      // which lives as long as somebody may still write
		defer close(lines)
		sc := bufio.NewScanner(stdin)
		sc.Buffer(nil, maxPipe)
		for sc.Scan() {
			select {
			case lines <- bytes.Clone(sc.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		broken = sc.Err()
	}()
	var refused error // the first that was, with nothing recorded: the session goes on
	for n := 1; ; n++ {
		var text []byte
		ok := false
		select {
		case text, ok = <-lines:
		case <-ctx.Done():
			return s.outcome(ctx, &agent.End{Reason: "cancelled"})
		}
		if !ok {
			if broken != nil {
				return fmt.Errorf("line %d of the input: %w", n, broken)
			}
			return refused
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		in, err := readInput(text)
		if err != nil {
			err = &engine.Error{Err: fmt.Errorf("line %d of the input: %w", n, err), Hint: `{"type":"user","message":{"role":"user","content":"your prompt"}}`, Exit: engine.ExitUsage}
			out.end(err)
			return err
		}
		log, last := s.log, s.log.Last()
		err = s.turn(ctx, in, out)
		switch {
		case errors.Is(err, line.ErrQuit):
			return cmp.Or(refused, err)
		case err != nil && ctx.Err() == nil && s.log == log && log.Last() == last:
			refused = cmp.Or(refused, err)
		case err != nil:
			return err
		}
	}
}

// readInput reads a line of structured input: what a person says, as text or
// as blocks of text and images.
func readInput(line []byte) (agent.Input, error) {
	var m struct {
		Type    string `json:"type"`
		Message struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"message"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return agent.Input{}, err
	}
	if m.Type != "user" {
		return agent.Input{}, fmt.Errorf("type is %q, not user", m.Type)
	}
	var in agent.Input
	if json.Unmarshal(m.Message.Content, &in.Text) == nil {
		if strings.TrimSpace(in.Text) == "" {
			return in, errors.New("message.content is empty")
		}
		return in, nil
	}
	var content []block
	if err := json.Unmarshal(m.Message.Content, &content); err != nil {
		return in, fmt.Errorf("message.content is neither a string nor a list of blocks: %w", err)
	}
	for i, b := range content {
		switch {
		case b.Type == "text" && i == 0:
			in.Text = b.Text
		case b.Type == "text":
			in.Parts = append(in.Parts, llm.Text(b.Text))
		case (b.Type == "image" || b.Type == "document") && b.Source != nil && b.Source.Type == "base64":
			in.Parts = append(in.Parts, llm.Part{Media: &llm.Media{MIME: b.Source.MIME, Data: b.Source.Data}})
		default:
			return in, fmt.Errorf("message.content[%d]: a block of type %q cannot be sent", i, b.Type)
		}
	}
	if in.Text == "" && len(in.Parts) == 0 {
		return in, errors.New("message.content is empty")
	}
	return in, nil
}

// attach reads the files that a prompt names as @path, as the read tool would
// show them. A word with @ that names no file is a word.
func (s *sessionRun) attach(ctx context.Context, text string) (agent.Input, error) {
	in := agent.Input{Text: text}
	if !strings.Contains(text, "@") {
		return in, nil
	}
	for _, word := range strings.Fields(text) {
		path, ok := strings.CutPrefix(word, "@")
		if !ok || path == "" || slices.Contains(in.Touched, s.ws.Path(path)) {
			continue
		}
		isFile := func(path string) bool {
			info, err := s.ws.Stat(ctx, path)
			return err == nil && info.Mode().IsRegular()
		}
		if !isFile(path) {
			path = strings.TrimRight(path, ",.;:!?)") // the sentence's, not the file's
		}
		if path == "" || !isFile(path) || slices.Contains(in.Touched, s.ws.Path(path)) {
			continue
		}
		input, err := json.Marshal(map[string]string{"path": s.ws.Path(path)})
		if err != nil {
			return in, err
		}
		res := tool.Call(ctx, s.files, llm.ToolCall{Name: "read", Input: input}, tool.AllowAll, nil)
		if res.IsError {
			return in, fmt.Errorf("%s cannot be attached: %s", path, res.Parts[0].Text)
		}
		for _, p := range res.Parts {
			if p.Media == nil {
				p = llm.Text(fmt.Sprintf("<file path=\"%s\">\n%s\n</file>", html.EscapeString(path), p.Text))
			}
			in.Parts = append(in.Parts, p)
		}
		in.Touched = append(in.Touched, s.ws.Path(path))
	}
	return in, nil
}

// outcome makes of how a run ended an exit code.
func (s *sessionRun) outcome(ctx context.Context, end *agent.End) error {
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
		return stoppedBy(end.Why)
	}
	return nil
}

// prompt is the words of the command line, with what was piped in before them.
func prompt(stdin io.Reader, args []string) (string, error) {
	words := strings.Join(args, " ")
	piped, err := readPipe(stdin)
	if err != nil {
		return "", err
	}
	text := words
	if piped != "" {
		text = strings.TrimRight(piped, "\n")
		if words != "" {
			text += "\n\n" + words
		}
	}
	if strings.TrimSpace(text) == "" {
		return "", engine.Usagef("knack -p 'your prompt'", "there is no prompt")
	}
	return text, nil
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
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-ch:
			signal.Stop(ch)
			if s == syscall.SIGTERM {
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
