package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/parser"

	"github.com/knack-agent/knack/internal/leaf/styled"
)

// codeRows is the number of lines of an open code block that become final together. Each group
// is highlighted together with the codeContext lines before it, because a highlighter cannot
// resume where it stopped.
const (
	codeRows    = 16
	codeContext = 64
)

// maxBlock is the maximum size of text parsed at once, in bytes: the open block is rendered
// again for every piece that arrives, and the parser is quadratic for some texts. A longer
// block is cut at this size, and a part of a longer line is shown as plain text.
const maxBlock = 8 << 10

// A Stream renders Markdown that arrives in pieces. The zero Stream is empty. The resulting
// lines do not depend on how the text is split into pieces.
type Stream struct {
	parser  parser.Parser
	tail    string   // the last line, until its newline arrives
	open    []string // the lines of the block that may still change
	size    int      // size of open in bytes
	ready   []piece  // final blocks not taken yet
	state   state
	blank   bool // a blank line precedes the next block
	any     bool // there was a block before
	number  int  // number of the last item of an ordered list
	closed  bool
	fence   string   // the mark that closes the open code block
	lang    string   // language of the open code block
	context []string // its last lines that are already final
	indent  int      // indentation of the open code block
}

type state uint8

const (
	between   state = iota
	paragraph       // also quotes and tables
	list
	code
)

// A piece is a final block or part of one.
type piece struct {
	gap     bool // a blank line precedes it
	src     string
	start   int // number of the first item
	code    []string
	context int // number of code lines that are only context
	lang    string
}

// Write adds text.
func (s *Stream) Write(text string) {
	for {
		i := strings.IndexByte(text, '\n')
		if i < 0 {
			s.grow(text)
			return
		}
		s.grow(text[:i])
		line := strings.TrimSuffix(s.tail, "\r")
		s.tail, text = "", text[i+1:]
		s.line(line)
	}
}

// grow adds text to the incomplete line. If the line exceeds the size limit, its text so far
// becomes final as plain text.
func (s *Stream) grow(text string) {
	s.tail += text
	for len(s.tail) > maxBlock {
		n := maxBlock
		for n > 0 && !utf8.RuneStart(s.tail[n]) {
			n--
		}
		if n == 0 { // invalid UTF-8
			n = maxBlock
		}
		s.flush()
		s.ready = append(s.ready, piece{gap: s.any && s.blank, code: []string{s.tail[:n]}})
		s.any, s.blank = true, false
		s.tail = s.tail[n:]
	}
}

// Close marks the end of the text, so that all of it becomes final.
func (s *Stream) Close() {
	if s.closed {
		return
	}
	if s.tail != "" {
		s.line(strings.TrimSuffix(s.tail, "\r"))
		s.tail = ""
	}
	s.flush()
	s.closed = true
}

// Take returns the lines that became final since the last call, of at most width cells; lines
// of code may be longer.
func (s *Stream) Take(width int) []styled.Line {
	var lines []styled.Line
	for _, p := range s.ready {
		lines = append(lines, s.render(p, width)...)
	}
	s.ready = nil
	return lines
}

// Live returns the rows of the text that may still change, of at most width cells.
func (s *Stream) Live(width int) []styled.Line {
	rest := *s
	rest.ready = nil
	rest.open = append([]string(nil), s.open...)
	rest.context = append([]string(nil), s.context...)
	rest.Close()
	var rows []styled.Line
	for _, l := range rest.Take(width) {
		rows = append(rows, styled.Break(l, max(width, 1))...)
	}
	return rows
}

func (s *Stream) render(p piece, width int) []styled.Line {
	if s.parser == nil {
		s.parser = NewParser()
	}
	var lines []styled.Line
	if p.gap {
		lines = append(lines, nil)
	}
	r := renderer{parser: s.parser, width: max(width, 1), start: p.start}
	if p.code != nil {
		r.code(Highlight(p.lang, strings.Join(p.code, "\n"))[p.context:])
		return append(lines, r.lines...)
	}
	return append(lines, r.render(p.src)...)
}

// line adds one complete line.
func (s *Stream) line(l string) {
	if s.size += len(l) + 1; s.size > maxBlock && len(s.open) > 0 {
		s.cut()
		s.size = len(l) + 1
	}
	indent, text := indentation(l)
	switch s.state {
	case code:
		if indent < 4 && strings.HasPrefix(text, s.fence) && strings.Trim(text, s.fence[:1]+" \t") == "" {
			s.flush()
			return
		}
		for range s.indent {
			l = strings.TrimPrefix(l, " ")
		}
		s.open = append(s.open, l)
		if len(s.open) == codeRows {
			s.commitCode()
		}
		return
	case paragraph:
		switch {
		case text == "":
			s.flush()
			s.blank = true
			return
		case s.starts(indent, text):
			s.flush()
		default:
			s.open = append(s.open, l)
			return
		}
	case list:
		if text == "" {
			s.open = append(s.open, l)
			return
		}
		afterBlank := len(s.open) > 0 && strings.TrimSpace(s.open[len(s.open)-1]) == ""
		switch {
		case indent >= 2 || s.inFence():
			s.open = append(s.open, l)
			return
		case marker(text) != 0:
			s.flushItem(text)
			s.open = append(s.open, l)
			return
		case !afterBlank && !s.starts(indent, text):
			s.open = append(s.open, l) // a lazy continuation line
			return
		}
		s.flush()
	}
	// Between two blocks.
	if text == "" {
		s.blank = true
		return
	}
	if indent < 4 {
		if f := fence(text); f != "" {
			s.state, s.fence, s.indent = code, f, indent
			s.lang, _, _ = strings.Cut(strings.TrimSpace(strings.TrimLeft(text, f[:1])), " ")
			s.context = nil
			return
		}
		if marker(text) != 0 && !rule(text) {
			s.state, s.number = list, 0
			s.open = append(s.open, l)
			return
		}
		if heading(text) || rule(text) {
			s.state = paragraph
			s.open = append(s.open, l)
			s.flush()
			return
		}
	}
	s.state = paragraph
	s.open = append(s.open, l)
}

// starts reports whether a line begins a new block inside a paragraph.
func (s *Stream) starts(indent int, text string) bool {
	if indent > 3 {
		return false
	}
	// A line of hyphens turns the paragraph before it into a heading.
	if heading(text) || fence(text) != "" || rule(text) && text[0] != '-' {
		return true
	}
	switch m := marker(text); {
	case len(s.open) == 0, m == 0:
		return false
	case strings.HasPrefix(strings.TrimLeft(s.open[0], " "), ">"):
		return true
	default:
		// An ordered list can interrupt a paragraph only if it begins with 1.
		return m < 0 || strings.HasPrefix(text, "1")
	}
}

// flush makes the open block final.
func (s *Stream) flush() {
	switch s.state {
	case code:
		s.commitCode()
	case list, paragraph:
		s.flushOpen()
	}
	s.state = between
}

// cut makes the open lines final; the block continues.
func (s *Stream) cut() {
	if s.state == code {
		s.commitCode()
	} else {
		s.flushOpen()
	}
}

// flushOpen makes the open lines final, except for blank lines at the end.
func (s *Stream) flushOpen() {
	n := len(s.open)
	for n > 0 && strings.TrimSpace(s.open[n-1]) == "" {
		n--
	}
	if n > 0 {
		p := piece{gap: s.any && s.blank, src: strings.Join(s.open[:n], "\n") + "\n"}
		if s.state == list && s.number > 0 {
			p.start = s.number
		}
		s.ready = append(s.ready, p)
		s.any = true
	}
	s.blank = n < len(s.open)
	s.open, s.size = nil, 0
}

// flushItem makes the open list item final because another one begins.
func (s *Stream) flushItem(nextText string) {
	_, text := indentation(s.open[0])
	this, next := marker(text), marker(nextText)
	s.flushOpen()
	switch {
	case this < 0 || next < 0 || delimiter(text) != delimiter(nextText):
		s.number = 0 // another list begins
	case s.number > 0:
		s.number++
	default:
		s.number = this
	}
}

// inFence reports whether the open list item contains an unclosed code block.
func (s *Stream) inFence() bool {
	open := ""
	for _, l := range s.open {
		text := strings.TrimLeft(l, " \t")
		switch {
		case open == "":
			open = fence(text)
		case strings.HasPrefix(text, open) && strings.Trim(text, open[:1]+" \t") == "":
			open = ""
		}
	}
	return open != ""
}

// delimiter returns the character after the number of an ordered item.
func delimiter(text string) string {
	rest := strings.TrimLeft(text, "0123456789")
	return rest[:min(1, len(rest))]
}

func (s *Stream) commitCode() {
	if len(s.open) == 0 {
		return
	}
	all := append(append([]string(nil), s.context...), s.open...)
	s.ready = append(s.ready, piece{
		gap: s.any && s.blank, code: all, context: len(s.context), lang: s.lang,
	})
	s.any, s.blank = true, false
	s.context = all[max(0, len(all)-codeContext):]
	s.open, s.size = nil, 0
}

func indentation(l string) (int, string) {
	n := 0
	for i, r := range l {
		switch r {
		case ' ':
			n++
		case '\t':
			n += 4 - n%4
		default:
			return n, strings.TrimRight(l[i:], " \t")
		}
	}
	return n, ""
}

// fence returns the mark that opens a code block, or "".
func fence(text string) string {
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(text, c)
		if n := len(text) - len(rest); n >= 3 && (c == "~" || !strings.Contains(rest, "`")) {
			return text[:n]
		}
	}
	return ""
}

func heading(text string) bool {
	rest := strings.TrimLeft(text, "#")
	n := len(text) - len(rest)
	return 1 <= n && n <= 6 && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// rule reports whether a line is a thematic break.
func rule(text string) bool {
	c := text[:1]
	return strings.ContainsAny(c, "-*_") && strings.Trim(text, c+" \t") == "" && strings.Count(text, c) >= 3
}

// marker returns -1 for a bullet item, the number plus one for an ordered item, and 0 if the
// line begins no item.
func marker(text string) int {
	if text == "" {
		return 0
	}
	if strings.ContainsAny(text[:1], "-*+") {
		if len(text) == 1 || text[1] == ' ' || text[1] == '\t' {
			return -1
		}
		return 0
	}
	n, i := 0, 0
	for i < len(text) && i < 9 && '0' <= text[i] && text[i] <= '9' {
		n = n*10 + int(text[i]-'0')
		i++
	}
	if i == 0 || i == len(text) || text[i] != '.' && text[i] != ')' {
		return 0
	}
	if i+1 < len(text) && text[i+1] != ' ' && text[i+1] != '\t' {
		return 0
	}
	return n + 1
}
