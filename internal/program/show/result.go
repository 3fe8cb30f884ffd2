package show

import (
	"fmt"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A Result is the result of a call as people see it.
type Result struct {
	Line  styled.Line // what was done, or what was tried and why it failed
	Mark  styled.Style
	Rows  []styled.Line // of a change its diff, of other calls the start and the end of their text; may be empty
	Agent bool          // it is that of a sub-agent which has ended
	Whole string        // everything that there is to show
}

// indent begins the rows below a line.
const indent = "  "

// Limits of the rows of a text that are shown.
const (
	headRows = 2
	tailRows = 3
	textRows = 4 // rows of one line
)

// ResultOf describes the result of a call. heading describes the call. how says how to see what is folded, such as
// " (ctrl+o)".
func ResultOf(r *session.Result, heading styled.Line, width int, how string) Result {
	out := Result{Line: heading, Mark: styled.Good, Whole: r.Text()}
	change, output, agent := r.Change(), r.Output(), r.SubAgent()
	out.Agent = agent != nil
	text := strings.TrimRight(strings.TrimSuffix(out.Whole, output.Status), "\n")
	if output.Bytes != nil && *output.Bytes == 0 {
		text = ""
	}
	switch {
	case r.IsError || output.Status != "" && r.People != "": // or a command that ended well, of which something was refused
		out.Mark = styled.Bad
		if r.People == tool.Aborted || !r.IsError {
			out.Mark = styled.Warn
		}
		why := r.People
		if why == "" {
			why = "failed"
		}
		why = "  " + plain.Line(Start(why, headingCells))
		// What was tried leaves room for the reason in its row, after the mark.
		tried := heading.Cut(max(width-len(indent)-styled.Width(why), min(width, headingCells)/2))
		out.Line = append(append(styled.Line(nil), tried...), styled.Span{Text: why, Style: out.Mark})
		for _, what := range output.Refused {
			for _, l := range styled.Wrap(styled.S(styled.Warn, plain.Line(what)), max(width-len(indent), 1), nil, nil) {
				out.Rows = append(out.Rows, append(styled.S(styled.Text, indent), l...))
			}
		}
		if output.Status != "" || r.People == "" {
			rows := styled.Break
			if output.Bytes == nil { // no output of a command, which keeps its columns
				rows = styled.BreakWords
			}
			out.Rows = append(out.Rows, textRowsOf(text, width, how, rows)...)
		}
	case r.People != "":
		if agent != nil {
			n := strings.Count(strings.TrimSpace(agent.Result), "\n") + 1
			out.Line = AgentEnd(agent, width)
			out.Rows = []styled.Line{styled.S(styled.Dim, fmt.Sprintf("%sreport of %s%s", indent, plain.Count(n, "line"),
				how)).Cut(width)}
			break
		}
		verb, rest, _ := strings.Cut(plain.Line(Start(r.People, headingCells)), " ")
		out.Line = styled.Line{{Text: verb, Style: styled.Bold}}
		if rest != "" {
			out.Line = append(out.Line, styled.Span{Text: " " + rest})
		}
		if change.Added+change.Removed > 0 {
			out.Line = append(append(out.Line, styled.Span{Text: "  "}), Counts(change.Added, change.Removed)...)
		}
	default:
		if strings.HasPrefix(r.Name, "mcp__") { // its arguments may be long; the record has them
			out.Line = heading.Cut(max(width-len(indent), 1))
		}
		out.Rows = Text(text, width, how)
	}
	if !r.IsError && change.Diff != "" {
		out.Rows = indented(Done.Rows(Diff(change.Diff, DiffName(change.Diff), max(width-len(indent), 1)), how))
		out.Whole = change.Diff
	}
	return out
}

// DiffName returns the name of the changed file, which a diff has in its header.
func DiffName(diff string) string {
	for l := range strings.SplitSeq(diff, "\n") {
		if name, ok := strings.CutPrefix(l, "+++ b/"); ok {
			return strings.TrimSpace(name)
		}
		if strings.HasPrefix(l, "@@") {
			break
		}
	}
	return ""
}

// Text returns the start and the end of a text, with the number of lines between them.
func Text(text string, width int, how string) []styled.Line {
	return textRowsOf(text, width, how, styled.Break)
}

// textRowsOf is Text with a func that breaks what is longer than a row.
func textRowsOf(text string, width int, how string, rows func(styled.Line, int) []styled.Line) []styled.Line {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	more := len(all) - headRows - tailRows
	var out []styled.Line
	for i, l := range all {
		if more > 1 && i >= headRows && i < headRows+more {
			if i == headRows {
				out = append(out, styled.S(styled.Dim, fmt.Sprintf("%s… %d more lines%s", indent, more, how)).Cut(width))
			}
			continue
		}
		out = append(out, textLine(l, width, rows)...)
	}
	return out
}

// textLine returns one line of a text, cut if it is very long.
func textLine(l string, width int, breaks func(styled.Line, int) []styled.Line) []styled.Line {
	inner := max(width-len(indent), 1)
	rows := breaks(styled.S(styled.Dim, Line(Start(l, (textRows+1)*inner))), inner)
	if len(rows) > textRows {
		rows = rows[:textRows]
		rows[textRows-1] = append(rows[textRows-1].Cut(max(inner-1, 1)), styled.Span{Text: "…", Style: styled.Dim})
	}
	return indented(rows)
}

func indented(lines []styled.Line) []styled.Line {
	out := make([]styled.Line, len(lines))
	for i, l := range lines {
		out[i] = append(styled.S(styled.Text, indent), l...)
	}
	return out
}
