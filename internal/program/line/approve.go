package line

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/gate"
)

// errDeclined means that the user declined before reading all pages.
var errDeclined = errors.New("declined")

// approve asks whether a call may run. The whole request is shown, page by page, before the
// user can allow it.
func (f *Front) approve(ctx context.Context, q engine.Question) (engine.Answer, error) {
	r := q.Call
	switch err := f.pages(ctx, f.request(&q)); {
	case errors.Is(err, errDeclined):
		return engine.Answer{Declined: true}, nil
	case err != nil:
		return engine.Answer{}, err
	}
	rules := plain.Line(strings.Join(r.ShownRules(), ", "))
	letters := map[string]string{}
	var numbers []string // of the choices, in the order in which they are shown; no is the last
	for _, o := range q.Options {
		switch {
		case o.ID == engine.OptionEdits:
			letters["e"], numbers = o.ID, append(numbers, o.ID)
			fmt.Fprintf(f.Out, "  %s %s\n", f.paint(bold, "e"), o.Label)
		case o.Lasts == gate.Once:
			letters["y"], numbers = o.ID, append(numbers, o.ID)
			fmt.Fprintf(f.Out, "  %s yes, this once\n", f.paint(bold, "y"))
		case o.Lasts == gate.Session:
			letters["s"], numbers = o.ID, append(numbers, o.ID)
			fmt.Fprintf(f.Out, "  %s %s: %s\n", f.paint(bold, "s"), o.Label, rules)
		case o.Lasts == gate.Always:
			letters["a"], numbers = o.ID, append(numbers, o.ID)
			fmt.Fprintf(f.Out, "  %s %s: %s\n", f.paint(bold, "a"), o.Label, rules)
		}
	}
	fmt.Fprintf(f.Out, "  %s no    %s no, because …\n", f.paint(bold, "n"), f.paint(bold, "n why"))
	for {
		if ctx.Err() != nil {
			return engine.Answer{}, context.Cause(ctx)
		}
		s, err := f.answer("  ? ")
		if err != nil {
			return engine.Answer{}, err
		}
		if a, ok := chosen(s, letters, numbers); ok {
			return a, nil
		}
		fmt.Fprintln(f.Out, "  Please type one of the letters above, or the number of its choice.")
	}
}

// chosen returns the answer that a typed line means: a letter or a number of the choices that are shown, or no with a
// reason. numbers are the choices in their order; the last number is no.
func chosen(line string, letters map[string]string, numbers []string) (a engine.Answer, ok bool) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(word)
	numbered := err == nil && n >= 1 && n <= len(numbers)
	switch {
	case word == "n" || word == "no" || err == nil && n == len(numbers)+1:
		return engine.Answer{Declined: true, Reason: strings.TrimSpace(rest)}, true
	case rest != "":
	case numbered:
		return engine.Answer{Option: numbers[n-1]}, true
	case letters[word] != "":
		return engine.Answer{Option: letters[word]}, true
	}
	return engine.Answer{}, false
}

// request returns everything about a question that the user must see before answering.
func (f *Front) request(q *engine.Question) []styled.Line {
	width := max(f.columns(), 20)
	lines := styled.Wrap(show.Title(q), width, nil, styled.S(styled.Text, "  "))
	indent := styled.S(styled.Text, "    ")
	body, _ := show.Body(q, width-indent.Width(), 0, "")
	for _, d := range q.Documents {
		body = append(body, nil)
		body = append(body, styled.Wrap(styled.S(styled.Bold, plain.Line(d.Title)), width-indent.Width(), nil, nil)...)
		for l := range strings.SplitSeq(strings.TrimRight(d.Text, "\n"), "\n") {
			body = append(body, styled.Wrap(styled.S(styled.Text, show.Line(l)), width-indent.Width(), nil, nil)...)
		}
	}
	for _, l := range body {
		lines = append(lines, append(indent[:1:1], l...))
	}
	return lines
}

// pages shows lines one page at a time. The last lines of a page stay visible above the next
// one.
func (f *Front) pages(ctx context.Context, lines []styled.Line) error {
	_, height := f.size()
	page := max(4, height-6) // leave rows for the choices and the prompt after the last page
	for at := 0; at < len(lines); {
		end := min(len(lines), at+page)
		if at > 0 { // Enter pressed once more skips no page, and answers nothing
			f.read.discard()
		}
		f.print(lines[at:end]...)
		at = end
		if at == len(lines) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s, err := f.answer(fmt.Sprintf("  (%d of %d lines; Enter, all or n) ", at, len(lines)))
		if err != nil {
			return err
		}
		switch strings.ToLower(strings.TrimSpace(s)) {
		case "n", "no":
			return errDeclined
		case "all":
			page = len(lines)
		}
	}
	return nil
}
