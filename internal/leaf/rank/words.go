package rank

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A run is a piece of text without word separators.
type run struct {
	start, end int
	pairs      bool // in a script without spaces between words
}

// maxRun is the maximum length of a word in bytes; a longer run is a hash, a key or a base64
// image.
const maxRun = 40

// nextRun returns the first run of text at or after at. ok is false at the end.
func nextRun(text []byte, at int) (r run, ok bool) {
	for at < len(text) {
		c := text[at]
		if c < utf8.RuneSelf {
			if !asciiWord(c) {
				at++
				continue
			}
		} else if x, n := utf8.DecodeRune(text[at:]); !wordRune(x) {
			at += n
			continue
		}
		break
	}
	if at >= len(text) {
		return run{}, false
	}
	r.start = at
	if c := text[at]; c >= utf8.RuneSelf {
		x, _ := utf8.DecodeRune(text[at:])
		r.pairs = unspaced(x)
	}
	for at < len(text) {
		c := text[at]
		if c < utf8.RuneSelf {
			if r.pairs || !asciiWord(c) {
				break
			}
			at++
			continue
		}
		x, n := utf8.DecodeRune(text[at:])
		if !wordRune(x) || unspaced(x) != r.pairs {
			break
		}
		at += n
	}
	// C++, C# and F# are words.
	if !r.pairs && at-r.start <= 2 && at < len(text) {
		if text[at] == '#' || bytes.HasPrefix(text[at:], []byte("++")) {
			for at < len(text) && (text[at] == '#' || text[at] == '+') && at-r.start < 4 {
				at++
			}
		}
	}
	r.end = at
	return r, true
}

// asciiWord reports whether an ASCII character belongs to a word.
func asciiWord(c byte) bool { return small(c|0x20) || '0' <= c && c <= '9' }

// wordRune reports whether a character that is not ASCII belongs to a word.
func wordRune(r rune) bool {
	switch { // common cases without tables
	case 0x4e00 <= r && r <= 0x9fff: // Chinese characters
		return true
	case 0x2010 <= r && r <= 0x206f, 0x2190 <= r && r <= 0x2bff, // punctuation, arrows, symbols
		0x3001 <= r && r <= 0x3004, 0x3008 <= r && r <= 0x3020, // Chinese and Japanese punctuation
		0xff01 <= r && r <= 0xff0f, 0xff1a <= r && r <= 0xff20, // the same as wide as Chinese characters
		0x1f000 <= r && r <= 0x1faff: // emoji
		return false
	}
	return wordTables(r)
}

func wordTables(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r) || r == 'ー'
}

// unspaced reports whether a character belongs to a script without spaces between words.
func unspaced(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	return r >= 0x2e80 && r <= 0x9fff || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff || r >= 0x20000 &&
		r <= 0x3ffff ||
		r <= 0x0eff || // Thai, Lao
		r >= 0x1000 && r <= 0x109f || r >= 0x1780 && r <= 0x17ff || // Burmese, Khmer
		r >= 0xff66 && r <= 0xff9d
}

// terms calls f with the terms of a word.
func terms(word string, f func(string)) {
	if len(word) > maxRun {
		return
	}
	if word[0] >= '0' && word[0] <= '9' && len(word) > 6 && strings.Trim(word, "0123456789") == "" {
		return
	}
	parts := camel(word)
	for _, p := range parts {
		wordTerms(p, f)
	}
	if len(parts) > 1 {
		wordTerms(word, f)
	}
}

func wordTerms(word string, f func(string)) {
	word = lower(word)
	if stopped(word) {
		return
	}
	f(stem(word))
	if i := strings.IndexAny(word, "0123456789"); i >= 3 { // such as python3
		f(stem(word[:i]))
	}
}

// camel splits CamelCase, XMLParser and iPhone into parts. It returns one part if there is
// nothing to split.
func camel(word string) []string {
	humps := false
	for i := 1; i < len(word); i++ {
		if upper(word[i]) {
			humps = true
			break
		}
	}
	if !humps {
		return []string{word}
	}
	var parts []string
	start := 0
	for i := 1; i < len(word); i++ {
		next := i+1 < len(word) && small(word[i+1])
		if upper(word[i]) && (!upper(word[i-1]) || next) && i-start > 1 {
			parts = append(parts, word[start:i])
			start = i
		}
	}
	return append(parts, word[start:])
}

func upper(c byte) bool { return 'A' <= c && c <= 'Z' }
func small(c byte) bool { return 'a' <= c && c <= 'z' }

// lower returns a word in lower case and without accents.
func lower(word string) string {
	ascii := true
	for i := 0; i < len(word); i++ {
		if word[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(word)
	}
	var b strings.Builder
	for _, r := range norm.NFKD.String(strings.ToLower(word)) {
		if !unicode.Is(unicode.Mn, r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// pairsOf calls f with each pair of adjacent characters of s, or with s if it is a single
// character.
func pairsOf(s []byte, f func(pair []byte)) {
	_, a := utf8.DecodeRune(s)
	if a == len(s) {
		f(s)
		return
	}
	for a < len(s) {
		_, b := utf8.DecodeRune(s[a:])
		f(s[:a+b])
		s, a = s[a:], b
	}
}

// stopped reports whether a word says nothing about the topic of a text.
func stopped(word string) bool {
	if len(word) > 7 {
		return false
	}
	_, ok := stopWords()[word]
	return ok
}

var stopWords = sync.OnceValue(func() map[string]struct{} {
	m := map[string]struct{}{}
	for _, w := range strings.Fields(`a about after all also am an and any are as at be because been before being both
but by can could did do does doing don each else etc few for from get got had has have having he her here him his
how i if in into is it its itself just ll let like me more most my no not of off on only or other our out over own
please re s same she should so some such t than that the their them then there these they this those through to too
under up us ve very via want was we were what when where which while who whom why will with would you your yours`) {
		m[w] = struct{}{}
	}
	return m
})
