// Package markup writes HTML in which the texts of strangers stay texts.
//
// What is markup has a type of its own, [HTML], whose values are constants of the program. Everything else that a
// [Page] writes is escaped, with the characters that hide or reorder text made visible. So no text can become an
// element, and a program that gives a text where markup belongs does not compile:
//
//	var p markup.Page
//	p.F(`<li title="%s">%s, %d files</li>`, path, name, n)
//
// It is not html/template because of the program's size: one call that reaches text/template makes the linker keep
// every exported method, 4 MB here.
package markup

import (
	"bytes"
	"fmt"
	"html"
	"net/url"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// HTML is markup. A value is a constant, or comes from this package; no text is converted to it.
type HTML string

// A Page collects HTML. The zero Page is empty. It is not safe for concurrent use.
type Page struct{ bytes.Buffer }

// F writes a format of package fmt. An HTML among args is written as it is, numbers and bools are formatted, and all
// else is text. A verb for a text stands in an element or in an attribute within double quotes, and never in a script
// or a style, nor in an attribute that is one.
func (p *Page) F(format HTML, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case HTML:
			args[i] = string(a)
		case int, int64, float64, bool:
		case string:
			args[i] = Escape(a)
		default:
			args[i] = Escape(fmt.Sprint(a))
		}
	}
	fmt.Fprintf(&p.Buffer, string(format), args...)
}

// HTML returns what was written.
func (p *Page) HTML() HTML { return HTML(p.String()) }

// Escape returns a text for use in an element, or in an attribute within double quotes. Characters that cannot be seen,
// or that reorder text, are written as escapes such as \u202e.
func Escape(s string) string {
	return html.EscapeString(plain.Text(strings.ReplaceAll(s, "\r\n", "\n")))
}

// Address returns the address of a page of the same server, for an attribute: a constant path, and pairs of names and
// values for its query. A pair whose value is "" is left out.
func Address(path HTML, pairs ...string) HTML {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + HTML(html.EscapeString(query.Encode()))
}
