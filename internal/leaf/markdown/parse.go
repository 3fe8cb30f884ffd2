// Package markdown parses the Markdown that models write, and renders it for a terminal.
//
// [Stream] renders text that arrives in pieces: its caller takes the final lines one after the
// other, and only the last open block stays in the Stream. The functions on syntax trees are
// also used by the HTML export of sessions.
//
// HTML is treated as text, nothing is loaded, and only http, https and mailto addresses become
// links.
package markdown

import (
	"html"
	"iter"
	"net/url"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// NewParser returns a CommonMark parser that treats HTML as text, and leaves formulas as they are written. [Table] and
// [Addresses] parse tables and bare addresses, because goldmark's own extensions would add 0.4 ms to every start of the
// program.
func NewParser() parser.Parser {
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
			in(parser.NewCodeSpanParser(), 100), in(mathParser{}, 150), in(parser.NewLinkParser(), 200),
			in(parser.NewAutoLinkParser(), 300), in(parser.NewEmphasisParser(), 500),
		),
		parser.WithParagraphTransformers(in(parser.LinkReferenceParagraphTransformer, 100)),
	)
}

// An Inline is a piece of a paragraph: text or another node.
type Inline struct {
	Node       ast.Node // nil for text
	Text       string   // the text to show, with escapes and entities resolved
	Raw        bool     // a formula: shown as it is written
	Soft, Hard bool     // a soft or hard line break follows
}

// Inlines yields the children of n in order. The parser splits text at marks that turn out to
// be ordinary characters; Inlines joins these pieces again.
func Inlines(n ast.Node, src []byte) iter.Seq[Inline] {
	return func(yield func(Inline) bool) {
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			t, ok := c.(*ast.Text)
			if !ok {
				if !yield(Inline{Node: c}) {
					return
				}
				continue
			}
			last := t
			for {
				next, ok := last.NextSibling().(*ast.Text)
				if !ok || last.SoftLineBreak() || last.HardLineBreak() ||
					next.IsRaw() != t.IsRaw() || next.Segment.Start != last.Segment.Stop {
					break
				}
				last = next
			}
			c = last
			s := string(src[t.Segment.Start:last.Segment.Stop])
			if !last.IsRaw() {
				s = unescape(s)
			}
			if !yield(Inline{Text: s, Raw: last.IsRaw(), Soft: last.SoftLineBreak(), Hard: last.HardLineBreak()}) {
				return
			}
		}
	}
}

// CodeSpan returns the text of a code span.
func CodeSpan(n *ast.CodeSpan, src []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.WriteString(strings.ReplaceAll(string(t.Segment.Value(src)), "\n", " "))
		}
	}
	return b.String()
}

// Lines returns the text of a code block, without the last newline.
func Lines(n ast.Node, src []byte) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(src))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Destination returns the address of a link or an image.
func Destination(dest []byte) string { return unescape(string(dest)) }

// AutoDestination returns the address of a link such as <https://go.dev>.
func AutoDestination(n *ast.AutoLink, src []byte) string {
	dest := string(n.URL(src))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(dest), "mailto:") {
		dest = "mailto:" + dest
	}
	return dest
}

// SafeURL reports whether a browser can open an address safely, and returns it in a form that
// all programs interpret the same way.
func SafeURL(dest string) (string, bool) {
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

// Addresses splits text at its http and https addresses. It yields each piece and whether it
// is an address.
func Addresses(s string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for {
			i := strings.Index(s, "http://")
			if j := strings.Index(s, "https://"); i < 0 || j >= 0 && j < i {
				i = j
			}
			if i < 0 {
				if s != "" {
					yield(s, false)
				}
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
			if i > 0 && !yield(s[:i], false) {
				return
			}
			if _, ok := SafeURL(to); !yield(to, ok) {
				return
			}
			s = s[i+len(to):]
		}
	}
}

// Table returns the rows of a paragraph that is a table, which means that its second line is
// the rule below the head. The rule is not included, and no row is longer than the head.
func Table(p *ast.Paragraph, src []byte) (rows [][]string, ok bool) {
	rows, _, ok = table(p, src)
	return rows, ok
}

// An align is how the cells of a column are set.
type align uint8

const (
	left align = iota
	center
	right
)

// table returns the rows of a table, and how its columns are set.
func table(p *ast.Paragraph, src []byte) (rows [][]string, columns []align, ok bool) {
	lines := p.Lines()
	if lines.Len() < 2 {
		return nil, nil, false
	}
	line := func(i int) string {
		at := lines.At(i)
		return string(at.Value(src))
	}
	head, rule := cells(line(0)), cells(line(1))
	if len(head) != len(rule) || !strings.Contains(line(1), "|") {
		return nil, nil, false
	}
	for _, c := range rule {
		bare := strings.TrimSuffix(strings.TrimPrefix(c, ":"), ":")
		if bare == "" || strings.Trim(bare, "-") != "" {
			return nil, nil, false
		}
		set := left
		switch {
		case strings.HasPrefix(c, ":") && strings.HasSuffix(c, ":"):
			set = center
		case strings.HasSuffix(c, ":"):
			set = right
		}
		columns = append(columns, set)
	}
	rows = append(rows, head)
	for i := 2; i < lines.Len(); i++ {
		row := cells(line(i))
		rows = append(rows, row[:min(len(row), len(head))])
	}
	return rows, columns, true
}

// Cell parses the content of a table cell. It returns nil if the content is not a single
// paragraph and must be shown unchanged.
func Cell(p parser.Parser, s string) *ast.Paragraph {
	tree := p.Parse(text.NewReader([]byte(s)))
	if par, ok := tree.FirstChild().(*ast.Paragraph); ok && par.NextSibling() == nil {
		return par
	}
	return nil
}

// cells splits a table row at the bars that are not escaped by a backslash.
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

// unescape resolves the backslash escapes and entities of Markdown.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var b strings.Builder
	from := 0 // start of the text that is not copied yet
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
