package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/jsonc"
)

// maxDepth limits how deep values are nested.
const maxDepth = 64

type kind string

const (
	null   kind = "null"
	truth  kind = "true or false"
	number kind = "a number"
	text   kind = "a text"
	list   kind = "a list"
	object kind = "an object"
)

// A value is a value of a JSON or YAML file with its place.
type value struct {
	kind         kind
	text         string // of a scalar
	items        []*value
	fields       []field
	line, column int // from 1
}

type field struct{ name, value *value }

// get returns a field by one of its names; nil: the value has none.
func (v *value) get(names ...string) *value {
	if v == nil {
		return nil
	}
	for _, name := range names {
		for _, f := range v.fields {
			if f.name.text == name && f.value.kind != null {
				return f.value
			}
		}
	}
	return nil
}

func (v *value) is(k kind) bool { return v != nil && v.kind == k }

// scalar returns a text or a number as it is written; "": v is neither.
func (v *value) scalar() string {
	if v.is(text) || v.is(number) || v.is(truth) {
		return v.text
	}
	return ""
}

// String describes the value in a message.
func (v *value) String() string {
	if s := v.scalar(); s != "" {
		return strconv.Quote(s)
	}
	return string(v.kind)
}

// JSON returns the value as JSON.
func (v *value) JSON() json.RawMessage {
	var b bytes.Buffer
	v.write(&b)
	return b.Bytes()
}

func (v *value) write(b *bytes.Buffer) {
	quoted := func(s string) {
		data, _ := json.Marshal(s)
		b.Write(data)
	}
	switch {
	case v == nil || v.kind == null:
		b.WriteString("null")
	case v.kind == text:
		quoted(v.text)
	case v.kind == list:
		for i, x := range v.items {
			b.WriteByte("[,"[min(i, 1)])
			x.write(b)
		}
		if len(v.items) == 0 {
			b.WriteByte('[')
		}
		b.WriteByte(']')
	case v.kind == object:
		for i, f := range v.fields {
			b.WriteByte("{,"[min(i, 1)])
			quoted(f.name.text)
			b.WriteByte(':')
			f.value.write(b)
		}
		if len(v.fields) == 0 {
			b.WriteByte('{')
		}
		b.WriteByte('}')
	default:
		if !json.Valid([]byte(v.text)) { // YAML writes numbers in more ways
			quoted(v.text)
			return
		}
		b.WriteString(v.text)
	}
}

// A placed error is about a place in a file.
type placed struct {
	line, column int
	message      string
}

func (e *placed) Error() string { return e.message }

// readJSON reads a JSON document. Comments and trailing commas are allowed, because people write them.
func readJSON(data []byte) (*value, error) {
	plain := jsonc.Plain(data)
	p := &parser{data: plain, dec: json.NewDecoder(bytes.NewReader(plain)), line: 1}
	p.dec.UseNumber()
	v, err := p.value(0)
	if err == nil {
		if _, more := p.dec.Token(); more != io.EOF {
			err = errors.New("there is something after the end of the document")
		}
	}
	if err != nil {
		return nil, p.place(err)
	}
	return v, nil
}

// A parser makes values of the tokens of a JSON decoder.
type parser struct {
	data []byte
	dec  *json.Decoder
	// at is up to where lines were counted.
	at, line, begin int
}

// next returns the next token and its place.
func (p *parser) next() (json.Token, *value, error) {
	from := int(p.dec.InputOffset())
	for from < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[from]) >= 0 {
		from++
	}
	line, column := p.position(from)
	t, err := p.dec.Token()
	return t, &value{line: line, column: column}, err
}

// position returns line and column of an offset. Offsets never fall.
func (p *parser) position(offset int) (line, column int) {
	for ; p.at < min(offset, len(p.data)); p.at++ {
		if p.data[p.at] == '\n' {
			p.line++
			p.begin = p.at + 1
		}
	}
	return p.line, offset - p.begin + 1
}

func (p *parser) place(err error) error {
	at := p.dec.InputOffset()
	message := err.Error()
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = max(at, syntax.Offset-1)
		message = "this is no JSON: " + message
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		at = int64(len(bytes.TrimRight(p.data, " \t\r\n")))
		message = "this is no JSON: the file ends before the value does"
	}
	line, column := p.position(int(at))
	return &placed{line, max(column, 1), message}
}

func (p *parser) value(depth int) (*value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested deeper than %d", maxDepth)
	}
	t, v, err := p.next()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		v.kind = list
		if t == '{' {
			v.kind = object
		}
		for p.dec.More() {
			var name *value
			if v.kind == object {
				key, at, err := p.next()
				if err != nil {
					return nil, err
				}
				name = at
				name.kind, name.text = text, key.(string)
			}
			item, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			if name != nil {
				v.fields = append(v.fields, field{name, item})
			} else {
				v.items = append(v.items, item)
			}
		}
		_, _, err = p.next() // the end
	case string:
		v.kind, v.text = text, t
	case json.Number:
		v.kind, v.text = number, t.String()
	case bool:
		v.kind, v.text = truth, fmt.Sprint(t)
	default:
		v.kind = null
	}
	return v, err
}
