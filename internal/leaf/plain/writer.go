package plain

import (
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer returns a writer that escapes text like [Text], for a stream that may be shown on a
// terminal, so that its callers need not escape. It is not safe for concurrent use.
func Writer(w io.Writer) io.Writer { return &writer{to: w, escape: Text} }

// JSON returns a writer for JSON that writes hidden characters as \u escapes, which mean the
// same to every JSON parser and have no effect on a terminal. It is not safe for concurrent
// use.
func JSON(w io.Writer) io.Writer { return &writer{to: w, escape: escapeJSON, clean: isASCII} }

// isASCII reports whether JSON text contains no character, nor a part of one, that escapeJSON
// escapes.
func isASCII(p []byte) bool {
	for _, b := range p {
		if b >= 0x7f {
			return false
		}
	}
	return true
}

// A writer escapes what is written to it. If a write ends inside a character, its first bytes
// wait for the next write.
type writer struct {
	to     io.Writer
	escape func(string) string
	clean  func([]byte) bool // whether bytes need no escaping; nil: unknown
	part   []byte
}

// Unwrap returns the writer that escaped text is written to.
func (w *writer) Unwrap() io.Writer { return w.to }

func (w *writer) Write(p []byte) (int, error) {
	if len(w.part) == 0 && w.clean != nil && w.clean(p) {
		return w.to.Write(p)
	}
	text := append(w.part, p...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				whole -= n
			}
			break
		}
	}
	_, err := io.WriteString(w.to, w.escape(string(text[:whole])))
	w.part = append([]byte(nil), text[whole:]...)
	return len(p), err
}

// escapeJSON escapes the hidden characters of JSON text. Characters below U+0020 are either
// white space between values or already escaped.
func escapeJSON(s string) string {
	var b []byte
	kept := 0 // bytes of s that are in b
	for i, r := range s {
		if r < 0x7f || !Hidden(r) {
			continue
		}
		b = append(b, s[kept:i]...)
		kept = i + utf8.RuneLen(r)
		if r1, r2 := utf16.EncodeRune(r); r > 0xffff {
			b = fmt.Appendf(b, `\u%04x\u%04x`, r1, r2)
		} else {
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	if kept == 0 {
		return s
	}
	return string(append(b, s[kept:]...))
}
