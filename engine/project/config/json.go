package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack"
)

// A node is a JSON value with its position. Settings are read into nodes one entry at a time, so that
// an invalid entry does not affect the others.
type node struct {
	at, end int // byte offsets in the file
	kind    byte
	text    string   // for a string ('s'), and for a number ('n') as written
	yes     bool     // for a bool ('b')
	members []member // for an object ('o')
	items   []*node  // for a list ('l')
}

type member struct {
	key string
	at  int
	val *node
}

func (n *node) get(key string) *node {
	for i := len(n.members) - 1; i >= 0; i-- { // if a name is repeated, the last one counts
		if n.members[i].key == key {
			return n.members[i].val
		}
	}
	return nil
}

func (n *node) is() string {
	switch n.kind {
	case 'o':
		return "an object"
	case 'l':
		return "a list"
	case 's':
		return "a string"
	case 'n':
		return "a number"
	case 'b':
		return "true or false"
	}
	return "null"
}

// A file is one source of settings while it is read.
type file struct {
	path string // as named in problems: a path, or --settings
	data []byte
	add  func(knack.Problem)
}

const (
	maxSize  = 1 << 20
	maxDepth = 64
)

// place converts a byte offset to a line and a column. Columns count characters.
func (f *file) place(at int) (line, column int) {
	at = min(at, len(f.data))
	before := f.data[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

func (f *file) problem(at int, code knack.Code, s knack.Severity, hint, format string, args ...any) {
	line, column := f.place(at)
	f.add(knack.Problem{Code: code, Severity: s, Path: f.path, Line: line, Column: column,
		Message: fmt.Sprintf(format, args...), Hint: hint})
}

// brokenNote is the end of the message about a file that is not JSON.
const brokenNote = ": only this file's deny and ask rules apply"

var errDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

// parse reads the file. If the JSON is broken, whole is false and n contains what comes before the
// error; n is nil if there is nothing.
func (f *file) parse() (n *node, whole bool) {
	if rest, ok := bytes.CutPrefix(f.data, []byte("\ufeff")); ok {
		f.data = rest
	}
	if len(f.data) > maxSize {
		f.add(knack.Problem{Code: knack.CodeTooLarge, Severity: knack.Error, Path: f.path,
			Message: fmt.Sprintf("settings have at most %d bytes", maxSize)})
		return nil, false
	}
	if len(bytes.TrimSpace(f.data)) == 0 {
		return nil, true
	}
	if !utf8.Valid(f.data) {
		f.add(knack.Problem{Code: knack.CodeEncoding, Severity: knack.Error, Path: f.path, Message: "not UTF-8"})
		return nil, false
	}
	p := parser{d: json.NewDecoder(bytes.NewReader(f.data)), f: f}
	p.d.UseNumber()
	n, err := p.value(0)
	if err == nil {
		if _, more := p.d.Token(); more != io.EOF {
			err = errors.New("more text after the end of the object")
		}
	}
	if err == nil {
		return n, true
	}
	at := int(p.d.InputOffset())
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = p.skip(at)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		at, err = len(f.data), errors.New("the file ends too early")
	}
	hint := ""
	if bytes.HasPrefix(f.data[min(at, len(f.data)):], []byte("/")) {
		hint = "JSON has no comments"
	}
	if syntax != nil && strings.Contains(syntax.Error(), "escape code") {
		hint = `in JSON, a backslash is written \\`
	}
	f.problem(at, knack.CodeJSONInvalid, knack.Error, hint, "%v"+brokenNote, err)
	return n, false
}

type parser struct {
	d *json.Decoder
	f *file
}

// skip returns the offset of the next token.
func (p *parser) skip(at int) int {
	for at < len(p.f.data) {
		switch p.f.data[at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			at++
			continue
		}
		break
	}
	return at
}

// value reads one value. On an error it also returns the part that it has read.
func (p *parser) value(depth int) (*node, error) {
	n := &node{at: p.skip(int(p.d.InputOffset()))}
	if depth > maxDepth {
		return nil, errDeep
	}
	tok, err := p.d.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '{' {
			n.kind = 'o'
			seen := map[string]bool{}
			for p.d.More() {
				at := p.skip(int(p.d.InputOffset()))
				key, err := p.d.Token()
				if err != nil {
					return n, err
				}
				name := key.(string)
				if seen[name] {
					p.f.problem(at, knack.CodeDuplicateKey, knack.Warn, "", "%s appears here twice: the last one is used", quote(name))
				}
				seen[name] = true
				v, err := p.value(depth + 1)
				if v != nil {
					n.members = append(n.members, member{name, at, v})
				}
				if err != nil {
					return n, err
				}
			}
		} else {
			n.kind = 'l'
			for p.d.More() {
				v, err := p.value(depth + 1)
				if v != nil {
					n.items = append(n.items, v)
				}
				if err != nil {
					return n, err
				}
			}
		}
		if _, err := p.d.Token(); err != nil {
			return n, err
		}
	case string:
		n.kind, n.text = 's', tok
	case json.Number:
		n.kind, n.text = 'n', tok.String()
	case bool:
		n.kind, n.yes = 'b', tok
	default:
		n.kind = '0'
	}
	n.end = int(p.d.InputOffset())
	return n, nil
}

func quote(s string) string { return strconv.Quote(s) }
