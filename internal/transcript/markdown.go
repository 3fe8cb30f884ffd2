package transcript

import (
	"bytes"
	"html"
	"net/url"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxMarkdown bounds what is read as Markdown, in bytes; a longer text is
// shown as it is.
const maxMarkdown = 32 << 10

// markdownParser knows no HTML at all: tags are text. Tables and bare links are
// ours, because goldmark's extensions would cost every start of the program
// 0.4 ms.
func markdownParser() parser.Parser {
	in := util.Prioritized
	return parser.NewParser(
		parser.WithBlockParsers(
			in(parser.NewSetextHeadingParser(), 100), in(parser.NewThematicBreakParser(), 200),
			in(parser.NewListParser(), 300), in(parser.NewListItemParser(), 400),
			in(parser.NewCodeBlockParser(), 500), in(parser.NewATXHeadingParser(), 600),
			in(parser.NewFencedCodeBlockParser(), 700), in(parser.NewBlockquoteParser(), 800),
			in(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			in(parser.NewCodeSpanParser(), 100), in(parser.NewLinkParser(), 200),
			in(parser.NewAutoLinkParser(), 300), in(parser.NewEmphasisParser(), 500),
		),
		parser.WithParagraphTransformers(in(parser.LinkReferenceParagraphTransformer, 100)),
	)
}

// markdown writes what a model said. The tags are those below and no others.
func (p page) markdown(src string) {
	src = visible(src)
	if len(src) > maxMarkdown {
		p.pre("", src)
		return
	}
	marked{page: p, parser: markdownParser()}.parse(src)
}

// marked writes a tree of Markdown.
type marked struct {
	page
	parser parser.Parser
	src    []byte
	inLink bool
}

func (m marked) parse(src string) {
	m.src = []byte(src)
	m.children(m.parser.Parse(text.NewReader(m.src)))
}

func (m marked) children(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		t, ok := c.(*ast.Text)
		if !ok {
			m.node(c)
			continue
		}
		// The parser parts text at marks that turn out to be none.
		last := t
		for {
			next, ok := last.NextSibling().(*ast.Text)
			if !ok || last.SoftLineBreak() || last.HardLineBreak() || next.IsRaw() != t.IsRaw() || next.Segment.Start != last.Segment.Stop {
				break
			}
			last = next
		}
		c = last
		m.text(string(m.src[t.Segment.Start:last.Segment.Stop]), last)
	}
}

// text writes a run of text, of which last is the end.
func (m marked) text(s string, last *ast.Text) {
	if last.IsRaw() {
		m.put(esc(s))
	} else {
		m.linked(unescape(s))
	}
	if last.HardLineBreak() {
		m.put("<br>")
	}
	if last.HardLineBreak() || last.SoftLineBreak() {
		m.put("\n")
	}
}

func (m marked) in(tag string, n ast.Node) {
	m.put("<", tag, ">")
	m.children(n)
	m.put("</", tag, ">")
	if n.Type() == ast.TypeBlock {
		m.put("\n")
	}
}

func (m marked) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		// Below the two levels of the page itself.
		m.in([]string{"h3", "h4", "h5", "h6"}[min(n.Level, 4)-1], n)
	case *ast.Paragraph:
		if !m.table(n.Lines()) {
			m.in("p", n)
		}
	case *ast.TextBlock:
		m.children(n)
	case *ast.Blockquote:
		m.in("blockquote", n)
	case *ast.ThematicBreak:
		m.put("<hr>\n")
	case *ast.List:
		switch {
		case !n.IsOrdered():
			m.in("ul", n)
		case n.Start != 1:
			m.put(`<ol start="`, strconv.Itoa(n.Start), `">`)
			m.children(n)
			m.put("</ol>\n")
		default:
			m.in("ol", n)
		}
	case *ast.ListItem:
		m.in("li", n)
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		var b bytes.Buffer
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			b.Write(line.Value(m.src))
		}
		m.pre("code", strings.TrimSuffix(b.String(), "\n"))
	case *ast.Emphasis:
		m.in([]string{"em", "strong"}[min(n.Level, 2)-1], n)
	case *ast.CodeSpan:
		m.put("<code>")
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			if t, ok := c.(*ast.Text); ok {
				m.put(esc(strings.ReplaceAll(string(t.Segment.Value(m.src)), "\n", " ")))
			}
		}
		m.put("</code>")
	case *ast.Link:
		m.link(unescape(string(n.Destination)), func(m marked) { m.children(n) })
	case *ast.Image: // nothing is loaded: it is a link
		m.link(unescape(string(n.Destination)), func(m marked) {
			m.put("[image: ")
			m.children(n)
			m.put("]")
		})
	case *ast.AutoLink:
		dest := string(n.URL(m.src))
		if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(dest), "mailto:") {
			dest = "mailto:" + dest
		}
		m.link(dest, func(m marked) { m.put(esc(string(n.Label(m.src)))) })
	case *ast.String:
		m.put(esc(string(n.Value)))
	default:
		m.children(n)
	}
}

// link writes a link to a place that a browser may open without harm, and only
// the words of any other. The title shows where it leads.
func (m marked) link(dest string, words func(marked)) {
	to, ok := harmless(dest)
	if !ok || m.inLink {
		words(m)
		if dest != "" {
			m.put(` <span class="dest">(`, esc(dest), `)</span>`)
		}
		return
	}
	to = esc(to)
	m.put(`<a rel="noopener noreferrer" href="`, to, `" title="`, to, `">`)
	m.inLink = true
	words(m)
	m.put("</a>")
}

// harmless says whether a browser may be led to an address, and spells it so
// that it means the same to all readers.
func harmless(dest string) (string, bool) {
	u, err := url.Parse(dest)
	if err != nil {
		return "", false
	}
	switch u.Scheme {
	case "http", "https":
		return u.String(), u.Host != ""
	case "mailto":
		return u.String(), u.Opaque != ""
	}
	return "", false
}

// linked writes text in which an address is a link.
func (m marked) linked(s string) {
	for {
		i := strings.Index(s, "http://")
		if j := strings.Index(s, "https://"); i < 0 || j >= 0 && j < i {
			i = j
		}
		if i < 0 || m.inLink {
			m.put(esc(s))
			return
		}
		n := strings.IndexFunc(s[i:], func(r rune) bool { return r <= ' ' || strings.ContainsRune("<>\"`|", r) })
		if n < 0 {
			n = len(s) - i
		}
		to := strings.TrimRight(s[i:i+n], ".,;:!?'*_~)]}")
		if open := strings.Count(to, "("); open > strings.Count(to, ")") && strings.HasPrefix(s[i+len(to):], ")") {
			to += ")"
		}
		m.put(esc(s[:i]))
		if _, ok := harmless(to); ok {
			m.link(to, func(m marked) { m.put(esc(to)) })
		} else {
			m.put(esc(to))
		}
		s = s[i+len(to):]
	}
}

// table writes a paragraph as the table that it is, if its second line is the
// rule under a head.
func (m marked) table(lines *text.Segments) bool {
	if lines.Len() < 2 {
		return false
	}
	row := func(i int) []string { return cells(string(m.line(lines, i))) }
	head, rule := row(0), row(1)
	if len(head) != len(rule) || !strings.Contains(string(m.line(lines, 1)), "|") {
		return false
	}
	for _, c := range rule {
		if c = strings.TrimSuffix(strings.TrimPrefix(c, ":"), ":"); c == "" || strings.Trim(c, "-") != "" {
			return false
		}
	}
	m.put(`<div class="table"><table>` + "\n")
	for i := range lines.Len() {
		if i == 1 {
			continue
		}
		tag := "td"
		if i == 0 {
			tag = "th"
		}
		m.put("<tr>")
		for j, c := range row(i) {
			if j == len(head) {
				break
			}
			m.put("<", tag, ">")
			m.cell(c)
			m.put("</", tag, ">")
		}
		m.put("</tr>\n")
	}
	m.put("</table></div>\n")
	return true
}

func (m marked) line(lines *text.Segments, i int) []byte {
	at := lines.At(i)
	return at.Value(m.src)
}

// cell writes the inside of a table's cell, which is one line without blocks.
func (m marked) cell(s string) {
	m.src = []byte(s)
	tree := m.parser.Parse(text.NewReader(m.src))
	if p, ok := tree.FirstChild().(*ast.Paragraph); ok && p.NextSibling() == nil {
		m.children(p)
		return
	}
	m.put(esc(s))
}

// cells splits a row of a table at the bars that no backslash stands before.
func cells(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "|")
	var all []string
	from := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '|':
			all = append(all, strings.TrimSpace(strings.ReplaceAll(line[from:i], `\|`, "|")))
			from = i + 1
		}
	}
	if rest := strings.TrimSpace(line[from:]); rest != "" {
		all = append(all, strings.ReplaceAll(rest, `\|`, "|"))
	}
	return all
}

// unescape takes the backslashes and entities out of Markdown.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var b strings.Builder
	from := 0 // what follows has no backslash that counts
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '\\' && util.IsPunct(s[i+1]) {
			b.WriteString(html.UnescapeString(s[from:i]))
			b.WriteByte(s[i+1])
			i++
			from = i + 1
		}
	}
	b.WriteString(html.UnescapeString(s[from:]))
	return b.String()
}
