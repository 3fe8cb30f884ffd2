package session

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// brief decodes a line without its texts, at a small part of the cost: what [Outline] gives its callers. The line is
// checked as far as its form as JSON goes, and a long one only at its beginning and its end. Whatever is unusual in it
// is decoded whole.
func brief(line []byte) (Entry, error) {
	if e, ok := scanEntry(line); ok {
		return e, nil
	}
	return parseLine(line)
}

// A scan reads JSON as [Log] writes it: without spaces between the parts. bad means that it is something else.
type scan struct {
	b   []byte
	i   int
	bad bool
}

// scanEntry decodes the lines that most of a long session consists of; ok is false for all others.
func scanEntry(line []byte) (e Entry, ok bool) {
	s := scan{b: line}
	body, parent := 0, false
	var member []byte
	s.object(func(key []byte) {
		switch string(key) {
		case "id":
			e.ID = s.int()
		case "parent":
			e.Parent, parent = s.int(), true
		case "time":
			s.skip()
		case "type":
			e.Type = briefType(s.plain())
		default:
			s.bad = s.bad || body > 0 || !bytes.HasPrefix(s.b[s.i:], []byte{'{'})
			body, member = s.i, key
			if parent && e.ID > 0 && e.Type.bulky() && s.ends() {
				return
			}
			s.skip()
		}
	})
	end := s.i
	if s.bad || e.Type == "" || string(member) != memberOf(e.Type) || string(line[end:]) != "\n" && end != len(line) {
		return Entry{}, false
	}
	s.i = body
	s.body(&e)
	return e, !s.bad
}

// bulky reports whether nothing in the content of an entry is wanted that [spends] does not find.
func (t Type) bulky() bool { return t != "" && t != TypeUser && t != TypeAnswer }

// longLine is from how many bytes on a line is read only at its ends. Most bytes of a session are in the results of
// tools, and reading them would take most of the time.
const longLine = 2 << 10

// ends goes to the last bracket of a long line, if it ends as an entry does. It must have no zeros, which a file system
// can leave in the place of what was not written, and no second entry behind one whose end was not.
func (s *scan) ends() bool {
	line := bytes.TrimSuffix(s.b, []byte("\n"))
	if s.bad || len(line) < longLine || !bytes.HasSuffix(line, []byte("}}")) || bytes.IndexByte(line, 0) >= 0 ||
		bytes.Contains(line[s.i:], []byte(`,"parent":`)) {
		return false
	}
	s.i = len(line) - 1
	return true
}

// briefType returns the type that a word names; "" for the types of which all is wanted.
func briefType(word []byte) Type {
	for _, t := range [...]Type{TypeResult, TypeAnswer, TypeStarted, TypeDecision, TypeUser, TypeNote, TypeTurnEnd,
		TypeSeen, TypeListing} {
		if string(word) == string(t) {
			return t
		}
	}
	return ""
}

// memberOf returns the name of the member with the content of an entry.
func memberOf(t Type) string {
	switch t {
	case TypeStarted:
		return "started"
	case TypeTurnEnd:
		return "turn_end"
	}
	return string(t)
}

// body decodes the content of an entry.
func (s *scan) body(e *Entry) {
	switch e.Type {
	case TypeUser:
		e.User = &User{}
		s.object(func(key []byte) {
			if string(key) == "steering" {
				e.User.Steering = s.next() == 't'
			}
			s.skip()
		})
	case TypeAnswer:
		e.Answer = &Answer{}
		s.answer(e.Answer)
	case TypeStarted:
		e.Started = &Started{}
	case TypeResult:
		e.Result = &Result{}
		s.bad = s.bad || spends(s.b)
	case TypeDecision:
		e.Decision = &Decision{}
	case TypeNote:
		e.Note = &Note{}
		s.bad = s.bad || spends(s.b)
	case TypeTurnEnd:
		e.TurnEnd = &TurnEnd{}
	case TypeListing:
		e.Listing = &Listing{}
	case TypeSeen:
		e.Seen = &Seen{}
	}
}

// spends reports whether a line may say what requests beside the conversation consumed. In a text, the quotes would
// be escaped.
func spends(line []byte) bool { return bytes.Contains(line, []byte(`"spent":`)) }

func (s *scan) answer(a *Answer) {
	s.object(func(key []byte) {
		switch string(key) {
		case "model":
			a.Model = string(s.plain())
		case "cost":
			from := s.i
			s.number()
			if !s.bad {
				a.Cost, _ = strconv.ParseFloat(string(s.b[from:s.i]), 64) // what is out of range is infinite or 0
			}
		case "partial":
			a.Partial = s.next() == 't'
			s.skip()
		case "usage":
			s.object(func(key []byte) {
				switch string(key) {
				case "input":
					a.Usage.Input = s.int()
				case "output":
					a.Usage.Output = s.int()
				case "cache_read":
					a.Usage.CacheRead = s.int()
				case "cache_write":
					a.Usage.CacheWrite = s.int()
				default:
					s.skip()
				}
			})
		default:
			s.skip()
		}
	})
}

// next returns the next byte without reading it; 0: there is none.
func (s *scan) next() byte {
	if s.bad || s.i >= len(s.b) {
		return 0
	}
	return s.b[s.i]
}

// is reads a byte if it is the next one.
func (s *scan) is(c byte) bool {
	if s.next() != c {
		return false
	}
	s.i++
	return true
}

func (s *scan) must(c byte) { s.bad = !s.is(c) }

// object reads an object. f reads the value of each member.
func (s *scan) object(f func(key []byte)) {
	s.must('{')
	if s.is('}') {
		return
	}
	for !s.bad {
		key := s.plain()
		s.must(':')
		if s.bad = s.bad || !isLower(key); s.bad { // a decoder ignores the case of a key
			return
		}
		f(key)
		if !s.is(',') {
			s.must('}')
			return
		}
	}
}

func isLower(key []byte) bool {
	for _, c := range key {
		if c >= 'A' && c <= 'Z' || c >= 0x80 {
			return false
		}
	}
	return true
}

// plain reads a string without escapes.
func (s *scan) plain() []byte {
	from := s.i + 1
	s.string()
	if s.bad {
		return nil
	}
	text := s.b[from : s.i-1]
	s.bad = bytes.IndexByte(text, '\\') >= 0 || !utf8.Valid(text)
	return text
}

// int reads an integer that is not negative and small enough to be exact everywhere.
func (s *scan) int() int {
	n, from := 0, s.i
	for c := s.next(); c >= '0' && c <= '9'; c = s.next() {
		n = 10*n + int(c-'0')
		s.i++
	}
	digits := s.i - from
	s.bad = s.bad || digits == 0 || digits > 9 || digits > 1 && s.b[from] == '0' || s.next() == '.' || s.next()|' ' == 'e'
	return n
}

// maxNested is how deep the values in a line may be nested.
const maxNested = 64

// skip reads any value.
func (s *scan) skip() {
	var closers [maxNested]byte
	for n := 0; !s.bad; {
		switch c := s.next(); {
		case (c == '{' || c == '[') && n < maxNested:
			s.i++
			closers[n] = c + 2 // } or ]
			n++
			if s.next() != c+2 {
				s.member(c + 2)
				continue
			}
		case c == '"':
			s.string()
		case c == '-' || c >= '0' && c <= '9':
			s.number()
		default:
			s.word()
		}
		for n > 0 && s.is(closers[n-1]) {
			n--
		}
		if n == 0 {
			return
		}
		s.must(',')
		s.member(closers[n-1])
	}
}

// member reads the key of a member, if it is in an object.
func (s *scan) member(closer byte) {
	if closer == '}' {
		s.string()
		s.must(':')
	}
}

func (s *scan) word() {
	for _, w := range [...]string{"true", "false", "null"} {
		if !s.bad && len(s.b)-s.i >= len(w) && string(s.b[s.i:s.i+len(w)]) == w {
			s.i += len(w)
			return
		}
	}
	s.bad = true
}

func (s *scan) number() {
	s.is('-')
	if !s.is('0') {
		s.digits()
	}
	if s.is('.') {
		s.digits()
	}
	if s.next()|' ' == 'e' {
		s.i++
		if !s.is('-') {
			s.is('+')
		}
		s.digits()
	}
}

func (s *scan) digits() {
	from := s.i
	for c := s.next(); c >= '0' && c <= '9'; c = s.next() {
		s.i++
	}
	s.bad = s.bad || s.i == from
}

// string reads a string. Most bytes of a session are in strings.
func (s *scan) string() {
	s.must('"')
	if s.bad {
		return
	}
	b, i := s.b, s.i
	for {
		i = special(b, i)
		if i+1 >= len(b) { // at least a bracket follows
			break
		}
		if b[i] == '"' {
			s.i = i + 1
			return
		}
		if b[i] != '\\' {
			break
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
			continue
		case 'u':
			if i += 6; i < len(b) && isHex(b[i-4:i]) {
				continue
			}
		}
		break
	}
	s.bad = true
}

func isHex(digits []byte) bool {
	for _, d := range digits {
		if !(d >= '0' && d <= '9' || d|' ' >= 'a' && d|' ' <= 'f') {
			return false
		}
	}
	return true
}

// special returns the position of the next quote, backslash or control character; the length of b if there is none. It
// looks at eight bytes at a time.
func special(b []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		quote, slash := v^(ones*'"'), v^(ones*'\\')
		if hit := ((quote-ones)&^quote | (slash-ones)&^slash | (v-ones*' ')&^v) & high; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' '; i++ {
	}
	return i
}
