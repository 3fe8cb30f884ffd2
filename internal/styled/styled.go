// Package styled represents text for a terminal as lines of styled spans,
// wraps it to a width in cells, and writes it with a theme.
//
// What is shown is a function from state to [Line] values; only [Theme.Append]
// knows escape sequences. Widths are counted by grapheme cluster, as current
// terminals do: a CJK character or an emoji takes two cells, a combining mark
// none.
//
// Span texts must not contain control characters: escape untrusted text with
// package plain first. [Theme.Append] replaces those that remain.
package styled

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// A Style is the role of a span, which a [Theme] colours, and attributes. The
// zero Style is ordinary text.
type Style uint16

// The roles. At most one can be set in a Style.
const (
	Text Style = iota
	Dim
	Accent
	Heading
	InlineCode
	CodeText
	Keyword
	String
	Number
	Comment
	Function
	Type
	Inserted
	Deleted
	Hunk
	Quote
	LinkText
	Good
	Warn
	Bad
	User
	roles
)

// The attributes, to be combined with a role by |.
const (
	Bold Style = 0x100 << iota
	Italic
	Underline
	Strike
	Reverse
)

const roleMask Style = 0xff

// A Span is a run of text in one style.
type Span struct {
	Text  string
	Style Style
	Link  string // an address to open, or ""
}

// A Line is one row of the terminal, without the newline.
type Line []Span

// S returns a line of one span.
func S(style Style, text string) Line { return Line{{Text: text, Style: style}} }

// String returns the text without styles.
func (l Line) String() string {
	if len(l) == 1 {
		return l[0].Text
	}
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Width returns the number of cells that the line takes.
func (l Line) Width() int {
	n := 0
	for _, s := range l {
		n += Width(s.Text)
	}
	return n
}

// Width returns the number of cells that a text takes.
func Width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf || s[i] < ' ' {
			return displaywidth.String(s)
		}
	}
	return len(s)
}

// Cut returns the start of a text that fits into width cells, ending in "…" if
// anything was cut. Less than one cell gives "".
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return displaywidth.TruncateString(s, width, "…")
}

// Cut returns the start of the line that fits into width cells, ending in "…"
// if anything was cut.
func (l Line) Cut(width int) Line {
	if l.Width() <= width {
		return l
	}
	var out Line
	for _, s := range l {
		w := Width(s.Text)
		if w >= width {
			s.Text = Cut(s.Text+" ", width) // the blank: something follows
			return append(out, s)
		}
		out = append(out, s)
		width -= w
	}
	return out
}

// A cell is one grapheme cluster of a paragraph.
type cell struct {
	span  int // index of its span
	text  string
	width int
	space bool
}

// Wrap breaks a paragraph into lines of at most width cells. Lines are broken
// at blanks and beside wide characters, and within words that are longer than
// a line; the blank at a break disappears, nothing else does. The first line
// starts with first, all others with rest, which are part of the width. A width
// too small for a character gives one character a line.
func Wrap(text Line, width int, first, rest Line) []Line {
	firstWidth, restWidth := first.Width(), rest.Width()
	if text.Width()+firstWidth <= width {
		return []Line{join(first, text)}
	}
	cells := cellsOf(text)
	var lines []Line
	prefix, room := first, width-firstWidth
	emit := func(row []cell) {
		line := append(Line(nil), prefix...)
		for _, c := range row {
			if n := len(line); n > len(prefix) && line[n-1].Style == text[c.span].Style && line[n-1].Link == text[c.span].Link {
				line[n-1].Text += c.text
				continue
			}
			line = append(line, Span{Text: c.text, Style: text[c.span].Style, Link: text[c.span].Link})
		}
		lines = append(lines, line)
		prefix, room = rest, width-restWidth
	}
	for len(cells) > 0 {
		n, used := 0, 0 // how many cells fit
		for n < len(cells) && used+cells[n].width <= room {
			used += cells[n].width
			n++
		}
		if n == len(cells) {
			emit(cells)
			break
		}
		at := n // where the line ends
		if !cells[n].space {
			for at > 0 && !breakable(cells[at-1], cells[at]) {
				at--
			}
			if at == 0 {
				at = max(n, 1)
			}
		}
		row := cells[:at]
		for len(row) > 1 && row[len(row)-1].space {
			row = row[:len(row)-1]
		}
		emit(row)
		cells = cells[at:]
		for len(cells) > 0 && cells[0].space {
			cells = cells[1:]
		}
	}
	if len(lines) == 0 {
		return []Line{append(Line(nil), first...)}
	}
	return lines
}

// breakable reports whether a line may end between two characters.
func breakable(a, b cell) bool {
	if a.space || b.space {
		return true
	}
	if a.width < 2 && b.width < 2 {
		return false
	}
	// A closing mark does not start a line, an opening one does not end it.
	r, _ := utf8.DecodeRuneInString(b.text)
	l, _ := utf8.DecodeRuneInString(a.text)
	return !unicode.In(r, unicode.Pe, unicode.Pf, unicode.Po) && !unicode.In(l, unicode.Ps, unicode.Pi)
}

func cellsOf(text Line) []cell {
	n := 0
	for _, s := range text {
		n += len(s.Text)
	}
	cells := make([]cell, 0, n)
	for i, s := range text {
		g := displaywidth.StringGraphemes(s.Text)
		for g.Next() {
			v := g.Value()
			cells = append(cells, cell{span: i, text: v, width: g.Width(), space: v == " "})
		}
	}
	return cells
}

// Break splits a line of code into rows of at most width cells, at any
// character: every blank stays.
func Break(text Line, width int) []Line {
	if text.Width() <= width {
		return []Line{text}
	}
	var lines []Line
	var row Line
	used := 0
	for _, c := range cellsOf(text) {
		if used > 0 && used+c.width > width {
			lines = append(lines, row)
			row, used = nil, 0
		}
		used += c.width
		if n := len(row); n > 0 && row[n-1].Style == text[c.span].Style && row[n-1].Link == text[c.span].Link {
			row[n-1].Text += c.text
			continue
		}
		row = append(row, Span{Text: c.text, Style: text[c.span].Style, Link: text[c.span].Link})
	}
	return append(lines, row)
}

func join(a, b Line) Line {
	if len(a) == 0 {
		return b
	}
	return append(append(Line(nil), a...), b...)
}
