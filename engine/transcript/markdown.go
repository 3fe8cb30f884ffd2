package transcript

import (
	"strconv"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/knack-agent/knack/internal/leaf/markdown"
)

// maxMarkdown is the maximum size of a text that is rendered as Markdown, in bytes; a longer
// text is shown unchanged.
const maxMarkdown = 32 << 10

// markdown writes a model's text as HTML, with no other tags than those in this file.
func (p htmlWriter) markdown(src string) {
	src = visible(src)
	if len(src) > maxMarkdown {
		p.pre("", src)
		return
	}
	htmlRenderer{htmlWriter: p, parser: markdown.NewParser()}.parse(src)
}

// An htmlRenderer writes a Markdown syntax tree as HTML.
type htmlRenderer struct {
	htmlWriter
	parser parser.Parser
	src    []byte
	inLink bool
}

func (m htmlRenderer) parse(src string) {
	m.src = []byte(src)
	m.children(m.parser.Parse(text.NewReader(m.src)))
}

func (m htmlRenderer) children(n ast.Node) {
	for c := range markdown.Inlines(n, m.src) {
		switch {
		case c.Node != nil:
			m.node(c.Node)
		case c.Raw:
			m.put(esc(c.Text))
		default:
			m.linked(c.Text)
		}
		if c.Hard {
			m.put("<br>")
		}
		if c.Hard || c.Soft {
			m.put("\n")
		}
	}
}

// in writes an element with the children of n.
func (m htmlRenderer) in(tag string, n ast.Node) {
	m.put("<", tag, ">")
	m.children(n)
	m.put("</", tag, ">")
	if n.Type() == ast.TypeBlock {
		m.put("\n")
	}
}

func (m htmlRenderer) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		// The page itself uses the first two levels.
		m.in([]string{"h3", "h4", "h5", "h6"}[min(n.Level, 4)-1], n)
	case *ast.Paragraph:
		if !m.table(n) {
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
		m.pre("code", markdown.Lines(n, m.src))
	case *ast.Emphasis:
		m.in([]string{"em", "strong"}[min(n.Level, 2)-1], n)
	case *ast.CodeSpan:
		m.put("<code>", esc(markdown.CodeSpan(n, m.src)), "</code>")
	case *ast.Link:
		m.link(markdown.Destination(n.Destination), func(m htmlRenderer) { m.children(n) })
	case *ast.Image: // images are not loaded: write a link
		m.link(markdown.Destination(n.Destination), func(m htmlRenderer) {
			m.put("[image: ")
			m.children(n)
			m.put("]")
		})
	case *ast.AutoLink:
		m.link(markdown.AutoDestination(n, m.src), func(m htmlRenderer) { m.put(esc(string(n.Label(m.src)))) })
	case *ast.String:
		m.put(esc(string(n.Value)))
	default:
		m.children(n)
	}
}

// link writes a link if its address is safe to open, and otherwise its text followed by the
// address. words writes the text. The title attribute shows where the link leads.
func (m htmlRenderer) link(dest string, words func(htmlRenderer)) {
	to, ok := markdown.SafeURL(dest)
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

// linked writes text, with the web addresses in it as links.
func (m htmlRenderer) linked(s string) {
	if m.inLink {
		m.put(esc(s))
		return
	}
	for piece, address := range markdown.Addresses(s) {
		if address {
			m.link(piece, func(m htmlRenderer) { m.put(esc(piece)) })
		} else {
			m.put(esc(piece))
		}
	}
}

// table writes a paragraph that has the form of a table as one, and reports whether it did.
func (m htmlRenderer) table(n *ast.Paragraph) bool {
	rows, ok := markdown.Table(n, m.src)
	if !ok {
		return false
	}
	m.put(`<div class="table"><table>` + "\n")
	for i, row := range rows {
		tag := "td"
		if i == 0 {
			tag = "th"
		}
		m.put("<tr>")
		for _, c := range row {
			m.put("<", tag, ">")
			m.cell(c)
			m.put("</", tag, ">")
		}
		m.put("</tr>\n")
	}
	m.put("</table></div>\n")
	return true
}

// cell writes the content of a table cell, which is one line without blocks.
func (m htmlRenderer) cell(s string) {
	if p := markdown.Cell(m.parser, s); p != nil {
		m.src = []byte(s)
		m.children(p)
		return
	}
	m.put(esc(s))
}
