package show

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// Counts describes how many lines a change adds and removes.
func Counts(added, removed int) (out styled.Line) {
	if added > 0 || removed == 0 {
		out = styled.S(styled.Inserted, fmt.Sprintf("+%d", added))
	}
	if removed > 0 {
		if out != nil {
			out = append(out, styled.Span{Text: " "})
		}
		out = append(out, styled.Span{Text: fmt.Sprintf("−%d", removed), Style: styled.Deleted})
	}
	return out
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

// Diff returns a unified diff of the file name as rows with line numbers and highlighted code, without its
// header. A text that is no diff is shown as it is. Of a new file the rows are its text.
func Diff(diff, name string, width int) []styled.Line {
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
	created := len(all) == 1 && all[0].old == 0
	language := strings.TrimPrefix(path.Ext(name), ".")
	var out []styled.Line
	for i, h := range all {
		if i > 0 {
			out = append(out, styled.S(styled.Dim, strings.Repeat(" ", digits-1)+"⋮"))
		}
		// The new side and the old side are highlighted as they are read: each by itself.
		var newCode, oldCode []string
		for _, l := range h.lines {
			if l[0] == ' ' || l[0] == '+' {
				newCode = append(newCode, l[1:])
			}
			if l[0] == ' ' || l[0] == '-' {
				oldCode = append(oldCode, l[1:])
			}
		}
		coloured := markdown.Highlight(language, strings.Join(newCode, "\n"))
		removed := markdown.Highlight(language, strings.Join(oldCode, "\n"))
		before, after := h.old, h.new
		words := changedWords(h.lines)
		for i, l := range h.lines {
			var row styled.Line
			lead := styled.Span{Style: styled.Dim}
			switch l[0] {
			case '\\':
				lead.Text = strings.Repeat(" ", digits) + "   "
				row = styled.S(styled.Dim, "no newline at the end of the file")
			case '-':
				lead = styled.Span{Text: fmt.Sprintf("%*d - ", digits, before), Style: styled.Deleted | styled.Removed}
				row, removed = tinted(removed[0], styled.Removed, words[i]), removed[1:]
				before++
			default:
				lead.Text = fmt.Sprintf("%*d   ", digits, after)
				row, coloured = coloured[0], coloured[1:]
				switch {
				case l[0] != '+':
					removed = removed[1:]
					before++
				case !created:
					lead = styled.Span{Text: fmt.Sprintf("%*d + ", digits, after), Style: styled.Inserted | styled.Added}
					row = tinted(row, styled.Added, words[i])
				}
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
	squared(out)
	return out
}

// squared makes the rows with a background as wide as the widest of them: a block. One as wide as the terminal would be
// copied with its blanks.
func squared(rows []styled.Line) {
	background := func(l styled.Line) styled.Style {
		if len(l) == 0 {
			return 0
		}
		return l[len(l)-1].Style & (styled.Added | styled.Removed)
	}
	widest := 0
	for _, l := range rows {
		if background(l) != 0 {
			widest = max(widest, l.Width())
		}
	}
	for i, l := range rows {
		if style := background(l); style != 0 && l.Width() < widest {
			rows[i] = append(l, styled.Span{Text: strings.Repeat(" ", widest-l.Width()), Style: style})
		}
	}
}

// changedWords finds what differs between lines that were removed and those that were added in their place. The
// result has, by the index of a line, the bytes of its drawn text that the two have in common at the start and at the
// end; of other lines it has nothing. As many lines belong together in their order; of unequal numbers those do that
// have most in common.
func changedWords(lines []string) map[int][2]int {
	out := map[int][2]int{}
	for i := 0; i < len(lines); {
		removed := i
		for i < len(lines) && lines[i][0] == '-' {
			i++
		}
		added := i
		for i < len(lines) && lines[i][0] == '+' {
			i++
		}
		for _, p := range pairs(lines[removed:added], lines[added:i]) {
			was, is := drawn(lines[removed+p[0]]), drawn(lines[added+p[1]])
			if same := sameEnds(was, is); common(was, same) > 0 {
				out[removed+p[0]], out[added+p[1]] = same, same
			}
		}
		if i == removed {
			i++
		}
	}
	return out
}

// maxPairs limits the work of pairs: more lines against each other were written anew.
const maxPairs = 1000

// pairs returns which removed line was replaced by which added line, as indexes.
func pairs(removed, added []string) (out [][2]int) {
	n, m := len(removed), len(added)
	if n == m {
		for i := range n {
			out = append(out, [2]int{i, i})
		}
		return out
	}
	if n*m > maxPairs {
		return nil
	}
	// best[i][j] is how many bytes the lines from i and from j on have in common, in pairs that do not cross.
	best := make([][]int, n+1)
	for i := range best {
		best[i] = make([]int, m+1)
	}
	alike := func(i, j int) int {
		was, is := drawn(removed[i]), drawn(added[j])
		if n := common(was, sameEnds(was, is)); 2*n >= min(len(strings.TrimSpace(was)), len(strings.TrimSpace(is))) {
			return n
		}
		return 0
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1], best[i+1][j+1]+alike(i, j))
		}
	}
	for i, j := 0, 0; i < n && j < m; {
		switch best[i][j] {
		case best[i+1][j]:
			i++
		case best[i][j+1]:
			j++
		default:
			out = append(out, [2]int{i, j})
			i, j = i+1, j+1
		}
	}
	return out
}

// common returns how much of a line is the same at its ends, without blanks around it.
func common(line string, same [2]int) int {
	return len(strings.TrimSpace(line[:same[0]])) + len(strings.TrimSpace(line[len(line)-same[1]:]))
}

// drawn returns the text of a line of a diff as it is drawn: without tabs.
func drawn(line string) string { return markdown.Highlight("", line[1:])[0].String() }

// sameEnds returns how many bytes two texts have in common at their start and at their end, in whole characters.
func sameEnds(a, b string) (same [2]int) {
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	for start > 0 && (start < len(a) && !utf8.RuneStart(a[start]) || start < len(b) && !utf8.RuneStart(b[start])) {
		start--
	}
	end := 0
	for end < min(len(a), len(b))-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	for end > 0 && !utf8.RuneStart(a[len(a)-end]) {
		end--
	}
	return [2]int{start, end}
}

// tinted adds a background to a row. What differs from the line that it replaces, without same bytes at the start and
// the end, is bold; same is zero for a line that replaces none.
func tinted(row styled.Line, background styled.Style, same [2]int) (out styled.Line) {
	size := 0
	for _, s := range row {
		size += len(s.Text)
	}
	at, from, to := 0, same[0], size-same[1]
	if same == [2]int{} {
		from, to = 0, 0
	}
	for _, s := range row {
		for len(s.Text) > 0 {
			n, style := len(s.Text), s.Style|background
			switch {
			case at < from:
				n = min(n, from-at)
			case at < to:
				n, style = min(n, to-at), style|styled.Bold
			}
			out = append(out, styled.Span{Text: s.Text[:n], Style: style, Link: s.Link})
			s.Text, at = s.Text[n:], at+n
		}
	}
	return out
}

// A Fold says how many rows of a long text are shown.
type Fold struct {
	Above      int // longer texts are folded
	Head, Tail int // rows shown of them
}

// Done is the fold of a change that was made.
var Done = Fold{Above: 24, Head: 12, Tail: 6}

// asked returns the fold of a change that the user has to approve: short ones are shown whole, others in about a number
// of rows.
func asked(rows int) Fold {
	rows = min(max(rows, 8), 48)
	return Fold{Above: 60, Head: rows - 1 - rows/3, Tail: rows / 3}
}

// Rows shortens rows. how tells the user how to see all of them.
func (f Fold) Rows(rows []styled.Line, how string) []styled.Line {
	if len(rows) <= f.Above {
		return rows
	}
	out := append([]styled.Line(nil), rows[:f.Head]...)
	out = append(out, styled.S(styled.Dim, fmt.Sprintf("  … %d more rows%s", len(rows)-f.Head-f.Tail, how)))
	return append(out, rows[len(rows)-f.Tail:]...)
}

// Diffs returns a diff of several files, as git prints it, with a heading for each file.
func Diffs(text string, width int) []styled.Line {
	var out []styled.Line
	name, added, removed := "", 0, 0
	var part strings.Builder
	flush := func() {
		if name != "" {
			if len(out) > 0 {
				out = append(out, nil)
			}
			head := append(styled.S(styled.Bold, plain.Line(name)), styled.Span{Text: "  "})
			out = append(out, append(head, Counts(added, removed)...).Cut(width))
			if hunks(part.String()) != nil {
				out = append(out, Diff(part.String(), name, width)...)
			} else {
				out = append(out, styled.S(styled.Dim, "no text that can be compared"))
			}
		}
		name, added, removed = "", 0, 0
		part.Reset()
	}
	inHunk := false
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if rest, ok := strings.CutPrefix(l, "diff --git "); ok {
			flush()
			inHunk = false
			if _, after, ok := strings.Cut(rest, " b/"); ok {
				name = after
			} else {
				name = rest
			}
			continue
		}
		inHunk = inHunk || strings.HasPrefix(l, "@@ -")
		if inHunk && strings.HasPrefix(l, "+") {
			added++
		} else if inHunk && strings.HasPrefix(l, "-") {
			removed++
		}
		part.WriteString(l + "\n")
	}
	flush()
	return out
}
