package frontmatter

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// A plainReader parses the YAML that most frontmatter consists of, in a tenth of the YAML
// library's time and into the same tree: keys with text, numbers, dates, lists, block texts, JSON
// on one line, and mappings of these, with comments. A fuzz test compares the results of both.
//
// The nodes of a result are reused by the first parse after reset.
type plainReader struct {
	rest   string
	line   string // the current line without indentation and trailing blanks
	tail   int    // number of trailing blanks; of a blank line, all of its blanks
	indent int
	n      int // line number, from 1
	done   bool
	err    error // the error that the library reports

	nodes []yaml.Node
	links []*yaml.Node // memory of Node.Content
	open  []*yaml.Node // contents of the mappings and sequences that are not complete
}

// A syntaxError is an error of the YAML library that a plainReader reports without it.
type syntaxError struct {
	line, column int
	message      string
}

func (e *syntaxError) Error() string { return e.message }

// reset makes the memory of earlier results available.
func (r *plainReader) reset() { r.nodes, r.links = r.nodes[:0], r.links[:0] }

// parse returns nil without an error for a text that might be interpreted differently; then the
// library must parse it.
func (r *plainReader) parse(text string) (*yaml.Node, error) {
	if text == "" || text[len(text)-1] != '\n' {
		return nil, nil
	}
	r.rest, r.n, r.done, r.err, r.open = text, 0, false, nil, r.open[:0]
	r.next()
	if !r.skip() || r.done {
		return nil, nil
	}
	root := r.mapping(0, 0)
	if root == nil || !r.done {
		return nil, r.err
	}
	return root, nil
}

func (r *plainReader) node(n yaml.Node) *yaml.Node {
	if len(r.nodes) == cap(r.nodes) {
		r.nodes = make([]yaml.Node, 0, 64+2*cap(r.nodes)) // earlier nodes keep their memory
	}
	r.nodes = append(r.nodes, n)
	return &r.nodes[len(r.nodes)-1]
}

func (r *plainReader) scalarNode(tag, value string, style yaml.Style, line, column int) *yaml.Node {
	return r.node(yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value, Style: style, Line: line, Column: column})
}

// content sets the content of a node to what is open from an index on.
func (r *plainReader) content(n *yaml.Node, from int) *yaml.Node {
	all := r.open[from:]
	if len(all) > cap(r.links)-len(r.links) {
		r.links = make([]*yaml.Node, 0, 128+2*cap(r.links)+len(all))
	}
	at := len(r.links)
	r.links = append(r.links, all...)
	n.Content = r.links[at:len(r.links):len(r.links)]
	r.open = r.open[:from]
	return n
}

// next reads the next line. A blank line gets the indentation -1, which matches nothing.
func (r *plainReader) next() {
	if r.rest == "" {
		r.done = true
		return
	}
	var l string
	l, r.rest, _ = strings.Cut(r.rest, "\n")
	l = strings.TrimSuffix(l, "\r")
	r.n++
	from, to := 0, len(l)
	for from < to && l[from] == ' ' {
		from++
	}
	for to > from && l[to-1] == ' ' {
		to--
	}
	r.line, r.indent, r.tail = l[from:to], from, len(l)-to
	if from == to {
		r.indent, r.tail = -1, len(l)
	}
}

// skip skips blank lines and comments. It returns false for a comment that the library must parse.
func (r *plainReader) skip() bool {
	for !r.done && (r.indent < 0 || r.line[0] == '#') {
		if !printable(r.line) {
			return false
		}
		r.next()
	}
	return true
}

// nested moves to the line below a key whose value begins there. It returns false if there is none.
func (r *plainReader) nested(indent int) bool {
	r.next()
	return r.skip() && !r.done && r.indent >= indent
}

// mapping parses the lines with the given indentation. It returns nil if they are not simple.
func (r *plainReader) mapping(indent, depth int) *yaml.Node {
	const maxNesting, deep = 64, 8 // beyond these limits the library must parse it
	if r.indent != indent || depth > deep {
		return nil
	}
	m := r.node(yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: r.n, Column: indent + 1})
	from := len(r.open)
	for !r.done && r.indent == indent {
		colon := strings.IndexByte(r.line, ':')
		if colon <= 0 || colon > 128 || len(r.open)-from >= 2*maxNesting {
			return nil
		}
		name := r.line[:colon]
		if !isLetter(name[0]) || word(name) {
			return nil
		}
		for i := 0; i < len(name); i++ {
			if c := name[i]; !isLetter(c) && c != '-' && c != '_' && (c < '0' || c > '9') {
				return nil
			}
		}
		for i := from; i < len(r.open); i += 2 {
			if r.open[i].Value == name {
				return nil
			}
		}
		r.open = append(r.open, r.scalarNode("!!str", name, 0, r.n, indent+1))
		var value *yaml.Node
		after := r.line[colon+1:]
		v := strings.TrimLeft(after, " ")
		switch {
		case v == "" || v[0] == '#' && len(v) < len(after): // the value is on the following lines
			if !printable(v) || !r.nested(indent) {
				return nil
			}
			switch {
			case r.line[0] == '-':
				value = r.sequence(r.indent, depth+1)
			case r.indent <= indent:
			case isLetter(r.line[0]) && hasColon(r.line):
				value = r.mapping(r.indent, depth+1)
			case r.line[0] != '>' && r.line[0] != '|' && !hasColon(r.line) || strings.IndexByte("\"'[{", r.line[0]) >= 0:
				value = r.value(r.line, indent, r.indent+1)
			}
		case after[0] != ' ':
			return nil
		default:
			value = r.value(v, indent, indent+1+len(r.line)-len(v)) // names are ASCII, so bytes are columns
		}
		if value == nil || !r.skip() {
			return nil
		}
		r.open = append(r.open, value)
	}
	if !r.done && r.indent > indent {
		return nil // a continued text
	}
	return r.content(m, from)
}

// value parses a value that begins on this line.
func (r *plainReader) value(v string, indent, column int) *yaml.Node {
	switch v[0] {
	case '>', '|':
		return r.block(v, indent, column)
	case '[', '{':
		return r.flow(v, indent, column)
	case '"', '\'':
		return r.quoted(v, indent, column)
	}
	return r.text(v, indent, column)
}

// sequence parses lines of the form `- text` or `- key: value`, the latter with more keys below.
func (r *plainReader) sequence(indent, depth int) *yaml.Node {
	s := r.node(yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: r.n, Column: indent + 1})
	from := len(r.open)
	for !r.done && r.indent == indent && strings.HasPrefix(r.line, "- ") {
		v := strings.TrimLeft(r.line[2:], " ")
		at := indent + len(r.line) - len(v)
		var item *yaml.Node
		if startsPlain(v[0]) && hasColon(v) {
			r.line, r.indent = v, at
			item = r.mapping(at, depth+1)
		} else {
			item = r.value(v, indent, at+1)
		}
		if item == nil || !r.skip() {
			return nil
		}
		r.open = append(r.open, item)
	}
	if len(r.open) == from || !r.done && r.indent > indent {
		return nil
	}
	return r.content(s, from)
}

// block parses a folded or literal block text below its key.
func (r *plainReader) block(head string, indent, column int) *yaml.Node {
	style, folded := yaml.LiteralStyle, head[0] == '>'
	if folded {
		style = yaml.FoldedStyle
	}
	header, strip := strings.CutPrefix(head[1:], "-")
	if after := strings.TrimLeft(header, " "); after != "" {
		if after != header && after[0] != '#' && printable(after) && onlyPrintable(r.rest) {
			at := column + len(head) - len(after)
			r.err = &syntaxError{r.n, at, "did not find expected comment or line break"}
		}
		return nil
	}
	line := r.n
	var b strings.Builder
	base, blanks := 0, 0 // blanks is the number of blank lines since the last line
	for r.next(); !r.done && (r.indent < 0 || r.indent > indent && base == 0 || r.indent >= base && base > 0); r.next() {
		if r.indent < 0 {
			if r.tail > base {
				return nil // its blanks are significant
			}
			blanks++
			continue
		}
		// In a folded text, lines with more indentation are not folded.
		if folded && base > 0 && r.indent > base || !printable(r.line) {
			return nil
		}
		switch {
		case base == 0:
			base = r.indent
			b.Grow(len(r.line) + min(len(r.rest), 512))
		case folded && blanks == 0:
			b.WriteByte(' ')
		case !folded:
			blanks++
		}
		for ; blanks > 0; blanks-- {
			b.WriteByte('\n')
		}
		for range r.indent - base {
			b.WriteByte(' ')
		}
		b.WriteString(r.line)
		for range r.tail {
			b.WriteByte(' ')
		}
	}
	if base == 0 || !r.done && r.indent > indent {
		return nil
	}
	if !strip {
		b.WriteByte('\n')
	}
	return r.scalarNode("!!str", b.String(), style, line, column)
}

// text parses a plain value that begins on this line. It may continue on the lines below; the
// line breaks become spaces.
func (r *plainReader) text(v string, indent, column int) *yaml.Node {
	if !printable(v) {
		return nil
	}
	comment := strings.Index(v, " #")
	if comment >= 0 {
		v = strings.TrimRight(v[:comment], " ")
	}
	if i := colonAt(v); i >= 0 && startsPlain(v[0]) && onlyPrintable(r.rest) {
		r.err = &syntaxError{r.n, column + utf8.RuneCountInString(v[:i]), "mapping values are not allowed in this context"}
		return nil
	}
	n := r.plain(v, r.n, column)
	if r.next(); n == nil || n.Tag != "!!str" || comment >= 0 || r.done || r.indent <= indent || r.line[0] == '#' {
		return n
	}
	var b strings.Builder
	b.WriteString(n.Value)
	for ; !r.done && r.indent > indent && r.line[0] != '#'; r.next() {
		if !printable(r.line) || hasColon(r.line) || strings.Contains(r.line, " #") {
			return nil
		}
		b.WriteByte(' ')
		b.WriteString(r.line)
	}
	n.Value = b.String()
	return n
}

// quoted parses a quoted text, which may continue on the lines below.
func (r *plainReader) quoted(v string, indent, column int) *yaml.Node {
	line, q := r.n, v[0]
	style := yaml.DoubleQuotedStyle
	if q == '\'' {
		style = yaml.SingleQuotedStyle
	}
	var b []byte // the lines so far, joined; nil: this is the first
	part := v[1:]
	for {
		if !printable(part) {
			return nil
		}
		if end := closing(part, q); end >= 0 {
			if after := strings.TrimLeft(part[end+1:], " "); after != "" && (after[0] != '#' || part[end+1] != ' ') {
				return nil
			}
			part = part[:end]
			break
		}
		escaped := q == '"' && (len(part)-len(strings.TrimRight(part, `\`)))%2 == 1
		if escaped {
			if r.tail > 0 {
				return nil // an escaped blank
			}
			part = part[:len(part)-1]
		}
		b = append(b, part...)
		blanks := 0
		for r.next(); !r.done && r.indent < 0; r.next() {
			blanks++
			b = append(b, '\n')
		}
		if r.done || r.indent <= indent {
			return nil
		}
		if blanks == 0 && !escaped {
			b = append(b, ' ')
		}
		part = r.line
	}
	if b != nil {
		part = string(append(b, part...))
	}
	r.next()
	text, ok := unquote(part, q)
	if !ok {
		return nil
	}
	return r.scalarNode("!!str", text, style, line, column)
}

// closing returns the index of the quote that ends a text, or -1.
func closing(s string, q byte) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && q == '"':
			i++
		case s[i] != q:
		case q == '\'' && i+1 < len(s) && s[i+1] == q:
			i++
		default:
			return i
		}
	}
	return -1
}

// flow parses a list or a mapping in brackets: [a, b], {"a": {b: 1}}.
func (r *plainReader) flow(v string, indent, column int) *yaml.Node {
	if !printable(v) {
		return nil
	}
	f := flowReader{plainReader: r, rest: v, column: column, outer: indent}
	n := f.value(0)
	if after := strings.TrimLeft(f.rest, " "); after != "" && (after[0] != '#' || len(after) == len(f.rest)) {
		return nil
	}
	r.next()
	return n
}

// A flowReader reads the rest of a line, and the lines below it.
type flowReader struct {
	*plainReader
	rest   string
	column int
	outer  int // indentation of the key that has the value
}

func (f *flowReader) take(n int) string {
	taken := f.rest[:n]
	f.rest = f.rest[n:]
	f.column += utf8.RuneCountInString(taken)
	return taken
}

// peek skips blanks and line breaks and returns the byte after them, or 0 at the end.
func (f *flowReader) peek() byte {
	for f.rest != "" && f.rest[0] == ' ' {
		f.rest = f.rest[1:]
		f.column++
	}
	for f.rest == "" {
		if f.next(); f.done || f.indent >= 0 && f.indent <= f.outer || !printable(f.line) {
			f.plainReader.rest = "" // no further line is read
			return 0
		}
		f.rest, f.column = f.line, f.indent+1
	}
	return f.rest[0]
}

// value parses a value. It returns nil if the value is not simple.
func (f *flowReader) value(depth int) *yaml.Node {
	const deep = 8
	kind, tag, end := yaml.SequenceNode, "!!seq", byte(']')
	switch f.peek() {
	case '[':
	case '{':
		kind, tag, end = yaml.MappingNode, "!!map", '}'
	default:
		return f.scalar()
	}
	n := f.node(yaml.Node{Kind: kind, Tag: tag, Style: yaml.FlowStyle, Line: f.n, Column: f.column})
	if f.take(1); depth > deep {
		return nil
	}
	if f.peek() == end {
		f.take(1)
		return n
	}
	for from := len(f.open); ; {
		if end == '}' && !f.key(from) {
			return nil
		}
		f.peek()
		item := f.value(depth + 1)
		if item == nil {
			return nil
		}
		f.open = append(f.open, item)
		switch f.peek() {
		case ',':
			f.take(1)
		case end:
		default:
			return nil
		}
		if f.peek() == end {
			f.take(1)
			return f.content(n, from)
		}
	}
}

// key parses the key of a mapping and its colon. The mapping's content begins at an index.
func (f *flowReader) key(from int) bool {
	f.peek()
	k := f.scalar()
	if k == nil || k.Tag != "!!str" || f.rest == "" || f.rest[0] != ':' ||
		k.Style == 0 && len(f.rest) > 1 && f.rest[1] != ' ' {
		return false
	}
	f.take(1)
	for i := from; i < len(f.open); i += 2 {
		if f.open[i].Value == k.Value {
			return false
		}
	}
	f.open = append(f.open, k)
	return true
}

// scalar parses a word or a quoted text.
func (f *flowReader) scalar() *yaml.Node {
	if f.rest == "" {
		return nil
	}
	column := f.column
	if q := f.rest[0]; q == '"' || q == '\'' {
		end := closing(f.rest[1:], q)
		if end < 0 {
			return nil
		}
		text, ok := unquote(f.take(end + 2)[1:end+1], q)
		if !ok {
			return nil
		}
		style := yaml.DoubleQuotedStyle
		if q == '\'' {
			style = yaml.SingleQuotedStyle
		}
		return f.scalarNode("!!str", text, style, f.n, column)
	}
	n := strings.IndexAny(f.rest, ",[]{}:#?\"'")
	if n < 0 {
		n = len(f.rest)
	}
	return f.plain(strings.TrimRight(f.take(n), " "), f.n, column)
}

// plain returns the node of a plain value on one line. All of it is printable.
func (r *plainReader) plain(v string, line, column int) *yaml.Node {
	if v == "" || !startsPlain(v[0]) || hasColon(v) || strings.Contains(v, " #") {
		return nil
	}
	tag := "!!str"
	switch {
	case v[0] == '.' && (len(v) < 2 || !isLetter(v[1]) && v[1] != '/' || len(v) < len(".inf/")),
		v[:min(2, len(v))] == "<<":
		return nil // may be a number or a merge
	case '0' <= v[0] && v[0] <= '9':
		if tag = number(v); tag == "" {
			return nil
		}
	case v == "true" || v == "false":
		tag = "!!bool"
	case word(v):
		return nil
	}
	return r.scalarNode(tag, v, 0, line, column)
}

// startsPlain reports whether a plain value can begin with a character. YAML allows some more.
func startsPlain(c byte) bool {
	return isLetter(c) || '0' <= c && c <= '9' || c >= utf8.RuneSelf || strings.IndexByte("/($.<", c) >= 0
}

// colonAt returns the index of the first colon that YAML does not read as text, because a blank
// or nothing follows, or -1.
func colonAt(v string) int {
	for at := 0; ; at++ {
		i := strings.IndexByte(v[at:], ':')
		if i < 0 {
			return -1
		}
		if at += i; at+1 == len(v) || v[at+1] == ' ' {
			return at
		}
	}
}

func hasColon(v string) bool { return colonAt(v) >= 0 }

// unquote decodes the text between quotes. It returns false for rare escapes.
func unquote(v string, q byte) (string, bool) {
	mark := byte('\\')
	if q == '\'' {
		mark = q
	}
	at := strings.IndexByte(v, mark)
	if at < 0 {
		return v, true
	}
	b := append(make([]byte, 0, len(v)), v[:at]...)
	for i := at; i < len(v); i++ {
		if v[i] != mark {
			b = append(b, v[i])
			continue
		}
		if i++; i == len(v) {
			return "", false
		}
		switch c := v[i]; {
		case c == mark || q == '"' && (c == '"' || c == ' ' || c == '/'):
			b = append(b, c)
		case q == '"' && c == 'n':
			b = append(b, '\n')
		case q == '"' && c == 't':
			b = append(b, '\t')
		case q == '"' && (c == 'u' || c == 'U'):
			digits := 4
			if c == 'U' {
				digits = 8
			}
			if len(v)-i <= digits {
				return "", false
			}
			n, err := strconv.ParseUint(v[i+1:i+1+digits], 16, 31)
			if err != nil || !utf8.ValidRune(rune(n)) {
				return "", false
			}
			b = utf8.AppendRune(b, rune(n))
			i += digits
		default:
			return "", false
		}
	}
	return string(b), true
}

// number returns the tag of a value that begins with a digit: 1, 1.0, 1.0.0, 2026-12-31. It
// returns "" for anything else.
func number(v string) string {
	if date(v) {
		return "!!timestamp"
	}
	if v[0] != '0' && strings.Trim(v, "0123456789eE_+-.:tTzZ ") != "" {
		return "!!str" // neither a number nor a time
	}
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

// date reports whether a value is a date in the first 28 days of a month.
func date(v string) bool {
	if len(v) != len("2026-12-31") || v[4] != '-' || v[7] != '-' {
		return false
	}
	for i := range len(v) {
		if (v[i] < '0' || v[i] > '9') && i != 4 && i != 7 {
			return false
		}
	}
	return "01" <= v[5:7] && v[5:7] <= "12" && "01" <= v[8:] && v[8:] <= "28"
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// printable reports whether a text has only characters without a special meaning in YAML: no
// control characters, no line breaks outside ASCII, no byte-order marks.
func printable(v string) bool {
	for i := 0; i < len(v); {
		if c := v[i]; c < utf8.RuneSelf {
			if c < ' ' || c > '~' {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(v[i:])
		if r <= 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r&0xfffe == 0xfffe || r == utf8.RuneError {
			return false
		}
		i += n
	}
	return true
}

// onlyPrintable reports whether all lines of a text are printable.
func onlyPrintable(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if !printable(strings.TrimSuffix(line, "\r")) {
			return false
		}
	}
	return true
}

// word reports whether some version of YAML may interpret a plain scalar of letters as
// something other than text.
func word(s string) bool {
	if len(s) > len("false") {
		return false // a quick check first, because descriptions are long
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return false
}
