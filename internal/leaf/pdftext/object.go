// Package pdftext extracts the text of PDF files.
//
// It is made for untrusted files: whatever they contain, it terminates with bounded memory use
// and does not panic. It finds objects by scanning the file, so a broken cross-reference table
// does not matter; nesting, references, pages and unpacked bytes are limited. It supports
// neither encryption nor scanned text.
package pdftext

import (
	"bytes"
	"compress/zlib"
	"encoding/ascii85"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"golang.org/x/image/tiff/lzw" // the variant of LZW that PDF uses
)

// Objects of a file are nil, bool, float64, and these types.
type (
	text   string // the bytes of a string
	name   string
	op     string // any other word: an operator, endobj, R
	ref    int    // number of the object referred to
	array  []any
	dict   map[name]any
	stream struct {
		dict
		raw []byte
	}
)

// Limits on the resources that a file can use.
const (
	maxDepth    = 100
	maxUnpacked = 128 << 20 // in bytes, per file
	maxStream   = 32 << 20  // in bytes, per stream
	maxOperands = 1 << 12
	maxPages    = 20_000
	maxItems    = 1 << 22 // of arrays and dictionaries, per lexer
	maxFonts    = 2000
	maxCodes    = 1 << 17 // for which a font has widths or texts
)

// A lexer parses objects from data.
type lexer struct {
	data  []byte
	at    int
	depth int
	items int
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool { return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0 }

func (l *lexer) space() {
	for ; l.at < len(l.data); l.at++ {
		if c := l.data[l.at]; c == '%' {
			nl := bytes.IndexAny(l.data[l.at:], "\r\n")
			if nl < 0 {
				l.at = len(l.data)
				return
			}
			l.at += nl
		} else if !isSpace(c) {
			return
		}
	}
}

// eof is returned by next at the end.
const eof = op("")

// next parses an object or a word. It combines the parts of a reference.
func (l *lexer) next() any {
	l.space()
	if l.at >= len(l.data) {
		return eof
	}
	c := l.data[l.at]
	switch {
	case c == '/':
		l.at++
		return l.name()
	case c == '(':
		return l.literal()
	case c == '<' && bytes.HasPrefix(l.data[l.at:], []byte("<<")):
		l.at += 2
		return l.dict()
	case c == '<':
		return l.hex()
	case c == '[':
		l.at++
		return l.array()
	case c == '>' && bytes.HasPrefix(l.data[l.at:], []byte(">>")):
		l.at += 2
		return op(">>")
	case isDelimiter(c):
		l.at++
		return op(c)
	}
	start := l.at
	word := l.word()
	switch string(word) {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	if c := word[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') {
		return op(word)
	}
	n, err := strconv.ParseFloat(string(word), 64)
	if err != nil {
		return op(word)
	}
	// "12 0 R" is a reference.
	if isInt(word) && l.at-start < 10 {
		save := l.at
		l.space()
		if gen := l.word(); isInt(gen) {
			l.space()
			if r := l.word(); string(r) == "R" {
				return ref(n)
			}
		}
		l.at = save
	}
	return n
}

func isInt(word []byte) bool {
	for _, c := range word {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(word) > 0
}

func (l *lexer) word() []byte {
	start := l.at
	for l.at < len(l.data) && !isSpace(l.data[l.at]) && !isDelimiter(l.data[l.at]) {
		l.at++
	}
	return l.data[start:l.at]
}

func (l *lexer) name() name {
	word := l.word()
	if bytes.IndexByte(word, '#') < 0 {
		return name(word)
	}
	var out []byte
	for i := 0; i < len(word); i++ {
		if word[i] == '#' && i+2 < len(word) {
			if b, err := hex.DecodeString(string(word[i+1 : i+3])); err == nil {
				out = append(out, b[0])
				i += 2
				continue
			}
		}
		out = append(out, word[i])
	}
	return name(out)
}

func (l *lexer) literal() text {
	var out []byte
	open := 0
	for l.at < len(l.data) {
		c := l.data[l.at]
		l.at++
		switch c {
		case '(':
			if open++; open == 1 {
				continue
			}
		case ')':
			if open--; open == 0 {
				return text(out)
			}
		case '\\':
			if l.at >= len(l.data) {
				return text(out)
			}
			c = l.data[l.at]
			l.at++
			switch c {
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case '\r':
				if l.at < len(l.data) && l.data[l.at] == '\n' {
					l.at++
				}
				continue
			case '\n':
				continue
			default:
				if '0' <= c && c <= '7' {
					n := int(c - '0')
					for k := 0; k < 2 && l.at < len(l.data) && '0' <= l.data[l.at] && l.data[l.at] <= '7'; k++ {
						n = n*8 + int(l.data[l.at]-'0')
						l.at++
					}
					c = byte(n)
				}
			}
		}
		out = append(out, c)
	}
	return text(out)
}

func (l *lexer) hex() text {
	end := bytes.IndexByte(l.data[l.at:], '>')
	if end < 0 {
		end = len(l.data) - l.at
	}
	out := unhex(l.data[l.at+1 : l.at+end])
	l.at = min(l.at+end+1, len(l.data))
	return text(out)
}

func unhex(data []byte) []byte {
	digits := make([]byte, 0, len(data)+1)
	for _, c := range data {
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' {
			digits = append(digits, c)
		}
	}
	if len(digits)%2 == 1 {
		digits = append(digits, '0')
	}
	out := make([]byte, len(digits)/2)
	hex.Decode(out, digits) // all are valid digits
	return out
}

func (l *lexer) array() array {
	var out array
	if l.depth++; l.depth > maxDepth {
		l.at = len(l.data)
	}
	defer func() { l.depth-- }()
	for ; ; l.items++ {
		if l.items > maxItems {
			l.at = len(l.data)
		}
		switch v := l.next().(type) {
		case op:
			if v == eof || v == "]" {
				return out
			}
		default:
			out = append(out, v)
		}
	}
}

func (l *lexer) dict() dict {
	out := dict{}
	if l.depth++; l.depth > maxDepth {
		l.at = len(l.data)
	}
	defer func() { l.depth-- }()
	for ; ; l.items++ {
		if l.items > maxItems {
			l.at = len(l.data)
		}
		key := l.next()
		if key == eof || key == op(">>") {
			return out
		}
		k, ok := key.(name)
		if !ok {
			continue
		}
		v := l.next()
		if v == eof || v == op(">>") {
			return out
		}
		out[k] = v
	}
}

// A location is the place of an object: in the file or in an unpacked object stream.
type location struct {
	data  []byte
	at    int
	order int // position in the file: of two objects with the same number, the later one counts
}

// A document is a file with the objects found in it.
type document struct {
	data     []byte
	places   map[ref]location
	objects  map[ref]any
	busy     map[ref]bool
	unpacked int
	fonts    int
}

func open(data []byte) (*document, error) {
	d := &document{data: data, places: map[ref]location{}, objects: map[ref]any{}, busy: map[ref]bool{}}
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte("/Encrypt"))
		if i < 0 {
			break
		}
		at += i + len("/Encrypt")
		l := lexer{data: data, at: at}
		if l.space(); l.at < len(data) && (data[l.at] == '<' || '0' <= data[l.at] && data[l.at] <= '9') {
			return nil, errors.New("it is encrypted")
		}
	}
	var packed []location
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte("obj"))
		if i < 0 {
			break
		}
		i += at
		at = i + 3
		if num, ok := numberBefore(data, i); ok {
			d.places[num] = location{data, at, i}
			// The dictionary of an object stream names its type near its start.
			if bytes.Contains(data[at:min(len(data), at+1000)], []byte("/ObjStm")) {
				packed = append(packed, location{data, at, i})
			}
		}
	}
	for _, p := range packed {
		d.unpack(p)
	}
	if len(d.places) == 0 {
		return nil, errors.New("it has no objects")
	}
	return d, nil
}

// numberBefore parses "12 0 " backwards from at.
func numberBefore(data []byte, at int) (ref, bool) {
	back := func(is func(byte) bool) int {
		start := at
		for at > 0 && start-at < 12 && is(data[at-1]) {
			at--
		}
		return start - at
	}
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	back(isSpace)
	if back(digit) == 0 || back(isSpace) == 0 {
		return 0, false
	}
	end := at
	if back(digit) == 0 || end-at > 9 {
		return 0, false
	}
	n, err := strconv.Atoi(string(data[at:end]))
	return ref(n), err == nil
}

// unpack finds the objects of an object stream.
func (d *document) unpack(p location) {
	s, ok := d.read(p).(stream)
	if !ok || s.dict["Type"] != name("ObjStm") {
		return
	}
	data, err := d.decode(s)
	if err != nil && len(data) == 0 {
		return
	}
	n, _ := d.get(s.dict["N"]).(float64)
	first, _ := d.get(s.dict["First"]).(float64)
	l := lexer{data: data}
	for range int(min(n, 1<<20)) {
		num, ok1 := l.next().(float64)
		off, ok2 := l.next().(float64)
		if !ok1 || !ok2 {
			return
		}
		at := int(first) + int(off)
		if r := ref(num); at >= 0 && at < len(data) && p.order >= d.places[r].order {
			d.places[r] = location{data, at, p.order}
		}
	}
}

// read parses the object at a place, including its stream.
func (d *document) read(p location) any {
	l := lexer{data: p.data, at: p.at}
	v := l.next()
	dic, ok := v.(dict)
	if !ok {
		if _, word := v.(op); word {
			return nil
		}
		return v
	}
	l.space()
	rest := l.data[l.at:]
	if !bytes.HasPrefix(rest, []byte("stream")) {
		return dic
	}
	rest = rest[len("stream"):]
	rest = bytes.TrimPrefix(rest, []byte("\r"))
	rest = bytes.TrimPrefix(rest, []byte("\n"))
	if n, ok := d.get(dic["Length"]).(float64); ok && n >= 0 && n <= float64(len(rest)) {
		tail := rest[int(n):]
		if bytes.HasPrefix(bytes.TrimLeft(tail[:min(len(tail), 20)], "\r\n \t\x00"), []byte("endstream")) {
			return stream{dic, rest[:int(n)]}
		}
	}
	if end := bytes.Index(rest, []byte("endstream")); end >= 0 {
		rest = rest[:end]
	}
	return stream{dic, rest}
}

// get resolves references. A dangling or circular reference gives nil.
func (d *document) get(v any) any {
	for range maxDepth {
		r, ok := v.(ref)
		if !ok {
			return v
		}
		if known, ok := d.objects[r]; ok {
			v = known
			continue
		}
		p, ok := d.places[r]
		if !ok || d.busy[r] || len(d.busy) > maxDepth {
			return nil
		}
		d.busy[r] = true
		v = d.read(p)
		delete(d.busy, r)
		d.objects[r] = v
	}
	return nil
}

func (d *document) dict(v any) dict {
	switch v := d.get(v).(type) {
	case dict:
		return v
	case stream:
		return v.dict
	}
	return nil
}

func (d *document) array(v any) array {
	if a, ok := d.get(v).(array); ok {
		return a
	}
	return nil
}

// decode decodes a stream. On an error it also returns the data decoded so far.
func (d *document) decode(s stream) ([]byte, error) {
	filters := d.array(s.dict["Filter"])
	if n, ok := d.get(s.dict["Filter"]).(name); ok {
		filters = array{n}
	}
	if len(filters) > 8 {
		return nil, errors.New("a stream has too many filters")
	}
	data := s.raw
	for _, f := range filters {
		var r io.Reader
		switch n, _ := d.get(f).(name); n {
		case "FlateDecode", "Fl":
			z, err := zlib.NewReader(bytes.NewReader(data))
			if err != nil {
				return nil, err
			}
			r = z
		case "LZWDecode", "LZW":
			r = lzw.NewReader(bytes.NewReader(data), lzw.MSB, 8)
		case "ASCII85Decode", "A85":
			data = bytes.TrimPrefix(bytes.TrimSpace(data), []byte("<~"))
			if end := bytes.IndexByte(data, '~'); end >= 0 {
				data = data[:end]
			}
			r = ascii85.NewDecoder(bytes.NewReader(data))
		case "ASCIIHexDecode", "AHx":
			if end := bytes.IndexByte(data, '>'); end >= 0 {
				data = data[:end]
			}
			data = unhex(data)
			continue
		default:
			return nil, fmt.Errorf("a stream uses the unsupported filter %s", n)
		}
		if parms := d.dict(s.dict["DecodeParms"]); parms != nil {
			if p, _ := d.get(parms["Predictor"]).(float64); p > 1 {
				return nil, errors.New("a stream uses a predictor, which is not supported")
			}
		}
		left := min(maxStream, maxUnpacked-d.unpacked)
		out, err := io.ReadAll(io.LimitReader(r, int64(left)+1))
		d.unpacked += len(out)
		if len(out) > left {
			return nil, errors.New("it is too large when decompressed")
		}
		if err != nil {
			return out, err
		}
		data = out
	}
	return slices.Clip(data), nil
}
