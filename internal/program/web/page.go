package web

import (
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/knack-agent/knack/internal/leaf/markup"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A page collects the main part of a page, and knows what stands around it.
type page struct {
	markup.Page
	title   string
	section string
	dir     string // that the site is about
}

// A section is a part of the site.
type section struct {
	path markup.HTML
	name string
}

func sections() []section {
	return []section{
		{"/skills", "Skills"},
	}
}

// writeTo writes the whole page.
func (p *page) writeTo(w io.Writer) error {
	var out markup.Page
	out.F(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s · Knack</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
<script src="/page.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<p class="brand"><a href="/">Knack</a> <span class="place" title="%s">%s</span></p>
<nav aria-label="Pages"><ul>
`, p.title, p.dir, p.dir)
	for _, s := range sections() {
		current := markup.HTML("")
		if string(s.path) == p.section {
			current = ` aria-current="page"`
		}
		out.F("<li><a href=\"%s\"%s>%s</a></li>\n", s.path, current, s.name)
	}
	out.F("</ul></nav>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n%s</main>\n</body>\n</html>\n", p.HTML())
	_, err := out.WriteTo(w)
	return err
}

// A fact is a name and what is known by it.
type fact struct {
	name  string
	value markup.HTML
}

// text returns a fact whose value is a text; "" is left out.
func text(name, value string) fact { return fact{name, markup.HTML(markup.Escape(value))} }

// facts writes a list of what is known; those without a value are left out.
func (p *page) facts(all ...fact) {
	p.F("<dl class=\"facts\">\n")
	for _, f := range all {
		if f.value != "" {
			p.F("<div><dt>%s</dt><dd>%s</dd></div>\n", f.name, f.value)
		}
	}
	p.F("</dl>\n")
}

// chip returns a word in a frame, whose colour says what kind of state it is: good, warn, bad, or "" for the rest.
func chip(kind markup.HTML, word string) markup.HTML {
	var p markup.Page
	p.F(`<span class="chip %s">%s</span>`, kind, word)
	return p.HTML()
}

// perPage is how many rows of a list a page shows.
const perPage = 50

// A part is a part of a list: the rows from first to before end of all.
type part struct{ number, pages, first, end, all int }

// partOf returns the part of a list that a query asks for by its number, which counts from 1.
func partOf(query url.Values, all, size int) part {
	n, _ := strconv.Atoi(query.Get("page")) // no number: the first
	pages := max(1, (all+size-1)/size)
	n = min(max(n, 1), pages)
	return part{n, pages, min((n-1)*size, all), min(n*size, all), all}
}

// pager writes the way to the other parts of a list at an address.
func (p *page) pager(at part, path markup.HTML, query url.Values) {
	if at.pages == 1 {
		return
	}
	link := func(n int, rel, name markup.HTML) {
		if n < 1 || n > at.pages || n == at.number {
			p.F("<span class=\"off\">%s</span>\n", name)
			return
		}
		p.F("<a%s href=\"%s\">%s</a>\n", rel, with(path, query, "page", strconv.Itoa(n)), name)
	}
	p.F("<nav class=\"pager\" aria-label=\"Parts of the list\">\n")
	link(1, "", "First")
	link(at.number-1, ` rel="prev"`, "Previous")
	p.F("<span>%s of %s</span>\n", plain.Number(at.number), plain.Number(at.pages))
	link(at.number+1, ` rel="next"`, "Next")
	link(at.pages, "", "Last")
	p.F("</nav>\n")
}

// with returns the address of a page with one value of its query replaced; "" removes it.
func with(path markup.HTML, query url.Values, name, value string) markup.HTML {
	var pairs []string
	for key, values := range query {
		if key != name {
			pairs = append(pairs, key, values[0])
		}
	}
	return markup.Address(path, append(pairs, name, value)...)
}

// A choice is an option of a select.
type choice struct{ value, name string }

// choose writes a select with a label.
func (p *page) choose(label, name, chosen string, all []choice) {
	p.F("<label>%s <select name=\"%s\">\n", label, name)
	for _, c := range all {
		selected := markup.HTML("")
		if c.value == chosen {
			selected = " selected"
		}
		p.F("<option value=\"%s\"%s>%s</option>\n", c.value, selected, c.name)
	}
	p.F("</select></label>\n")
}

// begin sets the title and writes the heading of a page with a line below it.
func (p *page) begin(title, lead string) {
	p.title = title
	p.F("<h1>%s</h1>\n", title)
	if lead != "" {
		p.F("<p class=\"lead\">%s</p>\n", lead)
	}
}

// tokens formats an estimate of tokens.
func tokens(n int) string {
	if n >= 10_000 {
		return fmt.Sprintf("%dk", (n+500)/1000)
	}
	return plain.Number(n)
}
