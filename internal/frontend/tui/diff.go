package tui

import (
	"fmt"
	"path"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// counts describes how many lines a change adds and removes.
func counts(added, removed int) styled.Line {
	return styled.Line{{Text: fmt.Sprintf("+%d", added), Style: styled.Inserted}, {Text: " "},
		{Text: fmt.Sprintf("−%d", removed), Style: styled.Deleted}}
}

// A hunk is a part of a unified diff. Each of its lines begins with ' ', '+', '-' or '\'.
type hunk struct {
	old, new int // number of the first line
	lines    []string
}

// hunks reads a unified diff of one file; nil: it is none.
func hunks(diff string) []hunk {
	var all []hunk
	for l := range strings.SplitSeq(strings.TrimRight(diff, "\n"), "\n") {
		if strings.HasPrefix(l, "@@ -") {
			h := hunk{old: 1, new: 1}
			var rest string
			if _, err := fmt.Sscanf(l, "@@ -%d", &h.old); err != nil {
				return nil
			}
			if _, rest, _ = strings.Cut(l, " +"); rest != "" {
				if _, err := fmt.Sscanf(rest, "%d", &h.new); err != nil {
					return nil
				}
			}
			all = append(all, h)
			continue
		}
		if len(all) == 0 {
			continue // the names of the file
		}
		h := &all[len(all)-1]
		if l == "" || !strings.ContainsRune(" +-\\", rune(l[0])) {
			l = " " + l // an empty line of context whose blank was trimmed
		}
		h.lines = append(h.lines, l)
	}
	return all
}

// diffRows returns a unified diff of the file name as rows with line numbers and highlighted code, without its
// header. A text that is no diff is shown as it is.
func diffRows(diff, name string, width int) []styled.Line {
	all := hunks(diff)
	if all == nil {
		var out []styled.Line
		for _, l := range markdown.Highlight("diff", strings.TrimRight(diff, "\n")) {
			out = append(out, styled.Break(l, width)...)
		}
		return out
	}
	last := 1
	for _, h := range all {
		last = max(last, h.old+len(h.lines), h.new+len(h.lines))
	}
	digits := len(fmt.Sprint(last))
	language := strings.TrimPrefix(path.Ext(name), ".")
	var out []styled.Line
	for i, h := range all {
		if i > 0 {
			out = append(out, styled.S(styled.Dim, strings.Repeat(" ", digits-1)+"⋮"))
		}
		// The new side and the old side are highlighted as they are read: each by itself.
		var code []string
		for _, l := range h.lines {
			if l[0] == ' ' || l[0] == '+' {
				code = append(code, l[1:])
			}
		}
		coloured := markdown.Highlight(language, strings.Join(code, "\n"))
		before, after := h.old, h.new
		for _, l := range h.lines {
			var row styled.Line
			lead := styled.Span{Style: styled.Dim}
			switch l[0] {
			case '\\':
				lead.Text = strings.Repeat(" ", digits) + "   "
				row = styled.S(styled.Dim, "no newline at the end of the file")
			case '-':
				lead = styled.Span{Text: fmt.Sprintf("%*d - ", digits, before), Style: styled.Deleted}
				for _, s := range markdown.Highlight("", l[1:])[0] {
					row = append(row, styled.Span{Text: s.Text, Style: styled.Deleted})
				}
				before++
			default:
				lead.Text = fmt.Sprintf("%*d   ", digits, after)
				if l[0] == '+' {
					lead = styled.Span{Text: fmt.Sprintf("%*d + ", digits, after), Style: styled.Inserted}
				} else {
					before++
				}
				row, coloured = coloured[0], coloured[1:]
				after++
			}
			rest := styled.Span{Text: strings.Repeat(" ", digits+3)}
			for j, part := range styled.Break(row, max(width-digits-3, 1)) {
				if j > 0 {
					lead = rest
				}
				out = append(out, append(styled.Line{lead}, part...))
			}
		}
	}
	return out
}

// Limits of a diff that is folded: the rows shown at its start and at its end.
const (
	foldAbove = 60 // longer diffs are folded
	foldHead  = 36
	foldTail  = 12
)

// folded shortens rows, and says how to see all of them.
func folded(rows []styled.Line, how string) []styled.Line {
	if len(rows) <= foldAbove {
		return rows
	}
	out := append([]styled.Line(nil), rows[:foldHead]...)
	out = append(out, styled.S(styled.Warn, fmt.Sprintf("  … %d more rows: %s", len(rows)-foldHead-foldTail, how)))
	return append(out, rows[len(rows)-foldTail:]...)
}
