package mask

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A form is a text that is replaced, however its characters are escaped: each by itself, so that it does not matter
// which of them an encoder escapes, and how.
type form struct {
	text     string
	from, to int // the longest part that no encoder escapes: the search begins with it
	optional int // bytes at the end that may be missing
	base64   bool
}

// A span is a part of a text.
type span struct{ from, to int }

func newForm(text string, optional int, base64 bool) form {
	f := form{text: text, optional: optional, base64: base64}
	for i, begin := 0, 0; i < len(text)-optional; i++ {
		if !unescaped(text[i]) {
			begin = i + 1
		} else if i+1-begin > f.to-f.from {
			f.from, f.to = begin, i+1
		}
	}
	return f
}

// unescaped reports whether encoders leave a character as it is.
func unescaped(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// find returns where the form is in a text, not before a position.
func (f form) find(text string, after int) (span, bool) {
	core := f.text[f.from:f.to]
	for at := after; at < len(text); at++ {
		if core != "" {
			i := strings.Index(text[at:], core)
			if i < 0 {
				break
			}
			at += i
		} else if c := text[at]; c != f.text[0] && !f.escape(c) {
			continue
		}
		if s, ok := f.around(text, after, at); ok {
			return s, true
		}
	}
	return span{}, false
}

// around returns where the form is whose core is at a position of a text.
func (f form) around(text string, after, at int) (span, bool) {
	starts := []int{at}
	for before := f.text[:f.from]; before != "" && len(starts) > 0; {
		_, size := utf8.DecodeLastRuneInString(before)
		starts = f.stepBack(text[after:], before[len(before)-size:], starts, after)
		before = before[:len(before)-size]
	}
	if len(starts) == 0 {
		return span{}, false
	}
	ends, end := []int{at + f.to - f.from}, -1
	for i := f.to; ; {
		if i >= len(f.text)-f.optional && len(ends) > 0 {
			end = max(end, slices.Max(ends))
		}
		if i == len(f.text) || len(ends) == 0 {
			return span{slices.Min(starts), end}, end > slices.Min(starts)
		}
		_, size := utf8.DecodeRuneInString(f.text[i:])
		ends, _ = f.step(text, f.text[i:i+size], ends)
		i += size
	}
}

// step returns where a character may end that begins at one of some positions, and whether the text may have ended
// inside of it.
func (f form) step(text, char string, begins []int) (ends []int, cut bool) {
	for _, at := range begins {
		rest := text[at:]
		if rest == "" {
			cut = true
			continue
		}
		if !f.escape(rest[0]) {
			if strings.HasPrefix(rest, char) {
				ends = add(ends, at+len(char))
			}
			cut = cut || len(rest) < len(char) && strings.HasPrefix(char, rest)
			continue
		}
		for _, s := range f.spellings(char, rest[0]) {
			switch n := min(len(s), len(rest)); {
			case !same(rest[:n], s[:n]):
			case n < len(s):
				cut = true
			default:
				ends = add(ends, at+n)
			}
		}
	}
	return ends, cut
}

// stepBack returns where a character may begin that ends at one of some positions. text begins at offset.
func (f form) stepBack(text, char string, ends []int, offset int) (begins []int) {
	for _, at := range ends {
		before := text[:at-offset]
		if near := before[max(0, len(before)-longest):]; !strings.ContainsFunc(near, f.escapes) {
			if strings.HasSuffix(before, char) {
				begins = add(begins, at-len(char))
			}
			continue
		}
		for _, s := range f.spellings(char, 0) {
			if n := len(before) - len(s); n >= 0 && same(before[n:], s) {
				begins = add(begins, at-len(s))
			}
		}
	}
	return begins
}

// begins reports whether a text is the beginning of the form, but not all of it.
func (f form) begins(text string) bool {
	if text[0] != f.text[0] && !f.escape(text[0]) {
		return false
	}
	at, cut := []int{0}, false
	for rest := f.text[:len(f.text)-f.optional]; rest != "" && len(at) > 0; {
		_, size := utf8.DecodeRuneInString(rest)
		var ended bool
		at, ended = f.step(text, rest[:size], at)
		cut, rest = cut || ended, rest[size:]
	}
	return cut
}

// maxWays limits in how many ways what was read of a form can be understood. Only a form of backslashes has so many.
const maxWays = 16

func add(all []int, n int) []int {
	if len(all) == maxWays || slices.Contains(all, n) {
		return all
	}
	return append(all, n)
}

// escape reports whether a spelling of another character may begin with c.
func (f form) escape(c byte) bool { return f.escapes(rune(c)) }

func (f form) escapes(r rune) bool {
	return r == '%' || r == '\\' || r == '&' || r == '+' || f.base64 && (r == '-' || r == '_')
}

// same compares a part of a text with a spelling. The digits of an escaped character have either case.
func same(text, spelling string) bool {
	if len(spelling) > 1 && strings.IndexByte(`%\&`, spelling[0]) >= 0 {
		return strings.EqualFold(text, spelling)
	}
	return text == spelling
}

// Lengths of spellings in bytes.
const (
	longest     = 20 // of any character
	maxSpelling = 7  // of any character, for each of its bytes
)

// spellings returns how a character may be written: with first, only what begins with it.
func (f form) spellings(char string, first byte) (all []string) {
	add := func(prefix byte, spellings ...string) {
		if first == 0 || first == prefix {
			all = append(all, spellings...)
		}
	}
	add(char[0], char)
	if first == 0 || first == '%' {
		percent := ""
		for i := range len(char) {
			percent += "%" + hex(uint64(char[i]), 2)
		}
		all = append(all, percent, strings.ReplaceAll(percent, "%", "%25"))
	}
	r, _ := utf8.DecodeRuneInString(char)
	if r == utf8.RuneError {
		return all
	}
	if first == 0 || first == '\\' {
		unicode := ""
		for _, u := range utf16.Encode([]rune{r}) {
			unicode += `\u` + hex(uint64(u), 4)
		}
		all = append(all, unicode, strings.ReplaceAll(unicode, `\`, `\\`))
	}
	if first == 0 || first == '&' {
		all = append(all, "&#"+strconv.Itoa(int(r))+";", "&#x"+hex(uint64(r), 1)+";", "&#x"+hex(uint64(r), 2)+";")
	}
	switch r {
	case ' ':
		add('+', "+")
	case '"':
		add('\\', `\"`, `\\\"`)
		add('&', "&quot;")
	case '\'':
		add('\\', `\'`)
		add('&', "&apos;")
	case '\\':
		add('\\', `\\`, `\\\\`)
	case '/':
		add('\\', `\/`, `\\/`)
		if f.base64 {
			add('_', "_")
		}
	case '+':
		if f.base64 {
			add('-', "-")
		}
	case '&':
		add('&', "&amp;")
	case '<':
		add('&', "&lt;")
	case '>':
		add('&', "&gt;")
	case '\n':
		add('\\', `\n`, `\\n`)
	case '\r':
		add('\\', `\r`, `\\r`)
	case '\t':
		add('\\', `\t`, `\\t`)
	}
	return all
}

// hex returns a number with at least so many hexadecimal digits.
func hex(n uint64, digits int) string {
	s := strconv.FormatUint(n, 16)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}
