// Package mask replaces secrets in text by [Mark], before anybody sees it.
package mask

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
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

// A Mask replaces values. The zero Mask replaces nothing. It may be used by several goroutines.
type Mask struct {
	forms []string // what is replaced, the longest first
}

// New returns a Mask for values as they are, and as JSON, URLs and base64 write them.
func New(values []string) Mask {
	var m Mask
	add := func(form string) {
		if len(form) >= Shortest && !slices.Contains(m.forms, form) {
			m.forms = append(m.forms, form)
		}
	}
	for _, v := range values {
		if len(v) < Shortest {
			continue
		}
		add(v)
		if quoted, err := json.Marshal(v); err == nil {
			add(string(quoted[1 : len(quoted)-1]))
		}
		add(url.QueryEscape(v))
		add(url.PathEscape(v))
		add(base64.StdEncoding.EncodeToString([]byte(v)))
		add(base64.RawURLEncoding.EncodeToString([]byte(v)))
		if strings.Contains(v, "\n") {
			for line := range strings.Lines(v) {
				if line = strings.TrimSpace(line); len(line) >= minLine {
					add(line)
				}
			}
		}
	}
	order.Stable(m.forms, func(a, b string) int { return len(b) - len(a) })
	return m
}

// Empty reports whether the Mask replaces nothing.
func (m Mask) Empty() bool { return len(m.forms) == 0 }

// In reports whether a text contains what the Mask replaces.
func (m Mask) In(text string) bool {
	return slices.ContainsFunc(m.forms, func(form string) bool { return strings.Contains(text, form) })
}

// Text returns a text without the values.
func (m Mask) Text(text string) string {
	for _, form := range m.forms {
		text = strings.ReplaceAll(text, form, Mark)
	}
	return text
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
	text := w.mask.Text(string(append(w.held, p...)))
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
	for _, form := range m.forms {
		for n := min(len(form)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, form[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}
