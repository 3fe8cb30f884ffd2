// Package styled represents terminal text as lines of styled spans, wraps it to a width in
// cells, and writes it with a theme.
//
// Front ends compute [Line] values from their state; only [Theme.Append] produces escape
// sequences. Widths are counted by grapheme cluster, as current terminals do: a CJK character
// or an emoji takes two cells, a combining mark none.
//
// Span texts must not contain control characters: escape untrusted text with package plain
// first. [Theme.Append] replaces any that remain.
package styled

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A Style is the role of a span, which a [Theme] colours, combined with attributes. The zero
// Style is ordinary text.
type Style uint16

// Roles. A Style has at most one.
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

// Attributes, combined with a role by |.
const (
	Bold Style = 0x100 << iota
	Italic
	Underline
	Strike
	Reverse
	Added   // the background of lines that a change adds
	Removed // and of those that it removes
)

const roleMask Style = 0xff

// A Span is a piece of text in one style.
type Span struct {
	Text  string
	Style Style
	Link  string // address of a link, or ""
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

// Cut returns the start of a text that fits into width cells, ending in "…" if anything was
// cut. It returns "" if width is less than 1.
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
			s.Text = Cut(s.Text+" ", width) // the added space makes Cut see that more text follows
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

// Wrap breaks a paragraph into lines of at most width cells. It breaks at blanks and beside
// wide characters, and inside words that are longer than a line. The blank at a break is
// removed; all other text is kept. The first line starts with first and all others with rest;
// both count as part of the width. If width is too small for a character, each line gets one
// character.
func Wrap(text Line, width int, first, rest Line) []Line {
	firstWidth, restWidth := first.Width(), rest.Width()
	if text.Width()+firstWidth <= width {
		return []Line{join(first, text)}
	}
	cells := cellsOf(text)
	var lines []Line
	prefix, left := first, width-firstWidth
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
		prefix, left = rest, width-restWidth
	}
	for len(cells) > 0 {
		n, used := 0, 0 // number of cells that fit
		for n < len(cells) && used+cells[n].width <= left {
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
	// A closing mark must not start a line, and an opening one must not end it.
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

// Break splits a line of code into rows of at most width cells. It may break at any character
// and keeps all blanks.
func Break(text Line, width int) []Line { return breakAt(text, width, false) }

// BreakWords is like Break, but breaks after a blank where it can. It also keeps all blanks.
func BreakWords(text Line, width int) []Line { return breakAt(text, width, true) }

func breakAt(text Line, width int, words bool) []Line {
	if text.Width() <= width {
		return []Line{text}
	}
	var lines []Line
	for cells := cellsOf(text); len(cells) > 0; {
		n, used := 0, 0 // number of cells that fit
		for n < len(cells) && (n == 0 || used+cells[n].width <= width) {
			used += cells[n].width
			n++
		}
		if words && n < len(cells) {
			at := n
			for at > 0 && !cells[at-1].space {
				at--
			}
			if at > 0 {
				n = at
			}
		}
		var row Line
		for _, c := range cells[:n] {
			if n := len(row); n > 0 && row[n-1].Style == text[c.span].Style && row[n-1].Link == text[c.span].Link {
				row[n-1].Text += c.text
				continue
			}
			row = append(row, Span{Text: c.text, Style: text[c.span].Style, Link: text[c.span].Link})
		}
		lines, cells = append(lines, row), cells[n:]
	}
	return lines
}

func join(a, b Line) Line {
	if len(a) == 0 {
		return b
	}
	return append(append(Line(nil), a...), b...)
}

// Plain is [plain.Line], with tabs as blanks up to the next multiple of tab cells.
func Plain(line string, tab int) string {
	if !strings.Contains(line, "\t") {
		return plain.Line(line)
	}
	var b strings.Builder
	at := 0
	for i, part := range strings.Split(line, "\t") {
		if i > 0 {
			n := tab - at%tab
			b.WriteString(strings.Repeat(" ", n))
			at += n
		}
		part = plain.Line(part)
		b.WriteString(part)
		at += Width(part)
	}
	return b.String()
}
