package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/control"
	"github.com/knack-agent/knack/run/llm"
)

// textOutput prints the output of commands and the last answer to stdout. Messages of hooks,
// problems of skills and retries go to errs.
type textOutput struct {
	mu      sync.Mutex
	w, errs io.Writer
	project *engine.Project
	known   *knownWarnings // nil: none, everything is printed
	text    string
}

func (o *textOutput) Begin(_ context.Context, s *engine.Session) { o.project = s.Engine().Project() }

func (o *textOutput) Event(e engine.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Reply != nil {
		if text := e.Reply.String(); text != "" {
			fmt.Fprintln(o.w, plain.Text(text))
		}
	}
	if e.Entry != nil && e.Entry.Activation != nil {
		for _, p := range e.Entry.Activation.Problems {
			printProblem(o.errs, o.project, p)
		}
	}
	if e.Entry != nil && e.Entry.Note != nil {
		for _, p := range e.Entry.Note.Problems {
			printProblem(o.errs, o.project, p)
		}
	}
	printRetry(o.errs, e)
	printWarns(o.errs, e)
	if e.Entry != nil && e.Entry.Note != nil && e.Entry.Note.Hook != "" && e.Entry.Note.People != "" {
		if note := e.Entry.Note; o.known == nil || !o.known.ofHook(note) {
			fmt.Fprintln(o.errs, "knack: hook:", plain.Line(note.People))
		}
	}
	if e.Entry != nil && e.Agent == nil && e.Entry.Answer != nil && e.Entry.Answer.Partial {
		o.text = llm.TextOf(e.Entry.Answer.Message.Parts) // after an error, no End follows
	}
	if e.End != nil {
		o.text = e.End.Text
	}
}

// printWarns prints what a note warns of, such as secrets of a skill that are missing.
func printWarns(w io.Writer, e engine.Event) {
	if e.Entry != nil && e.Entry.Note != nil && e.Entry.Note.Warns {
		fmt.Fprintln(w, "knack: warn:", plain.Line(e.Entry.Note.People))
	}
}

// A steadyOutput calls steadyGC with the first answer: until a request is under way, a garbage collection
// would delay it.
type steadyOutput struct {
	control.Output
	once sync.Once
}

func (o *steadyOutput) Event(e engine.Event) {
	if e.Entry != nil && e.Entry.Answer != nil {
		o.once.Do(steadyGC)
	}
	o.Output.Event(e)
}

// printRetry shows the wait before another attempt to reach a model.
func printRetry(w io.Writer, e engine.Event) {
	if r := e.Retry; r != nil {
		wait := ""
		switch {
		case r.Model != "":
			wait = " with " + r.Model
		case r.Wait > 0:
			wait = fmt.Sprintf(" in %s", r.Wait.Round(100*time.Millisecond))
		}
		fmt.Fprintf(w, "knack: retry %d%s: %s\n", r.Attempt, wait, plain.Line(r.Err.Error()))
	}
}

// jsonOutput prints one result at the end; while the run lasts, it prints retries and what notes warn of to errs.
type jsonOutput struct {
	control.Output
	errs io.Writer
}

func (o jsonOutput) Event(e engine.Event) {
	printRetry(o.errs, e)
	printWarns(o.errs, e)
	o.Output.Event(e)
}

func (o *textOutput) End(error) { o.flush() }

// flush prints the answer.
func (o *textOutput) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text != "" {
		// A pipe gets the answer exactly as the model wrote it; the writer of a terminal escapes it.
		fmt.Fprintln(o.w, strings.TrimRight(o.text, "\n"))
	}
	o.text = ""
}

func (o *textOutput) BadLine(number int, field string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if field != "" {
		field += ": "
	}
	fmt.Fprintf(o.errs, "knack: warn: line %d of the input: %s%s\n", number, field, plain.Line(err.Error()))
}

func (o *textOutput) Queued(int) {}

func (o *textOutput) Structured(value json.RawMessage) { o.text = string(value) }
