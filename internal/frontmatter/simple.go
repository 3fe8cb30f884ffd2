package frontmatter

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// simple parses the YAML that most frontmatter consists of, in a tenth of the YAML library's
// time and into the same tree: keys with text, numbers, lists of words, block texts, JSON on
// one line, and mappings of these. It returns nil for anything that could be interpreted
// differently; then the library must parse it. A fuzz test compares the results of both.
func simple(text []byte) *yaml.Node {
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return nil
	}
	r := plainReader{rest: text}
	r.next()
	root := r.mapping(0, 0)
	if root == nil || !r.done {
		return nil
	}
	return root
}

// A plainReader reads a text line by line.
type plainReader struct {
	rest   []byte
	line   []byte // the current line without indentation and trailing blanks
	indent int
	ends   bool // the line had trailing blanks
	n      int  // line number, from 1
	done   bool
}

// next reads the next line. A blank line gets the indentation -1, which matches nothing.
func (r *plainReader) next() {
	if len(r.rest) == 0 {
		r.done = true
		return
	}
	var l []byte
	l, r.rest = cutLine(r.rest)
	r.n++
	r.line = bytes.TrimLeft(l, " ")
	r.indent = len(l) - len(r.line)
	r.line = bytes.TrimRight(r.line, " ")
	r.ends = r.indent+len(r.line) < len(l)
	if len(r.line) == 0 {
		r.indent, r.ends = -1, len(l) > 0
	}
}

// mapping parses the lines with the given indentation. It returns nil if they are not simple.
func (r *plainReader) mapping(indent, depth int) *yaml.Node {
	const maxNesting, deep = 64, 8 // beyond these limits the library must parse it
	m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: r.n, Column: indent + 1}
	if r.indent != indent || depth > deep {
		return nil
	}
	m.Content = make([]*yaml.Node, 0, 12)
	for !r.done && r.indent == indent {
		colon := bytes.IndexByte(r.line, ':')
		if colon <= 0 || colon > 128 || len(m.Content) >= 2*maxNesting {
			return nil
		}
		name := r.line[:colon]
		if !isLetter(name[0]) || word(name) {
			return nil
		}
		for _, c := range name {
			if !isLetter(c) && c != '-' && c != '_' {
				return nil
			}
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(name), Line: r.n, Column: indent + 1}
		for i := 0; i < len(m.Content); i += 2 {
			if m.Content[i].Value == key.Value {
				return nil
			}
		}
		var value *yaml.Node
		switch after := r.line[colon+1:]; {
		case len(after) == 0: // the value is on the following lines
			if r.next(); r.done || r.indent < indent {
				return nil
			}
			switch {
			case r.line[0] == '-':
				value = r.sequence(r.indent)
			case r.indent <= indent:
			case isLetter(r.line[0]) && !marked(r.line):
				value = r.text(r.line, indent, r.indent+1)
			default:
				value = r.mapping(r.indent, depth+1)
			}
		case after[0] != ' ':
			return nil
		default:
			v := bytes.TrimLeft(after, " ")
			at := indent + 1 + len(r.line) - len(v) // names are ASCII, so bytes are columns
			switch v[0] {
			case '>', '|':
				value = r.block(string(v), indent, at)
			case '[', '{':
				value = flow(v, r.n, at)
				r.next()
			default:
				value = r.text(v, indent, at)
			}
		}
		if value == nil {
			return nil
		}
		m.Content = append(m.Content, key, value)
	}
	if !r.done && (r.indent > indent || r.indent < 0) {
		return nil // a continued text or a blank line
	}
	return m
}

// sequence parses lines of the form `- text`.
func (r *plainReader) sequence(indent int) *yaml.Node {
	s := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: r.n, Column: indent + 1}
	for !r.done && r.indent == indent && bytes.HasPrefix(r.line, []byte("- ")) {
		v := bytes.TrimLeft(r.line[2:], " ")
		item := scalar(v, r.n, indent+1+len(r.line)-len(v))
		if item == nil {
			return nil
		}
		s.Content = append(s.Content, item)
		r.next()
	}
	if len(s.Content) == 0 || !r.done && r.indent > indent {
		return nil
	}
	return s
}

// block parses a folded or literal block text below its key.
func (r *plainReader) block(head string, indent, column int) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Line: r.n, Column: column}
	folded := head[0] == '>'
	if folded {
		n.Style = yaml.FoldedStyle
	}
	if head[1:] != "" && head[1:] != "-" {
		return nil
	}
	r.next()
	base := r.indent
	if r.done || base <= indent {
		return nil
	}
	var b strings.Builder
	blanks := 0 // number of blank lines since the last non-blank one
	for !r.done && (r.indent >= base || r.indent < 0) {
		if r.indent < 0 {
			if r.ends {
				return nil // its blanks may be significant
			}
			blanks++
			r.next()
			continue
		}
		// Trailing blanks and additional leading blanks are significant; the library must
		// handle them.
		if r.indent > base || !printable(r.line) || r.ends {
			return nil
		}
		switch {
		case b.Len() == 0 && blanks == 0:
		case folded && blanks == 0:
			b.WriteByte(' ')
		case folded:
			b.WriteString(strings.Repeat("\n", blanks))
		default:
			b.WriteString(strings.Repeat("\n", blanks+1))
		}
		blanks = 0
		b.Write(r.line)
		r.next()
	}
	if !r.done && r.indent > indent {
		return nil
	}
	if head[1:] == "" {
		b.WriteByte('\n')
	}
	n.Value = b.String()
	return n
}

// text parses a value that begins on this line. A plain value may continue on the lines below;
// the line breaks become spaces.
func (r *plainReader) text(v []byte, indent, column int) *yaml.Node {
	n := scalar(v, r.n, column)
	if r.next(); n == nil || n.Style != 0 || n.Tag != "!!str" || r.done || r.indent <= indent {
		return n
	}
	var b strings.Builder
	b.WriteString(n.Value)
	for ; !r.done && r.indent > indent; r.next() {
		if r.line[0] == '#' || marked(r.line) || !printable(r.line) {
			return nil
		}
		b.WriteByte(' ')
		b.Write(r.line)
	}
	n.Value = b.String()
	return n
}

// flow parses a list or a mapping on one line: [a, b], {"a": {b: 1}}.
func flow(v []byte, line, column int) *yaml.Node {
	if !printable(v) {
		return nil
	}
	f := flowReader{rest: v, line: line, column: column}
	n := f.value(0)
	if len(f.rest) > 0 {
		return nil
	}
	return n
}

// A flowReader reads the rest of a line.
type flowReader struct {
	rest         []byte
	line, column int
}

func (f *flowReader) take(n int) []byte {
	taken := f.rest[:n]
	f.rest = f.rest[n:]
	f.column += utf8.RuneCount(taken)
	return taken
}

// next skips blanks and returns the byte after them, or 0 at the end.
func (f *flowReader) next() byte {
	f.take(len(f.rest) - len(bytes.TrimLeft(f.rest, " ")))
	if len(f.rest) == 0 {
		return 0
	}
	return f.rest[0]
}

// value parses a value. It returns nil if the value is not simple.
func (f *flowReader) value(depth int) *yaml.Node {
	const deep = 8
	n := &yaml.Node{Style: yaml.FlowStyle, Line: f.line, Column: f.column}
	var end byte
	switch f.next() {
	case '[':
		n.Kind, n.Tag, end = yaml.SequenceNode, "!!seq", ']'
	case '{':
		n.Kind, n.Tag, end = yaml.MappingNode, "!!map", '}'
	default:
		return f.scalar()
	}
	n.Column = f.column
	if f.take(1); depth > deep {
		return nil
	}
	if f.next() == end {
		f.take(1)
		return n
	}
	for {
		if end == '}' && !f.key(n) {
			return nil
		}
		f.next()
		item := f.value(depth + 1)
		if item == nil {
			return nil
		}
		n.Content = append(n.Content, item)
		switch f.next() {
		case ',':
			f.take(1)
			f.next()
		case end:
			f.take(1)
			return n
		default:
			return nil
		}
	}
}

// key parses the key of a mapping and its colon.
func (f *flowReader) key(m *yaml.Node) bool {
	f.next()
	k := f.scalar()
	if k == nil || k.Tag != "!!str" || len(f.rest) < 2 || f.rest[0] != ':' || k.Style == 0 && f.rest[1] != ' ' {
		return false
	}
	f.take(1)
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == k.Value {
			return false
		}
	}
	m.Content = append(m.Content, k)
	return true
}

// scalar parses a word or a quoted text.
func (f *flowReader) scalar() *yaml.Node {
	if len(f.rest) == 0 {
		return nil
	}
	n := bytes.IndexAny(f.rest, ",[]{}:#?\"'")
	if q := f.rest[0]; q == '"' || q == '\'' {
		for n = 1; n < len(f.rest) && f.rest[n] != q; n++ {
			if q == '"' && f.rest[n] == '\\' {
				n++
			}
		}
		n++
	}
	if n < 1 || n > len(f.rest) {
		return nil
	}
	column := f.column
	return scalar(bytes.TrimRight(f.take(n), " "), f.line, column)
}

// scalar parses a value on one line.
func scalar(v []byte, line, column int) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: line, Column: column}
	if len(v) == 0 || !printable(v) {
		return nil
	}
	q := v[0]
	if q == '"' || q == '\'' {
		text, ok := unquote(v)
		if !ok {
			return nil
		}
		if n.Value, n.Style = text, yaml.SingleQuotedStyle; q == '"' {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	}
	switch {
	case '0' <= q && q <= '9':
		if n.Tag = number(string(v)); n.Tag == "" {
			return nil
		}
	case !isLetter(q) && q < utf8.RuneSelf && q != '/' && q != '(' && q != '$':
		return nil // YAML syntax, or what might be
	}
	if marked(v) {
		return nil
	}
	n.Value = string(v)
	if n.Value == "true" || n.Value == "false" {
		n.Tag = "!!bool"
	} else if word(v) {
		return nil
	}
	return n
}

// marked reports whether a colon or a number sign is next to a space, where it has a meaning
// in YAML.
func marked(v []byte) bool {
	for i, c := range v {
		if c == ':' && (i+1 == len(v) || v[i+1] == ' ') || c == '#' && i > 0 && v[i-1] == ' ' {
			return true
		}
	}
	return false
}

// unquote decodes a quoted text whose only escapes are its quotes, \n and numeric character
// escapes.
func unquote(v []byte) (string, bool) {
	q := v[0]
	if len(v) < 2 || v[len(v)-1] != q {
		return "", false
	}
	v = v[1 : len(v)-1]
	if bytes.IndexByte(v, q) < 0 && (q == '\'' || bytes.IndexByte(v, '\\') < 0) {
		return string(v), true
	}
	b := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		escape := v[i] == '\\' && q == '"' || v[i] == '\'' && q == '\''
		if escape {
			i++
			switch {
			case i == len(v):
				return "", false
			case v[i] == q || q == '"' && v[i] == '\\':
			case q == '"' && v[i] == 'n':
				b = append(b, '\n')
				continue
			case q == '"' && (v[i] == 'u' || v[i] == 'U'):
				digits := 4
				if v[i] == 'U' {
					digits = 8
				}
				if len(v)-i <= digits {
					return "", false
				}
				r, err := strconv.ParseUint(string(v[i+1:i+1+digits]), 16, 31)
				if err != nil || !utf8.ValidRune(rune(r)) {
					return "", false
				}
				b = utf8.AppendRune(b, rune(r))
				i += digits
				continue
			default:
				return "", false
			}
		} else if v[i] == q {
			return "", false
		}
		b = append(b, v[i])
	}
	return string(b), true
}

// number returns the tag of a value that begins with a digit: 1, 1.0, 1.0.0. It returns "" for
// anything else.
func number(v string) string {
	if strings.Trim(v, "0123456789.") != "" || len(v) > 15 || strings.Contains(v, "..") || v[len(v)-1] == '.' {
		return ""
	}
	switch dots := strings.Count(v, "."); {
	case dots >= 2:
		return "!!str"
	case len(v) > 1 && v[0] == '0' && v[1] != '.':
		return "" // may be octal
	case dots == 1:
		return "!!float"
	}
	return "!!int"
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// printable reports whether a text has only characters without a special meaning in YAML: no
// control characters, no line breaks outside ASCII, no byte-order marks.
func printable(v []byte) bool {
	for i := 0; i < len(v); {
		if c := v[i]; c < utf8.RuneSelf {
			if c < ' ' || c > '~' {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(v[i:])
		if r <= 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r&0xfffe == 0xfffe || r == utf8.RuneError {
			return false
		}
		i += n
	}
	return true
}

// word reports whether some version of YAML may interpret a plain scalar of letters as
// something other than text.
func word(s []byte) bool {
	if len(s) > len("false") {
		return false // a quick check first, because descriptions are long
	}
	switch strings.ToLower(string(s)) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return false
}
