// Package mask replaces secrets in text by [Mark], before anybody sees it.
package mask

import (
	"encoding/base64"
	"io"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// Mark is what stands in the place of a secret.
const Mark = "[secret]"

// Shortest is the length in bytes of the shortest value that is replaced. Shorter ones are in many texts.
const Shortest = 4

// minLine is the length of the shortest line of a value, such as one of a private key, that is replaced by itself.
const minLine = 16

// minBase64 is the length of the shortest base64 that is replaced inside other base64: shorter ones are in images.
const minBase64 = 6

// A Mask replaces values. The zero Mask replaces nothing. It may be used by several goroutines.
type Mask struct{ forms []form }

// New returns a Mask for values as they are, as JSON, URLs and HTML escape them, and in base64, where other bytes may
// be around them. It does not find base64 that is broken into lines inside of a value.
func New(values []string) Mask {
	var m Mask
	for _, v := range values {
		if len(v) < Shortest || isRuler(v) {
			continue
		}
		m.add(newForm(v, 0, false))
		for offset := range 3 {
			m.addBase64(v, offset)
		}
		if strings.Contains(v, "\n") {
			for line := range strings.Lines(v) {
				if line = strings.TrimSpace(line); len(line) >= minLine {
					m.add(newForm(line, 0, false))
				}
			}
		}
	}
	return m
}

// isRuler reports whether a value is one sign many times, such as a line of "=". It is no secret, and to look for 300
// backslashes in every way in which they may be escaped would take long.
func isRuler(v string) bool { return len(v) > 16 && !unescaped(v[0]) && strings.Trim(v, v[:1]) == "" }

func (m *Mask) add(f form) {
	if !slices.Contains(m.forms, f) {
		m.forms = append(m.forms, f)
	}
}

// addBase64 adds the characters that all base64 of a value has whose first byte is at an offset in a group of three.
func (m *Mask) addBase64(v string, offset int) {
	all := base64.StdEncoding.EncodeToString(append(make([]byte, offset, offset+len(v)), v...))
	first := []int{0, 2, 3}[offset]   // those before have bits of what precedes
	last := (offset + len(v)) * 8 / 6 // those from here on have bits of what follows, or are padding
	switch {
	case offset > 0 && last-first >= minBase64:
		m.add(newForm(all[first:last], 0, true))
	case offset == 0 && last >= minBase64:
		m.add(newForm(all, len(all)-last, true))
	case offset == 0:
		whole := len(strings.TrimRight(all, "="))
		m.add(newForm(all, len(all)-whole, true))
	}
}

// Empty reports whether the Mask replaces nothing.
func (m Mask) Empty() bool { return len(m.forms) == 0 }

// In reports whether a text contains what the Mask replaces.
func (m Mask) In(text string) bool { return len(m.whole(text)) > 0 || len(m.cutOff(text)) > 0 }

// Text returns a text in which [Mark] replaces the values, and the beginning of a value where the text was cut: before
// "…", before a line in brackets, or at the end.
func (m Mask) Text(text string) string {
	return replaced(text, append(m.whole(text), m.cutOff(text)...))
}

// whole returns where values are in a text.
func (m Mask) whole(text string) (found []span) {
	for _, f := range m.forms {
		for at := 0; ; {
			s, ok := f.find(text, at)
			if !ok {
				break
			}
			found, at = append(found, s), s.to
		}
	}
	return found
}

// minPiece is the length in bytes of the shortest beginning of a value that is replaced where a text was cut.
const minPiece = 8

// cutOff returns where beginnings of values are before the places at which a text may have been cut.
func (m Mask) cutOff(text string) (found []span) {
	if m.Empty() {
		return nil
	}
	for at := 0; at < len(text); {
		cut := len(text)
		for _, sign := range []string{"…", "\n["} {
			if i := strings.Index(text[at:cut], sign); i >= 0 {
				cut = at + i
			}
		}
		if n := m.begun(text[at:cut]); n >= minPiece {
			found = append(found, span{cut - n, cut})
		}
		at = cut + 1
	}
	return found
}

// replaced returns a text with [Mark] in the place of spans.
func replaced(text string, found []span) string {
	if len(found) == 0 {
		return text
	}
	order.Stable(found, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	end := 0
	for i, s := range found {
		if i == 0 || s.from >= end {
			b.WriteString(text[end:s.from])
			b.WriteString(Mark)
		}
		end = max(end, s.to)
	}
	b.WriteString(text[end:])
	return b.String()
}

// Writer returns a Writer that passes on what it gets without the values. It keeps back the end that may be the
// beginning of one until more comes, or End is called.
func (m Mask) Writer(to io.Writer) *Writer { return &Writer{mask: m, to: to} }

// A Writer is made by [Mask.Writer]. It must not be used by several goroutines at a time.
type Writer struct {
	mask Mask
	to   io.Writer
	held []byte
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	text := string(append(w.held, p...))
	text = replaced(text, w.mask.whole(text))
	cut := len(text) - w.mask.begun(text)
	w.held = []byte(text[cut:])
	if cut == 0 {
		return len(p), nil
	}
	if _, err := io.WriteString(w.to, text[:cut]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// End passes on what is kept back.
func (w *Writer) End() error {
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.to.Write(w.held)
	w.held = nil
	return err
}

// begun returns the length of the longest end of a text that is the beginning of what is replaced.
func (m Mask) begun(text string) int {
	longest := 0
	for _, f := range m.forms {
		for n := min(len(f.text)*maxSpelling, len(text)); n > longest; n-- {
			if f.begins(text[len(text)-n:]) {
				longest = n
				break
			}
		}
	}
	return longest
}
