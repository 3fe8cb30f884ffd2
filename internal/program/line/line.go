// Package line is a line-based front end for a terminal: prompt, streamed answer, one line per
// call, and permission questions.
//
// [Front] is the entry point: its Talk method reads prompts until the user leaves, and it is
// the [engine.Person] of the session. All text from models, tools and files is escaped before
// it is shown.
package line

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A Front is a conversation with a user at a terminal.
type Front struct {
	In      *os.File // a terminal
	Out     io.Writer
	Color   bool
	History string // file name; "": no history is stored
	First   string // the next prompt, run without asking for one; "": none
	// Summary describes a call of a tool in one line of untrusted text. If it is nil, the
	// input is shown.
	Summary func(tool string, input json.RawMessage) string
	// Complete returns completions for a line that begins with a slash.
	Complete func(line string) []string
	// AtEnd returns a line to run when the user leaves with Ctrl-D; "" or nil: none.
	AtEnd func() string
	// Woken waits until something may begin a turn that the user did not ask for, and reports false if ctx ends first.
	// nil: nothing does.
	Woken func(ctx context.Context) bool
	// Hidden reports whether the next prompt may be a secret: then it is neither shown nor kept. nil: it never is.
	Hidden func() bool
	// Send passes a message of the user to the running turn.
	Send func(ctx context.Context, line string, when engine.When) (engine.Queued, error)

	screen     sync.Mutex // locked while something is shown or asked
	read       *reader
	stream     *answer                 // that arrives; nil: none
	calls      map[string]llm.ToolCall // calls without a result
	lastHeader string                  // ID of the call whose heading is the last line
	stop       func()                  // ends the current run
	userLeft   bool                    // the user has left
	quits      bool                    // a command during a turn ends the conversation
}

// ErrQuit ends Talk when it is returned by the function passed to Talk.
var ErrQuit = errors.New("quit")

// Talk reads prompts and calls do with each, until the user leaves or do returns ErrQuit. With "" it calls do when
// f.Woken reports something while the prompt is empty. Other errors of do are shown. While do runs, the first Ctrl-C
// asks for a message to the model; the second cancels.
func (f *Front) Talk(do func(ctx context.Context, line string) error) error {
	f.open()
	if f.History != "" {
		f.read.history.Load(f.History)
	}
	interrupts := 0
	for {
		line, err := f.First, error(nil)
		f.First = ""
		last, hidden := false, line == "" && f.Hidden != nil && f.Hidden()
		if line == "" {
			f.screen.Lock()
			line, err = f.prompt(hidden)
			if errors.Is(err, errLeft) && f.AtEnd != nil {
				if line = f.AtEnd(); line != "" {
					err, last = nil, true
					fmt.Fprintln(f.Out)
				}
			}
			if err != nil && !errors.Is(err, errWoken) && (interrupts == 1 || !errors.Is(err, errInterrupted)) {
				f.userLeft = true // an agent in the background may be waiting to ask
			}
			f.screen.Unlock()
		} else {
			f.read.history.Add(line)
		}
		switch {
		case errors.Is(err, errInterrupted):
			if interrupts++; interrupts == 2 {
				return nil
			}
			f.Print("Ctrl-C again, or Ctrl-D, exits.")
			continue
		case errors.Is(err, errWoken):
			if err := f.interruptible("", do); errors.Is(err, ErrQuit) {
				return nil
			} else if err != nil {
				f.label(red, "error: ", err.Error())
			}
			continue
		case errors.Is(err, io.EOF):
			f.Print("")
			return nil
		case err != nil:
			return err
		}
		interrupts = 0
		if strings.TrimSpace(line) == "" {
			continue
		}
		if last {
			if err := f.interruptible(line, do); err != nil && !errors.Is(err, ErrQuit) {
				f.label(red, "error: ", err.Error())
			}
			return nil
		}
		if hidden {
			// Nothing of it is kept.
		} else if err := f.read.history.Save(f.History, len(f.read.history.All())-1); err != nil {
			f.Print("the history could not be kept: " + err.Error())
			f.History = ""
		}
		err = f.interruptible(line, do)
		if errors.Is(err, ErrQuit) {
			return nil
		}
		if err != nil {
			f.label(red, "error: ", err.Error())
		}
	}
}

// prompt reads the next line of the user. The error is errWoken if f.Woken reports something first.
func (f *Front) prompt(hidden bool) (string, error) {
	prompt := f.paint(bold, "> ")
	if hidden {
		prompt = f.paint(bold, "yes or no (not shown) > ")
	}
	if f.Woken == nil {
		return f.read.read(prompt, !hidden, hidden)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	woken := make(chan struct{})
	go func() {
		if f.Woken(ctx) {
			close(woken)
		}
	}()
	f.read.woken = woken
	defer func() { f.read.woken = nil }()
	return f.read.read(prompt, !hidden, hidden)
}

// interruptible runs do and handles Ctrl-C meanwhile.
func (f *Front) interruptible(line string, do func(context.Context, string) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	f.screen.Lock()
	f.stop = cancel
	f.screen.Unlock()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-signals:
			}
			if !f.steer(ctx) {
				cancel()
				return
			}
		}
	})
	err := do(ctx, line)
	signal.Stop(signals)
	close(done)
	cancel()
	wg.Wait()
	if f.quits {
		return ErrQuit
	}
	return err
}

// steer asks for a message to the model. It returns false if the user wants to stop instead.
func (f *Front) steer(ctx context.Context) bool {
	f.screen.Lock()
	defer f.screen.Unlock()
	if ctx.Err() != nil {
		return false
	}
	f.endAnswer()
	s, err := f.read.line(f.paint(bold, "Message to the model (Enter to continue, Ctrl-C to stop) > "), false)
	if err != nil {
		return false
	}
	if strings.TrimSpace(s) != "" {
		q, err := f.Send(ctx, s, engine.Next)
		if errors.Is(err, engine.ErrCommandWaits) {
			fmt.Fprintln(f.Out, f.paint(dim, "("+plain.Line(err.Error())+")"))
			q, err = f.Send(ctx, s, engine.Later)
		}
		f.queued(q, err)
		f.quits = q.Reply != nil && q.Reply.Quit
	}
	return !f.quits
}

// queued shows the result of a message that was sent during a run.
func (f *Front) queued(q engine.Queued, err error) {
	switch {
	case err != nil:
		fmt.Fprintln(f.Out, f.paint(dim, "("+plain.Line(err.Error())+")"))
	case q.Reply != nil:
		f.text(q.Reply.String())
	}
}

// answer reads the answer to a question. Ctrl-C stops the whole run, not only the call.
func (f *Front) answer(prompt string) (string, error) {
	s, err := f.read.line(prompt, false)
	if errors.Is(err, errInterrupted) && f.stop != nil { // nil: no turn has begun
		f.stop()
	}
	return s, err
}

// open creates the reader before the first question or prompt.
func (f *Front) open() {
	if f.read == nil {
		f.read = newReader(f.In, f.Out, f.Complete)
	}
}

// lockScreen locks the screen and reports true. If the user has left, it waits until ctx is done,
// which happens soon, and reports false.
func (f *Front) lockScreen(ctx context.Context) bool {
	f.screen.Lock()
	if !f.userLeft {
		return true
	}
	f.screen.Unlock()
	<-ctx.Done()
	return false
}

// Print shows a line of our own text.
func (f *Front) Print(s string) {
	f.screen.Lock()
	defer f.screen.Unlock()
	f.endAnswer()
	if f.In == nil {
		fmt.Fprintln(f.Out, s)
		return
	}
	f.text(s)
}

// label shows a text of others after a coloured label.
func (f *Front) label(c color, label, text string) {
	f.screen.Lock()
	defer f.screen.Unlock()
	f.endAnswer()
	io.WriteString(f.Out, f.paint(c, label))
	if f.In == nil {
		fmt.Fprintln(f.Out, plain.Text(text))
		return
	}
	f.print(wrap(text, f.columns()-len(label))...)
}

// Event shows an event of a run.
func (f *Front) Event(e engine.Event) {
	f.screen.Lock()
	defer f.screen.Unlock()
	switch {
	case e.Agent != nil:
		f.sub(e)
	case e.Text != "":
		f.lastHeader = ""
		f.arrives(e.Text)
	case e.Call != nil:
		f.endAnswer()
		fmt.Fprintf(f.Out, "%s %s\n", f.paint(dim, "•"), f.call(e.Call))
		if f.calls == nil {
			f.calls = map[string]llm.ToolCall{}
		}
		f.calls[e.Call.ID], f.lastHeader = *e.Call, e.Call.ID
	case e.Retry != nil:
		f.endAnswer()
		fmt.Fprintf(f.Out, "%s\n", f.retryText(e.Retry))
	case e.Reply != nil:
		f.endAnswer()
		if text := e.Reply.String(); text != "" {
			f.text(text)
		}
	case e.Entry != nil:
		f.entry(e.Entry)
	case e.End != nil && e.End.Requests == 0 && e.End.Reason == session.EndDone:
		f.endAnswer() // a command, whose reply was shown
	case e.End != nil:
		f.endAnswer()
		if e.End.Reason != session.EndDone && e.End.Reason != session.EndTerminated {
			why := string(e.End.Reason)
			if e.End.Why != "" {
				why += ": " + plain.Line(e.End.Why)
			}
			fmt.Fprintln(f.Out, f.paint(dim, "("+why+")"))
		}
		fmt.Fprintln(f.Out, f.paint(dim, f.total(e.End)))
	}
}

func (f *Front) retryText(r *agent.Retrying) string {
	return f.paint(dim, "("+strings.TrimSuffix(show.Retry(r, 0), ".")+".)")
}

// agent shows that a sub-agent has started or ended, and its answer unless the result of a
// call shows it.
func (f *Front) agent(a *session.Agent) {
	f.endAnswer()
	if a.Reason == "" {
		fmt.Fprintf(f.Out, "%s %s\n", f.paint(dim, "•"), plain.Line(a.Line()))
		return
	}
	fmt.Fprintln(f.Out, f.paint(dim, fmt.Sprintf("(%s; session %s)", plain.Line(a.Line()), plain.Line(a.Log))))
	if a.Call == "" || a.Background {
		f.answered(a.Result)
	}
}

func (f *Front) total(e *agent.End) string {
	u := e.Usage
	s := fmt.Sprintf("%s, %d tokens in (%d from cache), %d out", plain.Count(e.Requests, "request"),
		u.Input+u.CacheRead+u.CacheWrite, u.CacheRead, u.Output)
	if e.Cost > 0 {
		s += fmt.Sprintf(", $%.4f", e.Cost)
	}
	return s
}

func (f *Front) entry(e *session.Entry) {
	switch {
	case e.User != nil && e.User.Typed != "" && len(e.User.Parts) > 0:
		f.endAnswer()
		text := e.User.Parts[0].Text
		fmt.Fprintln(f.Out, f.paint(dim, fmt.Sprintf("(sent to the model: %s, %d tokens)",
			plain.Line(clip(strings.Join(strings.Fields(text), " "), 100)), (len(text)+3)/4)))
	case e.Answer != nil:
		f.endAnswer()
	case e.Result != nil:
		f.endAnswer()
		if c, ok := f.calls[e.Result.ID]; ok && f.lastHeader != c.ID { // other calls began or ended in between
			fmt.Fprintf(f.Out, "%s %s\n", f.paint(dim, "result of"), f.call(&c))
		}
		delete(f.calls, e.Result.ID)
		f.lastHeader = ""
		f.result(e.Result)
	case e.Activation != nil:
		f.endAnswer()
		a := e.Activation
		line := fmt.Sprintf("skill %s", plain.Line(a.Notice))
		if allowed := show.Allowed(a); allowed != "" {
			line += ", allows " + allowed
		}
		if a.Sandbox != nil {
			line += ", commands: " + plain.Line(a.Sandbox.String())
		}
		fmt.Fprintf(f.Out, "%s %s\n", f.paint(dim, "•"), fmt.Sprintf("%s (%d tokens)", line, a.Tokens))
		for _, p := range a.Problems {
			fmt.Fprintln(f.Out, f.paint(dim, "  "+plain.Line(p.String())))
		}
	case e.Release != nil:
		f.endAnswer()
		fmt.Fprintln(f.Out, f.paint(dim, fmt.Sprintf("(skill %s released: %s)", plain.Line(e.Release.Skill),
			plain.Line(e.Release.Reason))))
	case e.Agent != nil:
		f.agent(e.Agent)
	case e.Compaction != nil:
		f.endAnswer()
		fmt.Fprintln(f.Out, f.paint(dim, "("+plain.Line(e.Compaction.Line())+")"))
	case e.Note != nil && e.Note.People != "":
		f.endAnswer()
		fmt.Fprintln(f.Out, f.paint(dim, "("+plain.Line(e.Note.People)+")"))
	}
}

func (f *Front) summary(c *llm.ToolCall) string {
	if f.Summary == nil {
		return string(c.Input)
	}
	return f.Summary(c.Name, c.Input)
}

// call returns the line for a call: the tool and its input.
func (f *Front) call(c *llm.ToolCall) string {
	return f.paint(bold, show.Tool(c.Name)) + " " + plain.Line(clip(f.summary(c), 160))
}

// columns returns the width of the terminal in columns, or 80 if it is unknown.
func (f *Front) columns() int {
	width, _ := f.size()
	return width
}

// size returns the size of the terminal in columns and rows, or 80 by 24 if it is unknown.
func (f *Front) size() (width, height int) {
	width, height = 80, 24
	if f.In == nil { // no terminal: lines are not broken
		return 1 << 20, height
	}
	if w, h, err := term.GetSize(int(f.In.Fd())); err == nil && w > 0 && h > 0 {
		width, height = w, h
	}
	return width, height
}

// clip cuts a line at a rune boundary.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

type color string

const (
	none   color = ""
	bold   color = "1"
	dim    color = "2"
	red    color = "31"
	yellow color = "33"
)

func (f *Front) paint(c color, s string) string {
	if !f.Color || c == none || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}
