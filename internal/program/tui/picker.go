package tui

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/terminal"
)

// An item is one entry of a list to pick from.
type item struct {
	value   string // the result of picking it
	label   string
	help    string
	keys    string // keys that pick it, beside its number
	other   string // the line that the space bar types; "": none
	preview string // shown below the list while the cursor is on it
	mark    bool   // marked, in a list that allows several
	ready   bool   // a complete completion: Enter submits the prompt
	bonus   int    // added to the score of a match
	open    bool   // the beginning of a completion: more follows without a space
}

// A picker is a list filtered by what the user types. The zero picker is empty.
type picker struct {
	title    string
	items    []item
	multiple bool // several items can be marked with Space
	query    string
	found    []int  // indexes into items, best match first
	at       int    // index into found; -1: nothing is selected yet
	top      int    // index of the first visible row
	again    string // keys that move to the next match, separated by blanks
	closed   bool   // the list cannot be filtered, because it has only a few fixed choices

	// matching has the indexes of the items that matched the last query, in order. A query
	// that extends the last one searches only these, because there may be 100,000 files.
	matching []int
	matched  string // the query of matching

	line    string     // the line that opens the list again
	current string     // the current value; "": none
	moved   func(item) // if not nil, called with the item under the cursor when it changes
}

func newPicker(title string, items []item) *picker {
	p := &picker{title: title, items: items}
	p.filter()
	return p
}

func (p *picker) filter() {
	if p.matched == "" || !strings.HasPrefix(p.query, p.matched) {
		p.matching = nil
	}
	p.found, p.matching = rank(p.items, p.matching, p.query)
	p.matched, p.at, p.top = p.query, 0, 0
	if p.query == "" && p.current != "" {
		p.at = max(slices.IndexFunc(p.found, func(i int) bool { return p.items[i].value == p.current }), 0)
	}
}

// opened puts the cursor on the current value.
func (p *picker) opened(current string) *picker {
	p.current = current
	p.filter()
	return p
}

// picked returns the item under the cursor.
func (p *picker) picked() (item, bool) {
	if 0 <= p.at && p.at < len(p.found) {
		return p.items[p.found[p.at]], true
	}
	return item{}, false
}

// key moves the cursor or filters the list. It reports whether it used the key.
func (p *picker) key(k terminal.Key) bool {
	if slices.Contains(strings.Fields(p.again), k.String()) {
		p.move(1)
		return true
	}
	switch k.String() {
	case "up", "ctrl+p":
		p.move(-1)
	case "down", "ctrl+n":
		p.move(1)
	case "pageup":
		p.move(-8)
	case "pagedown":
		p.move(8)
	case "space":
		return p.toggle()
	case "backspace":
		if p.query == "" {
			return false
		}
		_, n := utf8.DecodeLastRuneInString(p.query)
		p.query = p.query[:len(p.query)-n]
		p.filter()
	case "text", "paste":
		if p.multiple && k.Text == " " {
			return p.toggle()
		}
		if p.closed {
			if len(k.Text) == 1 && '1' <= k.Text[0] && int(k.Text[0]-'1') < len(p.found) {
				p.at = int(k.Text[0] - '1')
			}
			return true
		}
		p.query += strings.Join(strings.Fields(k.Text), " ")
		if strings.HasSuffix(k.Text, " ") {
			p.query += " "
		}
		p.filter()
	default:
		return false
	}
	return true
}

func (p *picker) toggle() bool {
	if !p.multiple || p.at < 0 || p.at >= len(p.found) {
		return false
	}
	i := p.found[p.at]
	p.items[i].mark = !p.items[i].mark
	return true
}

func (p *picker) move(by int) {
	if p.at < 0 && by < 0 {
		p.at = len(p.found) // the cursor moves to the last item below
	}
	if len(p.found) > 0 {
		p.at = min(max(p.at+by, 0), len(p.found)-1)
	}
	if it, ok := p.picked(); ok && p.moved != nil {
		p.moved(it)
	}
}

// search draws the filter text in place of the prompt.
func (p *picker) search(width int) ([]styled.Line, terminal.Cursor) {
	l := styled.Line{{Text: "/ ", Style: styled.Accent}, {Text: plain.Line(p.query)}}
	col := l.Width()
	if p.query == "" {
		l = append(l, styled.Span{Text: "type to search", Style: styled.Dim})
	}
	return []styled.Line{l.Cut(width)}, terminal.Cursor{Col: min(col, width-1)}
}

// keys describes the keys of a list, in place of the status line.
func (p *picker) keys() string {
	keys := "enter: pick · ↑↓"
	if p.again != "" {
		keys = "enter: edit it · ↑↓ " + p.again
	}
	if it, ok := p.picked(); ok && it.other != "" && p.query == "" {
		keys = "enter: pick · space: on or off · ↑↓"
	}
	return keys + ": move · esc: close"
}

// lines draws the list in at most maxRows rows.
func (p *picker) lines(width, maxRows int) []styled.Line {
	var out []styled.Line
	if p.title != "" {
		out = append(out, styled.S(styled.Bold, p.title).Cut(width))
		maxRows--
	}
	if len(p.found) == 0 {
		return append(out, styled.S(styled.Dim, "  nothing matches").Cut(width))
	}
	preview := p.preview(width, maxRows)
	maxRows -= len(preview)
	rows := max(min(maxRows, len(p.found)), 1)
	if len(p.found) > rows && rows > 2 {
		rows-- // for the line with the count
	}
	p.top = max(min(max(p.top, p.at-rows+1), p.at), 0)
	labelWidth, help := 0, false
	for _, i := range p.found[p.top:min(p.top+rows, len(p.found))] {
		labelWidth = max(labelWidth, styled.Width(p.items[i].label))
		help = help || p.items[i].help != ""
	}
	if p.current != "" {
		labelWidth += 2
	}
	if help { // help texts fit beside the labels
		labelWidth = min(labelWidth, max(width/2, 12))
	}
	for j := p.top; j < min(p.top+rows, len(p.found)); j++ {
		it := p.items[p.found[j]]
		style, lead := styled.Text, "  "
		if j == p.at {
			style, lead = styled.Accent|styled.Bold, "▸ "
		}
		if p.closed {
			lead += fmt.Sprintf("%d ", j+1)
		}
		if p.multiple {
			lead += map[bool]string{true: "[x] ", false: "[ ] "}[it.mark]
		}
		label := styled.Cut(plain.Line(it.label), max(labelWidth, 1))
		l := append(styled.S(style, lead), matched(label, p.query, style)...)
		if p.current != "" && it.value == p.current {
			l = append(l, styled.Span{Text: " ✓", Style: styled.Good})
			label += " ✓"
		}
		if it.help != "" {
			pad := strings.Repeat(" ", max(labelWidth-styled.Width(label), 0)+2)
			l = append(l, styled.Span{Text: pad + plain.Line(it.help), Style: styled.Dim})
		} else if it.keys != "" {
			l = append(l, styled.Span{Text: "  (" + it.keys + ")", Style: styled.Dim})
		}
		out = append(out, l.Cut(width))
	}
	if len(p.found) > rows && maxRows > 2 {
		out = append(out, styled.S(styled.Dim, fmt.Sprintf("  %d of %d", p.at+1, len(p.found))).Cut(width))
	}
	return append(out, preview...)
}

// matched returns a label with the letters that match a query, where they stand together.
func matched(label, query string, style styled.Style) styled.Line {
	at := -1
	if low := strings.ToLower(label); query != "" && len(low) == len(label) {
		at = strings.Index(low, strings.ToLower(query))
	}
	if at < 0 || at+len(query) > len(label) {
		return styled.S(style, label)
	}
	l := styled.Line{{Text: label[:at], Style: style}, {Text: label[at : at+len(query)], Style: style | styled.Bold |
		styled.Underline}, {Text: label[at+len(query):], Style: style}}
	return slices.DeleteFunc(l, func(s styled.Span) bool { return s.Text == "" })
}

// unfolded draws all items of a list of fixed choices, with their help texts whole.
func (p *picker) unfolded(width int) []styled.Line {
	labels := 0
	for _, i := range p.found {
		if p.items[i].help != "" {
			labels = max(labels, styled.Width(plain.Line(p.items[i].label)))
		}
	}
	var out []styled.Line
	for j, i := range p.found {
		it := p.items[i]
		style, mark := styled.Text, "  "
		if j == p.at {
			style, mark = styled.Accent|styled.Bold, "▸ "
		}
		lead := styled.Line{{Text: mark + fmt.Sprintf("%d ", j+1), Style: styled.Accent | styled.Bold}}
		label := plain.Line(it.label)
		gap := strings.Repeat(" ", max(labels-styled.Width(label), 0)+2)
		first := append(slices.Clip(lead), styled.Span{Text: label + gap, Style: style})
		said := styled.S(style, label)
		if it.keys != "" {
			said = append(said, styled.Span{Text: "  (" + it.keys + ")", Style: styled.Dim})
		}
		rest := styled.S(styled.Text, strings.Repeat(" ", len("  1 ")))
		help := styled.S(styled.Dim, plain.Line(it.help))
		switch {
		case it.help == "":
			out = append(out, styled.Wrap(said, width, lead, rest)...)
		case it.keys != "" && lead.Width()+said.Width()+2+help.Width() <= width:
			out = append(out, append(append(append(lead, said...), styled.Span{Text: "  "}), help...))
		case it.keys == "" && first.Width()+help.Width() <= width:
			out = append(out, append(first, help...))
		default: // below the label, which leaves more room
			out = append(out, styled.Wrap(said, width, lead, rest)...)
			out = append(out, styled.Wrap(help, width, rest, rest)...)
		}
	}
	return out
}

// previewRows is the maximum number of rows of a preview.
const previewRows = 4

// preview shows the preview of the item under the cursor, if there are rows left.
func (p *picker) preview(width, maxRows int) []styled.Line {
	it, ok := p.picked()
	if !ok || it.preview == "" || it.preview == it.label || maxRows < 8 {
		return nil
	}
	lead := styled.S(styled.Dim, "  │ ")
	var out []styled.Line
	for _, l := range strings.Split(it.preview, "\n") {
		out = append(out, styled.Wrap(styled.S(styled.Dim, plain.Line(l)), width, lead, lead)...)
	}
	if len(out) > previewRows {
		out = append(out[:previewRows-1], styled.S(styled.Dim, "  │ …"))
	}
	return out
}

// rank returns the indexes of the items that match a query: best first, equally good ones in
// their original order. An item matches if it contains all words of the query, each with its
// letters in order but not necessarily adjacent. An empty query matches everything. If among
// is not nil, only these items are considered.
func rank(items []item, among []int, query string) (best, matching []int) {
	words := strings.Fields(strings.ToLower(query))
	n := len(items)
	if among != nil {
		n = len(among)
	}
	matching = make([]int, 0, n)
	scores := make([]int, 0, n)
	limit := 0
	for j := range n {
		i := j
		if among != nil {
			i = among[j]
		}
		if score := items[i].score(words); score > 0 {
			matching, scores = append(matching, i), append(scores, score)
			limit = max(limit, score)
		}
	}
	// Counting sort: there are few different scores.
	starts := make([]int, limit+2)
	for _, s := range scores {
		starts[limit-s+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	best = make([]int, len(matching))
	for j, s := range scores {
		best[starts[limit-s]] = matching[j]
		starts[limit-s]++
	}
	return best, matching
}

// score rates how well an item matches words, which must be in lower case; 0 means no match.
func (it *item) score(words []string) int {
	score, help := 1, ""
	for _, w := range words {
		n := similar.Score(strings.TrimPrefix(it.label, "/"), w) // of a command what follows the slash
		if n == 0 {
			if help == "" {
				help = strings.ToLower(it.help)
			}
			if help == "" || !strings.Contains(help, w) {
				return 0
			}
			n = 1
		}
		score += n
	}
	if len(words) > 0 {
		score += it.bonus
	}
	return score
}
