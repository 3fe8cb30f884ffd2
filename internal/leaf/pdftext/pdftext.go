package pdftext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Pages returns the text of each page, in reading order if the file's own order is that. For a
// page that cannot be read, the text is the reason in brackets. Pages stops early when the
// text is longer than maxText bytes. total is the number of pages in the file.
func Pages(ctx context.Context, data []byte, maxText int) (pages []string, total int, err error) {
	d, err := open(data)
	if err != nil {
		return nil, 0, err
	}
	all := d.pages()
	if len(all) == 0 {
		return nil, 0, errors.New("it has no pages")
	}
	size, fonts := 0, map[ref]*font{}
	for _, p := range all {
		if err := context.Cause(ctx); err != nil {
			return nil, 0, err
		}
		w := &writer{ctx: ctx, d: d, fonts: fonts, maxText: maxText}
		err := w.page(p)
		body := strings.TrimSpace(strings.ToValidUTF8(w.out.String(), "\ufffd"))
		if err != nil && body == "" {
			body = "[This page cannot be read: " + err.Error() + ".]"
		}
		pages = append(pages, body)
		if size += len(body); size > maxText {
			break
		}
	}
	return pages, len(all), nil
}

// pages lists the pages in order. If the page tree is broken, it lists all objects that look
// like a page.
func (d *document) pages() []dict {
	var out []dict
	if i := bytes.LastIndex(d.data, []byte("/Root")); i >= 0 {
		root := d.dict((&lexer{data: d.data, at: i + len("/Root")}).next())
		seen := map[ref]bool{}
		var walk func(v any, resources any, depth int)
		walk = func(v, resources any, depth int) {
			if r, ok := v.(ref); ok {
				if seen[r] {
					return
				}
				seen[r] = true
			}
			node := d.dict(v)
			if node == nil || depth > maxDepth || len(out) >= maxPages {
				return
			}
			if r, ok := node["Resources"]; ok {
				resources = r
			}
			kids := d.array(node["Kids"])
			if kids == nil {
				page := dict{"Contents": node["Contents"], "Resources": resources}
				out = append(out, page)
				return
			}
			for _, k := range kids {
				walk(k, resources, depth+1)
			}
		}
		walk(root["Pages"], nil, 0)
	}
	if len(out) > 0 {
		return out
	}
	var numbers []ref
	for r := range d.places {
		numbers = append(numbers, r)
	}
	slices.Sort(numbers)
	for _, r := range numbers {
		if p, ok := d.get(r).(dict); ok && p["Type"] == name("Page") && len(out) < maxPages {
			out = append(out, p)
		}
	}
	return out
}

// A matrix transforms coordinates, as defined by PDF: x' = ax + cy + e.
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

func (m matrix) mul(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// graphics is the state that the operator q saves and Q restores.
type graphics struct {
	ctm                              matrix
	font                             *font
	size, leading, char, word, scale float64
}

// A writer interprets the operators of a page and writes its text.
type writer struct {
	ctx     context.Context
	d       *document
	fonts   map[ref]*font
	maxText int
	out     strings.Builder

	g            graphics
	saved        []graphics
	tm, tlm      matrix
	endX, endY   float64 // where the last character ended, on the page
	height       float64 // height of the last character
	started      bool
	forms, steps int
}

func (w *writer) page(p dict) error {
	w.g = graphics{ctm: identity, scale: 1}
	var content []byte
	parts := w.d.array(p["Contents"])
	if parts == nil {
		parts = array{p["Contents"]}
	}
	var problem error
	for _, part := range parts {
		s, ok := w.d.get(part).(stream)
		if !ok {
			continue
		}
		data, err := w.d.decode(s)
		if err != nil {
			problem = err
		}
		if content = append(append(content, data...), '\n'); len(content) > maxStream {
			return errors.New("it is too large when decompressed")
		}
	}
	if err := w.run(content, w.d.dict(p["Resources"]), 0); err != nil {
		return err
	}
	return problem
}

func (w *writer) run(content []byte, resources dict, depth int) error {
	l := lexer{data: content}
	var args []any
	for {
		v := l.next()
		word, ok := v.(op)
		if !ok {
			if len(args) < maxOperands {
				args = append(args, v)
			}
			continue
		}
		if word == eof {
			return nil
		}
		if w.steps++; w.steps%4096 == 0 && w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		if w.out.Len() > w.maxText {
			return nil
		}
		if word == "ID" { // an inline image: skip bytes up to EI
			end := bytes.Index(l.data[l.at:], []byte("EI"))
			for end >= 0 && l.at+end+2 < len(l.data) && (!isSpace(l.data[l.at+end+2]) || end > 0 &&
				!isSpace(l.data[l.at+end-1])) {
				more := bytes.Index(l.data[l.at+end+2:], []byte("EI"))
				if more < 0 {
					end = -1
					break
				}
				end += 2 + more
			}
			if end < 0 {
				return nil
			}
			l.at += end + 2
		} else if word == "Do" && len(args) == 1 {
			w.form(args[0], resources, depth)
		} else {
			w.do(string(word), args, resources)
		}
		args = args[:0]
	}
}

// form draws a form from the resources. Images are ignored: they have no text.
func (w *writer) form(v any, resources dict, depth int) {
	n, _ := v.(name)
	s, ok := w.d.get(w.d.dict(resources["XObject"])[n]).(stream)
	if w.forms++; !ok || s.dict["Subtype"] != name("Form") || depth > 10 || w.forms > 1000 {
		return
	}
	data, err := w.d.decode(s)
	if err != nil {
		return
	}
	own := w.d.dict(s.dict["Resources"])
	if own == nil {
		own = resources
	}
	saved, g := w.saved, w.g
	w.saved = nil
	if m, ok := toMatrix(w.d.array(s.dict["Matrix"])); ok {
		w.g.ctm = m.mul(w.g.ctm)
	}
	if err := w.run(data, own, depth+1); err != nil {
		w.forms = 1000 // it was stopped: draw no more forms
	}
	w.saved, w.g = saved, g
}

func toMatrix(args []any) (m matrix, ok bool) {
	if len(args) != len(m) {
		return m, false
	}
	for i := range m {
		if m[i], ok = args[i].(float64); !ok {
			return m, false
		}
	}
	return m, true
}

func (w *writer) do(word string, args []any, resources dict) {
	num := func(i int) float64 {
		if i < len(args) {
			if f, ok := args[i].(float64); ok {
				return f
			}
		}
		return 0
	}
	g := &w.g
	switch word {
	case "q":
		if len(w.saved) < 1000 {
			w.saved = append(w.saved, *g)
		}
	case "Q":
		if n := len(w.saved); n > 0 {
			*g, w.saved = w.saved[n-1], w.saved[:n-1]
		}
	case "cm":
		if m, ok := toMatrix(args); ok {
			g.ctm = m.mul(g.ctm)
		}
	case "BT":
		w.tm, w.tlm = identity, identity
	case "Tf":
		if len(args) == 2 {
			n, _ := args[0].(name)
			g.font, g.size = w.font(w.d.dict(resources["Font"])[n]), num(1)
		}
	case "TL":
		g.leading = num(0)
	case "Tc":
		g.char = num(0)
	case "Tw":
		g.word = num(0)
	case "Tz":
		g.scale = num(0) / 100
	case "Tm":
		if m, ok := toMatrix(args); ok {
			w.tm, w.tlm = m, m
		}
	case "Td":
		w.move(num(0), num(1))
	case "TD":
		g.leading = -num(1)
		w.move(num(0), num(1))
	case "T*":
		w.move(0, -g.leading)
	case "Tj":
		w.show(args)
	case "'":
		w.move(0, -g.leading)
		w.show(args)
	case "\"":
		g.word, g.char = num(0), num(1)
		w.move(0, -g.leading)
		if len(args) == 3 {
			w.show(args[2:])
		}
	case "TJ":
		if len(args) == 1 {
			list, _ := args[0].(array)
			w.show(list)
		}
	}
}

func (w *writer) move(x, y float64) {
	w.tlm = matrix{1, 0, 0, 1, x, y}.mul(w.tlm)
	w.tm = w.tlm
}

// show writes strings. Numbers between them shift the following text.
func (w *writer) show(parts []any) {
	g := &w.g
	for _, p := range parts {
		switch p := p.(type) {
		case float64:
			w.advance(-p / 1000 * g.size * g.scale)
		case text:
			if g.font == nil {
				g.font = w.font(nil)
			}
			for _, c := range g.font.decode(string(p)) {
				w.place(c.text)
				step := c.width/1000*g.size + g.char
				if c.space {
					step += g.word
				}
				w.advance(step * g.scale)
				at := w.tm.mul(g.ctm)
				w.endX, w.endY = at[4], at[5]
			}
		}
	}
}

func (w *writer) advance(x float64) { w.tm = matrix{1, 0, 0, 1, x, 0}.mul(w.tm) }

// place writes a character, preceded by a line break or a blank if there is a gap after the
// last one.
func (w *writer) place(s string) {
	at := w.tm.mul(w.g.ctm)
	height := math.Abs(w.g.size) * math.Hypot(at[2], at[3])
	if w.started && s != " " {
		near := max(height, w.height, 1e-6)
		switch dx, dy := at[4]-w.endX, at[5]-w.endY; {
		case math.Abs(dy) > near/2:
			w.out.WriteByte('\n')
		case dx > near/5 || dx < -near:
			if !strings.HasSuffix(w.out.String(), " ") {
				w.out.WriteByte(' ')
			}
		}
	}
	w.out.WriteString(s)
	w.started, w.height = true, height
}

// Join returns the text of pages as one text with the number of each page; "" if no page has text. total is the number
// of pages of the file: if there are more than those given, the last line says so.
func Join(pages []string, total int) string {
	var b strings.Builder
	for i, p := range pages {
		if p != "" {
			fmt.Fprintf(&b, "[Page %d of %d]\n%s\n\n", i+1, total, p)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	if left := total - len(pages); left > 0 {
		fmt.Fprintf(&b, "[The text ends here; %s left.]\n", plain.Count(left, "page"))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
