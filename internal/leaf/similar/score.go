package similar

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Score rates how well a text matches a pattern, ignoring case. It is 0 unless the
// text contains the letters of the pattern in their order. Letters that are closer
// together score higher, and a text that begins with the pattern or equals it
// scores highest. Of two equal matches the shorter text scores higher.
func Score(text, pattern string) int {
	if pattern == "" {
		return 1
	}
	if !ascii(text) || !ascii(pattern) {
		text, pattern = strings.ToLower(text), strings.ToLower(pattern)
	} else if !within(text, pattern) {
		return 0
	}
	if i := index(text, pattern); i >= 0 {
		score := 1000 - min(len(text), 200)
		switch {
		case len(text) == len(pattern):
			score += 2000
		case i == 0:
			score += 1000
		case boundary(text, i):
			score += 500
		}
		return score
	}
	at, score := 0, 400-min(len(text), 150)
	for _, r := range pattern {
		i := indexRune(text[at:], r)
		if i < 0 {
			return 0
		}
		switch {
		case i == 0:
			score += 12
		case boundary(text, at+i):
			score += 10
		default:
			score -= min(i, 20)
		}
		_, n := utf8.DecodeRuneInString(text[at+i:])
		at += i + n
	}
	return max(score, 1)
}

// within reports whether text contains the letters of an ASCII pattern in order.
func within(text, pattern string) bool {
	j := 0
	for i := 0; i < len(text) && j < len(pattern); i++ {
		if lower(text[i]) == lower(pattern[j]) {
			j++
		}
	}
	return j == len(pattern)
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// index is like strings.Index, but ignores the case of ASCII letters, and prefers a match at
// the start of a word to an earlier one.
func index(text, pattern string) int {
	first := -1
	start := lower(pattern[0])
	for i := 0; i+len(pattern) <= len(text); i++ {
		if lower(text[i]) != start || !strings.EqualFold(text[i:i+len(pattern)], pattern) {
			continue
		}
		if boundary(text, i) {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	return first
}

func indexRune(text string, r rune) int {
	if r >= utf8.RuneSelf {
		return strings.IndexRune(text, r)
	}
	c := lower(byte(r))
	for i := 0; i < len(text); i++ {
		if lower(text[i]) == c {
			return i
		}
	}
	return -1
}

// boundary reports whether a word begins at i.
func boundary(s string, i int) bool {
	if i == 0 {
		return true
	}
	r, _ := utf8.DecodeLastRuneInString(s[:i])
	return !unicode.IsLetter(r) && !unicode.IsDigit(r)
}
