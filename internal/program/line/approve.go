package line

import (
	"context"
	"errors"
	"fmt"
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
	f.read.discard()
	switch err := f.pages(ctx, f.request(&q)); {
	case errors.Is(err, errDeclined):
		return engine.Answer{Declined: true}, nil
	case err != nil:
		return engine.Answer{}, err
	}
	rules := plain.Line(strings.Join(r.ShownRules(), ", "))
	letters := map[string]string{}
	for _, o := range q.Options {
		switch {
		case o.ID == engine.OptionEdits:
			letters["e"] = o.ID
			fmt.Fprintf(f.Out, "  %s %s\n", f.paint(bold, "e"), o.Label)
		case o.Lasts == gate.Once:
			letters["y"] = o.ID
			fmt.Fprintf(f.Out, "  %s yes, this once\n", f.paint(bold, "y"))
		case o.Lasts == gate.Session:
			letters["s"] = o.ID
			fmt.Fprintf(f.Out, "  %s %s: %s\n", f.paint(bold, "s"), o.Label, rules)
		case o.Lasts == gate.Always:
			letters["a"] = o.ID
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
		word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
		if word == "n" || word == "no" {
			return engine.Answer{Declined: true, Reason: strings.TrimSpace(rest)}, nil
		}
		if c, ok := letters[word]; ok && rest == "" {
			return engine.Answer{Option: c}, nil
		}
		fmt.Fprintln(f.Out, "  Please type one of the letters above.")
	}
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
