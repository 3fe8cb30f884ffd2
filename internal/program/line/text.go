package line

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/session"
)

// An answer is one that arrives in pieces.
type answer struct{ markdown.Stream }

// arrives shows a piece of the answer, as far as its paragraphs are complete.
func (f *Front) arrives(text string) {
	if f.In == nil { // what is printed to a file stays Markdown
		io.WriteString(f.Out, plain.Text(text))
		return
	}
	if f.stream == nil {
		f.stream = &answer{}
	}
	f.stream.Write(text)
	f.print(f.stream.Take(f.columns())...)
}

// endAnswer shows the rest of the answer that arrived, if there is one.
func (f *Front) endAnswer() {
	if f.stream != nil {
		f.stream.Close()
		f.print(f.stream.Take(f.columns())...)
		f.stream = nil
	}
}

// answered shows a whole answer.
func (f *Front) answered(text string) {
	if f.In == nil {
		fmt.Fprintln(f.Out, plain.Text(text))
		return
	}
	f.print(markdown.Render(text, f.columns())...)
}

// print writes lines.
func (f *Front) print(lines ...styled.Line) {
	var theme styled.Theme // without colours and attributes
	if f.Color {
		theme = styled.ThemeFor(false)
		theme.Links = false
	}
	io.WriteString(f.Out, theme.Render(lines))
}

// text writes text, wrapped at blanks. The rows after the first of a line are indented as the line is.
func (f *Front) text(s string) { f.print(wrap(s, f.columns())...) }

// wrap breaks the lines of a text at blanks, and indents the rows after the first. A word longer than a row, such as an
// address, is left for the terminal to wrap, which copies it in one piece.
func wrap(s string, width int) (out []styled.Line) {
	for l := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		tabs := plain.Text(l)
		l = show.Line(l)
		if strings.Contains(tabs, "\t") && styled.Width(l) <= width { // tabs stay what they are, and are copied as such
			out = append(out, styled.S(styled.Text, tabs))
			continue
		}
		if slices.ContainsFunc(strings.Fields(l), func(w string) bool { return styled.Width(w) > width-4 }) {
			out = append(out, styled.S(styled.Text, l))
			continue
		}
		body := strings.TrimLeft(l, " ")
		lead := strings.Repeat(" ", min(len(l)-len(body), width/2))
		out = append(out, styled.Wrap(styled.S(styled.Text, body), width, styled.S(styled.Text, lead),
			styled.S(styled.Text, strings.Repeat(" ", max(len(lead), 4))))...)
	}
	return out
}

// sub shows a sub-agent's calls and denials. Its answer is not shown: it is for the agent that
// started it.
func (f *Front) sub(e engine.Event) {
	print := func(s string) {
		f.endAnswer()
		fmt.Fprintf(f.Out, "%s%s %s\n", strings.Repeat("  ", e.Agent.Depth), f.paint(dim, plain.Line(e.Agent.Name)+" •"), s)
	}
	switch {
	case e.Call != nil:
		print(f.call(e.Call))
	case e.Retry != nil:
		print(f.retryText(e.Retry))
	case e.Entry == nil:
	case e.Entry.Decision != nil && e.Entry.Decision.By.Verdict != permission.Allow:
		no := gate.Denied{Decision: e.Entry.Decision.By}
		print(f.paint(red, plain.Line(e.Entry.Decision.Tool+" "+no.People())))
	case e.Entry.Note != nil && e.Entry.Note.People != "":
		print(f.paint(dim, "("+plain.Line(e.Entry.Note.People)+")"))
	}
}

// result shows what the line of the call does not say: what was done, or why it failed, and the diff or a part of the
// text.
func (f *Front) result(r *session.Result) {
	indent := styled.S(styled.Text, "  ")
	if waits(r) { // the run has stopped until the answer comes
		f.print(append(indent[:1:1], styled.Span{Text: "(" + r.Text() + ")", Style: styled.Dim}))
		return
	}
	width := max(f.columns()-indent.Width(), 20)
	res := show.ResultOf(r, nil, width, "")
	var lines []styled.Line
	if (r.People != "" || r.IsError) && !res.Agent { // the end of an agent is an entry of its own
		res.Line[0].Text = strings.TrimLeft(res.Line[0].Text, " ") // after the heading, which was shown with the call
		lines = styled.Wrap(res.Line, width, nil, indent)
	}
	if f.In == nil && len(res.Rows) == 0 { // a log: it also says what the model was told
		res.Rows = show.Text(r.Text(), width, "")
	}
	for _, l := range append(lines, res.Rows...) {
		f.print(append(indent[:1:1], l...))
	}
}
