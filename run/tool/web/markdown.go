package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/knack-agent/knack/internal/leaf/pdftext"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// markdown converts trees of HTML. It is made when it is first needed, and may be used by several goroutines.
var markdown = sync.OnceValue(func() *converter.Converter {
	return converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin()))
})

// Limits of what is converted, which takes up to a second and 200 MB. Of other pages only the text is shown.
const (
	maxNodes   = 400_000 // of the tree, as estimated before it is made
	maxContent = 4 << 20 // bytes of text in the part that is shown
	maxTag     = 4 << 20 // bytes
)

// html sets the text and title of a page.
func (p *page) html(ctx context.Context, u *url.URL, text string) error {
	if err := tooManyNodes(ctx, text); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.Text = tokens(text)
		p.Notes = append(p.Notes, "The page is too large to be converted, so only its text is shown.")
		return nil
	}
	doc, err := html.Parse(&cancelled{ctx, strings.NewReader(text)})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil { // more than 512 elements inside each other
		p.Text = tokens(text)
		p.Notes = append(p.Notes, "The page cannot be parsed, so only its text is shown.")
		return nil
	}
	var found readable
	found.walk(doc)
	p.Title = strings.Join(strings.Fields(clip(found.title, 300)), " ")
	root := found.root(doc)
	prune(root, baseOf(u, found.base))
	size := 0
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			size += len(n.Data)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var out []byte
	if size <= maxContent {
		out, err = markdown().ConvertNode(root)
	}
	if err != nil || size > maxContent {
		p.Text = tokens(text)
		p.Notes = append(p.Notes, "The page cannot be converted, so only its text is shown.")
		return nil
	}
	p.Text = strings.TrimSpace(string(out)) + "\n"
	return nil
}

// cancelled is a reader that ends with its context.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

var errLarge = errors.New("too many nodes")

// tooManyNodes returns an error if the tree of a page could have more than maxNodes. A parser repeats the elements for
// formatting that are not closed in every paragraph that follows, so that the tree can be much larger than the page.
func tooManyNodes(ctx context.Context, text string) error {
	z := html.NewTokenizer(&cancelled{ctx, strings.NewReader(text)})
	z.SetMaxBuf(maxTag)
	nodes, open, byName := 0, 0, map[atom.Atom]int{}
	for nodes <= maxNodes {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() == io.EOF {
				return nil
			}
			return z.Err()
		case html.TextToken, html.CommentToken:
			nodes += 1 + open
		case html.StartTagToken, html.SelfClosingTagToken:
			nodes += 1 + open
			name, more := z.TagName()
			if a := formatting(name); a != 0 && (byName[a] == 0 || a != atom.A && a != atom.Nobr) {
				byName[a]++
				open++
			}
			for n := 0; more; n++ {
				_, _, more = z.TagAttr()
				nodes += n / 100 // hundreds of attributes
			}
		case html.EndTagToken:
			nodes++
			if name, _ := z.TagName(); byName[formatting(name)] > 0 {
				nodes += min(open, 24) // copies of what is closed in the wrong order
				byName[formatting(name)]--
				open--
			}
		}
	}
	return errLarge
}

// formatting returns the name of an element if it is one that a parser opens again in the next paragraph, else 0.
func formatting(name []byte) atom.Atom {
	switch a := atom.Lookup(name); a {
	case atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small, atom.Strike,
		atom.Strong, atom.Tt, atom.U:
		return a
	}
	return 0
}

// readable is what a first walk through a page finds.
type readable struct {
	title    string
	base     string
	main     *html.Node
	articles []*html.Node
	body     *html.Node
}

func (r *readable) walk(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode {
			switch c.DataAtom {
			case atom.Title:
				if r.title == "" && c.FirstChild != nil {
					r.title = c.FirstChild.Data
				}
				continue
			case atom.Base:
				if r.base == "" {
					r.base = attr(c, "href")
				}
			case atom.Body:
				r.body = c
			case atom.Main:
				if r.main == nil && !hidden(c) {
					r.main = c
				}
			case atom.Article:
				r.articles = append(r.articles, c)
			default:
				if r.main == nil && attr(c, "role") == "main" && !hidden(c) {
					r.main = c
				}
			}
		}
		r.walk(c)
	}
}

// root returns the part of the page to show: main, else the only article, else everything.
func (r *readable) root(doc *html.Node) *html.Node {
	switch {
	case r.main != nil:
		return r.main
	case len(r.articles) == 1 && !hidden(r.articles[0]):
		return r.articles[0]
	case r.body != nil:
		return r.body
	}
	return doc
}

// prune removes what is not content, and makes links absolute.
func prune(n *html.Node, base *url.URL) {
	p := pruner{base: base, cells: maxCells}
	p.prune(n, n.DataAtom == atom.Main || n.DataAtom == atom.Article, 0)
}

// Limits of what a short page can make the converter write: it fills up all rows of a table, with cells that span
// others repeated, and writes the marks of quotes and lists on each line in them.
const (
	maxCells   = 50_000 // of all tables of a page; the text of further tables is shown without the table
	maxNesting = 20     // quotes and lists within each other; those within are plain text
)

type pruner struct {
	base  *url.URL
	cells int // that tables may still have
}

// table replaces a table by its text if it has too many cells.
func (p *pruner) table(t *html.Node) {
	rows, columns := 0, 0
	for n := range t.Descendants() {
		if n.DataAtom != atom.Tr {
			continue
		}
		rows++
		width, height := 0, 1
		for c := range n.ChildNodes() {
			if c.DataAtom == atom.Td || c.DataAtom == atom.Th {
				width += span(c, "colspan")
				height = max(height, span(c, "rowspan"))
			}
		}
		rows, columns = rows+height-1, max(columns, width)
	}
	if rows == 0 || columns <= p.cells/rows {
		p.cells -= rows * columns
		return
	}
	for n := range t.Descendants() {
		switch n.DataAtom {
		case atom.Tr, atom.Td, atom.Th, atom.Thead, atom.Tbody, atom.Tfoot, atom.Caption:
			n.DataAtom, n.Data = atom.Div, "div"
		}
	}
	t.DataAtom, t.Data = atom.Div, "div"
}

// span returns how many columns or rows a cell takes.
func span(cell *html.Node, name string) int {
	n, err := strconv.Atoi(strings.TrimSpace(attr(cell, name)))
	if err != nil {
		return 1
	}
	return min(max(n, 1), maxCells)
}

// prune prunes the children of n, which is within so many quotes and lists. content means that n is in main or article.
func (p *pruner) prune(n *html.Node, content bool, nesting int) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && (furniture(c, content) || hidden(c)) {
			n.RemoveChild(c)
			c = next
			continue
		}
		if c.Type == html.ElementNode {
			absolute(c, "href", p.base)
			absolute(c, "src", p.base)
			within := nesting
			switch c.DataAtom {
			case atom.Table:
				p.table(c)
			case atom.Blockquote, atom.Ul, atom.Ol:
				if within++; within > maxNesting {
					c.DataAtom, c.Data = atom.Div, "div"
				}
			}
			p.prune(c, content || c.DataAtom == atom.Main || c.DataAtom == atom.Article, within)
		}
		c = next
	}
}

// furniture reports whether an element is part of a site rather than of the text. content means that it is inside main
// or article, where a header is the heading of the text.
func furniture(n *html.Node, content bool) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Nav, atom.Footer, atom.Aside, atom.Form, atom.Iframe,
		atom.Svg, atom.Canvas, atom.Object, atom.Embed, atom.Button, atom.Select, atom.Input, atom.Textarea, atom.Dialog:
		return true
	case atom.Header:
		return !content
	case atom.Img:
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(attr(n, "src"))), "data:")
	}
	switch attr(n, "role") {
	case "navigation", "contentinfo", "search":
		return true
	case "banner":
		return !content
	}
	return false
}

// hidden reports whether a reader of the page does not see an element.
func hidden(n *html.Node) bool {
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			if strings.EqualFold(strings.TrimSpace(a.Val), "true") {
				return true
			}
		case "style":
			style := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			for _, s := range []string{"display:none", "visibility:hidden", "opacity:0;", "font-size:0;", "font-size:0px"} {
				if strings.Contains(style+";", s) {
					return true
				}
			}
		}
	}
	return false
}

// absolute makes the URL in an attribute absolute, and removes one that is no address of a page.
func absolute(n *html.Node, key string, base *url.URL) {
	for i := range n.Attr {
		if n.Attr[i].Key != key {
			continue
		}
		u, err := base.Parse(strings.TrimSpace(n.Attr[i].Val))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
			n.Attr[i].Val = ""
			continue
		}
		n.Attr[i].Val = u.String()
	}
}

// baseOf returns the URL to which those of a page are relative.
func baseOf(u *url.URL, href string) *url.URL {
	if b, err := u.Parse(href); err == nil && (b.Scheme == "http" || b.Scheme == "https") {
		return b
	}
	return u
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// tokens returns the text of a page that cannot be parsed into a tree.
func tokens(text string) string {
	z := html.NewTokenizer(strings.NewReader(text))
	var b strings.Builder
	skip := atom.Atom(0) // the element whose text is left out
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' }), "\n") + "\n"
		case html.TextToken:
			if line := strings.TrimSpace(string(z.Text())); skip == 0 && line != "" {
				b.WriteString(line)
				b.WriteByte('\n')
			}
		case html.StartTagToken:
			name, _ := z.TagName()
			switch a := atom.Lookup(name); a {
			case atom.Script, atom.Style, atom.Title, atom.Noscript, atom.Template:
				if skip == 0 {
					skip = a
				}
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); atom.Lookup(name) == skip {
				skip = 0
			}
		}
	}
}

const (
	pdfTime = 20 * time.Second
	pdfText = 8 << 20 // bytes of text
)

// pdf sets the text of a PDF file.
func (p *page) pdf(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pdfTime, fmt.Errorf("it took longer than %v", pdfTime))
	defer cancel()
	pages, total, err := pdftext.Pages(ctx, data, pdfText)
	if err != nil {
		return fmt.Errorf("%s is a PDF file whose text cannot be read: %w", p.URL, err)
	}
	text := pdftext.Join(pages, total)
	if text == "" {
		return fmt.Errorf("%s is a PDF file without text (%s): its pages may be scanned images", p.URL,
			plain.Count(total, "page"))
	}
	p.Text, p.Hidden = plain.Visible(text)
	return nil
}
