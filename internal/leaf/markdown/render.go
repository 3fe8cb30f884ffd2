package markdown

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// Render renders a whole text as lines of at most width cells; lines of code may be longer.
func Render(src string, width int) []styled.Line {
	var s Stream
	s.Write(src)
	s.Close()
	return s.Take(width)
}

// A renderer renders one part of a document.
type renderer struct {
	parser parser.Parser
	src    []byte
	width  int
	start  int // the number of the first item of an ordered list; 0: not set
	lines  []styled.Line
	// first begins the first line of the block, rest all others.
	first, rest styled.Line
}

// render renders one or more blocks.
func (r *renderer) render(src string) []styled.Line {
	r.src = []byte(src)
	r.blocks(r.parser.Parse(text.NewReader(r.src)))
	return r.lines
}

func (r *renderer) blocks(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if c != n.FirstChild() && c.HasBlankPreviousLines() {
			r.put(nil)
		}
		r.block(c)
	}
}

func (r *renderer) put(l styled.Line) {
	line := append(append(styled.Line(nil), r.first...), l...)
	r.lines = append(r.lines, line)
	r.first = r.rest
}

// proseCells is the maximum width of prose: longer lines are hard to read. Tables and code use the whole width.
const proseCells = 100

func (r *renderer) wrap(l styled.Line) {
	r.lines = append(r.lines, styled.Wrap(l, min(r.width, proseCells), r.first, r.rest)...)
	r.first = r.rest
}

func (r *renderer) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		r.paragraph(n, headings[min(max(n.Level, 1), len(headings))-1])
	case *ast.Paragraph:
		if rows, columns, ok := table(n, r.src); ok {
			r.table(rows, columns)
			return
		}
		if formula(n, r.src) {
			r.code(Highlight("", Lines(n, r.src)))
			return
		}
		r.paragraph(n, styled.Text)
	case *ast.TextBlock:
		r.paragraph(n, styled.Text)
	case *ast.Blockquote:
		bar := styled.S(styled.Quote, "│ ")
		r.nested(bar, bar, func() { r.blocks(n) })
	case *ast.ThematicBreak:
		used := r.first.Width()
		r.put(styled.S(styled.Dim, strings.Repeat("─", max(1, min(r.width-used, 40)))))
	case *ast.List:
		r.list(n)
	case *ast.FencedCodeBlock:
		r.code(Highlight(string(n.Language(r.src)), Lines(n, r.src)))
	case *ast.CodeBlock:
		r.code(Highlight("", Lines(n, r.src)))
	default:
		r.blocks(n)
	}
}

// headings are the styles of headings, by their level. They also differ where there are no colours.
var headings = []styled.Style{styled.Heading | styled.Bold | styled.Underline, styled.Heading | styled.Bold,
	styled.Bold | styled.Italic, styled.Underline, styled.Italic | styled.Underline, styled.Italic}

// nested renders with first before the next line and rest before the following ones. If these
// would take more than half of the width, it leaves them out.
func (r *renderer) nested(first, rest styled.Line, do func()) {
	outer := r.rest
	if outer.Width()+rest.Width() > r.width/2 {
		do()
		return
	}
	r.first = append(append(styled.Line(nil), r.first...), first...)
	r.rest = append(append(styled.Line(nil), r.rest...), rest...)
	n := len(r.lines)
	do()
	if len(r.lines) == n {
		r.put(nil) // an empty item must still be shown
	}
	r.first, r.rest = outer, outer
}

func (r *renderer) list(n *ast.List) {
	number := n.Start
	if r.start > 0 {
		number, r.start = r.start, 0
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if c != n.FirstChild() && c.HasBlankPreviousLines() {
			r.put(nil)
		}
		mark := "• "
		if n.IsOrdered() {
			mark = strconv.Itoa(number) + string(n.Marker) + " "
			number++
		}
		style := styled.Accent
		if done, ok := task(c, r.src); ok {
			mark, style = "☐ ", styled.Text
			if done {
				mark, style = "☑ ", styled.Good
			}
		}
		r.nested(styled.S(style, mark), styled.S(styled.Text, strings.Repeat(" ", styled.Width(mark))), func() {
			r.blocks(c)
		})
	}
}

// task reports whether an item of a list begins with a box, such as "[x] ", and whether it is marked.
func task(item ast.Node, src []byte) (done, ok bool) {
	first := item.FirstChild()
	if first == nil || first.Lines() == nil || first.Lines().Len() == 0 {
		return false, false
	}
	at := first.Lines().At(0)
	return Box(string(at.Value(src)))
}

// Box reports whether a text begins with the box of a task, and whether it is marked.
func Box(text string) (done, ok bool) {
	if len(text) < 4 || text[0] != '[' || text[2:4] != "] " {
		return false, false
	}
	return text[1] == 'x' || text[1] == 'X', strings.IndexByte(" xX", text[1]) >= 0
}

// code adds lines of code without a border, and leaves the wrapping of long lines to the
// terminal, so that text copied from the screen is exactly the code. In a list or a quote,
// long lines are wrapped here.
func (r *renderer) code(lines []styled.Line) {
	for _, l := range lines {
		if len(r.first) == 0 && len(r.rest) == 0 {
			r.put(l)
			continue
		}
		for _, row := range styled.Break(l, max(1, r.width-r.rest.Width())) {
			r.put(row)
		}
	}
}

func (r *renderer) paragraph(n ast.Node, style styled.Style) {
	in := inline{src: r.src, style: style}
	if _, ok := n.Parent().(*ast.ListItem); ok && n.PreviousSibling() == nil {
		_, in.box = task(n.Parent(), r.src)
	}
	in.children(n)
	for _, l := range in.lines() {
		r.wrap(l)
	}
}

// inline collects the spans of a paragraph.
type inline struct {
	src   []byte
	style styled.Style
	link  string
	done  []styled.Line // lines ended by hard breaks
	spans styled.Line
	soft  bool // after a line break in the source
	box   bool // the text begins with the box of a task, which the mark of the item shows
}

func (in *inline) lines() []styled.Line { return append(in.done, in.spans) }

func (in *inline) put(style styled.Style, s string) {
	if s == "" {
		return
	}
	if in.soft && !(wide(lastRune(in.spans)) && wide(firstRune(s))) {
		in.spans = append(in.spans, styled.Span{Text: " ", Style: in.style & 0xff})
	}
	in.soft = false
	in.spans = append(in.spans, styled.Span{Text: s, Style: style, Link: in.link})
}

func (in *inline) children(n ast.Node) {
	for c := range Inlines(n, in.src) {
		if in.box && c.Node == nil { // "[x] " may be split at the brackets
			in.box = false
			c.Text = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(c.Text, "[ ] "), "[x] "), "[X] ")
		}
		switch {
		case c.Node != nil:
			in.node(c.Node)
		case in.link != "":
			in.put(in.style, plain.Line(c.Text))
		default:
			for piece, address := range Addresses(c.Text) {
				if address {
					in.linked(piece, func() { in.put(in.style, plain.Line(piece)) })
				} else {
					in.struck(piece)
				}
			}
		}
		switch {
		case c.Hard:
			in.done = append(in.done, in.spans)
			in.spans = nil
		case c.Soft:
			in.soft = true
		}
	}
}

// struck puts text whose parts between two tildes on each side are struck through.
func (in *inline) struck(s string) {
	for {
		from := strings.Index(s, "~~")
		to := -1
		if from >= 0 {
			to = strings.Index(s[from+2:], "~~")
		}
		if to < 1 || s[from+2] == ' ' || s[from+2] == '~' || s[from+1+to] == ' ' {
			in.put(in.style, plain.Line(s))
			return
		}
		in.put(in.style, plain.Line(s[:from]))
		in.put(in.style|styled.Strike, plain.Line(s[from+2:from+2+to]))
		s = s[from+4+to:]
	}
}

func lastRune(l styled.Line) rune {
	if len(l) == 0 {
		return 0
	}
	r, _ := utf8.DecodeLastRuneInString(l[len(l)-1].Text)
	return r
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// wide reports whether a character belongs to a script without spaces between words: two lines
// are joined without a space between two such characters.
func wide(r rune) bool {
	return r >= 0x1100 && styled.Width(string(r)) == 2 && !unicode.In(r, unicode.So, unicode.Hangul)
}

// with renders n in another style: its role replaces the current one, and its attributes are
// added.
func (in *inline) with(style styled.Style, n ast.Node) {
	outer := in.style
	in.style = outer | style
	in.children(n)
	in.style = outer
}

func (in *inline) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.Emphasis:
		in.with([]styled.Style{styled.Italic, styled.Bold}[min(n.Level, 2)-1], n)
	case *ast.CodeSpan:
		in.put(styled.InlineCode, plain.Line(CodeSpan(n, in.src)))
	case *ast.Link:
		in.linked(Destination(n.Destination), func() { in.children(n) })
	case *ast.Image: // images are not loaded: show a link
		in.linked(Destination(n.Destination), func() {
			in.put(in.style, "[image: ")
			in.children(n)
			in.put(in.style, "]")
		})
	case *ast.AutoLink:
		in.linked(AutoDestination(n, in.src), func() { in.put(in.style, plain.Line(string(n.Label(in.src)))) })
	case *ast.String:
		in.put(in.style, plain.Line(string(n.Value)))
	default:
		in.children(n)
	}
}

// linked renders the words of a link. If they do not show the host, it is added, so that the
// reader always sees where a link leads.
func (in *inline) linked(dest string, words func()) {
	if in.link != "" {
		words()
		return
	}
	to, ok := SafeURL(dest)
	outer, from := in.style, len(in.spans)
	if ok {
		in.link = to
		in.style = outer&^0xff | styled.LinkText | styled.Underline
	}
	words()
	in.style, in.link = outer, ""
	var shown styled.Line
	if from <= len(in.spans) {
		shown = in.spans[from:]
	}
	if hint := hidden(shown.String(), dest, to, ok); hint != "" {
		in.put(styled.Dim, " ("+plain.Line(hint)+")")
	}
}

// hidden returns the part of an address that the words of its link do not show but must be
// visible: the host, or the whole address if it is not safe to open.
func hidden(words, dest, to string, safe bool) string {
	if !safe {
		if dest == "" || strings.Contains(words, dest) {
			return ""
		}
		return dest
	}
	host := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(to, "https://"), "http://"), "mailto:")
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host = host[:i]
	}
	if strings.Contains(words, host) {
		return ""
	}
	return host
}

// table renders rows, the first of which is the head. The columns share the width: the widest
// are narrowed first, and their cells are wrapped. If there is not enough width for columns,
// each row becomes a list of "head: cell".
func (r *renderer) table(rows [][]string, columns []align) {
	cols := len(rows[0])
	cells := make([][]styled.Line, len(rows))
	widths := make([]int, cols)
	for i, row := range rows {
		cells[i] = make([]styled.Line, cols)
		for j, c := range row {
			style := styled.Text
			if i == 0 {
				style = styled.Bold
			}
			in := inline{src: []byte(c), style: style}
			if p := Cell(r.parser, c); p != nil {
				in.children(p)
			} else {
				in.put(style, plain.Line(c))
			}
			for _, l := range in.lines() {
				cells[i][j] = append(cells[i][j], l...)
			}
			widths[j] = max(widths[j], cells[i][j].Width())
		}
	}
	const gap = " │ "
	available := r.width - r.rest.Width() - len([]rune(gap))*(cols-1)
	if !shrinkColumns(widths, available) {
		r.records(cells)
		return
	}
	for i, row := range cells {
		r.tableRow(row, widths, columns, gap)
		if i == 0 {
			var rule []string
			for _, w := range widths {
				rule = append(rule, strings.Repeat("─", w))
			}
			r.put(styled.S(styled.Dim, strings.Join(rule, "─┼─")))
		}
	}
}

func (r *renderer) tableRow(row []styled.Line, widths []int, columns []align, gap string) {
	wrapped := make([][]styled.Line, len(row))
	height := 1
	for j, c := range row {
		wrapped[j] = styled.Wrap(c, widths[j], nil, nil)
		height = max(height, len(wrapped[j]))
	}
	for k := range height {
		var line styled.Line
		for j := range row {
			var part styled.Line
			if k < len(wrapped[j]) {
				part = wrapped[j][k]
			}
			before, after := 0, max(widths[j]-part.Width(), 0)
			switch columns[j] {
			case right:
				before, after = after, 0
			case center:
				before, after = after/2, after-after/2
			}
			if before > 0 && len(part) > 0 {
				line = append(line, styled.Span{Text: strings.Repeat(" ", before)})
			} else {
				after += before
			}
			line = append(line, part...)
			if j < len(row)-1 {
				if after > 0 {
					line = append(line, styled.Span{Text: strings.Repeat(" ", after)})
				}
				line = append(line, styled.Span{Text: gap, Style: styled.Dim})
			}
		}
		r.put(line)
	}
}

// shrinkColumns narrows the widest columns until their sum is at most the available cells. It returns false
// if a column would get fewer than 5.
func shrinkColumns(widths []int, available int) bool {
	const least = 5
	for {
		sum, widest := 0, 0
		for j, w := range widths {
			sum += w
			if w > widths[widest] {
				widest = j
			}
		}
		if sum <= available {
			return true
		}
		if widths[widest] <= least {
			return false
		}
		// Narrow to the second-widest at once, or by what is missing.
		second := least
		for j, w := range widths {
			if j != widest && w < widths[widest] {
				second = max(second, w)
			}
		}
		widths[widest] -= max(1, min(sum-available, widths[widest]-second))
	}
}

func (r *renderer) records(rows [][]styled.Line) {
	for i, row := range rows[1:] {
		if i > 0 {
			r.put(nil)
		}
		for j, c := range row {
			l := append(append(styled.Line(nil), rows[0][j]...), styled.Span{Text: ": "})
			r.wrap(append(l, c...))
		}
	}
}
