// Package truncate cuts the output of tools to a size that a model can take.
//
// Most programs start with package engine.
package truncate

import (
	"bytes"
	"unicode/utf8"
)

// Limits are the limits of a truncation. The final newline of a text does not count,
// neither as a line nor as a byte.
type Limits struct{ Lines, Bytes int }

// Default returns the limits of a tool's output.
func Default() Limits { return Limits{2000, 50 << 10} }

// A Cut describes what a truncation kept of a text.
type Cut struct {
	By         string `json:"by,omitempty"` // the limit that was exceeded: lines or bytes; "": nothing was cut
	TotalLines int    `json:"totalLines"`
	TotalBytes int64  `json:"totalBytes"` // without the final newline
	Lines      int    `json:"lines"`      // kept
	Bytes      int    `json:"bytes"`      // kept, without the final newline
	// LineBytes is the length of a single line that exceeds the limit, or 0. In a head
	// it is the first line, of which nothing is kept; in a tail it is the last line, of
	// which the end is kept.
	LineBytes int64 `json:"lineBytes,omitempty"`
}

// The limits that can be exceeded.
const (
	ByLines = "lines"
	ByBytes = "bytes"
)

// A Head keeps whole lines from the start of what is written to it and counts the rest.
// Its memory use is bounded by its limits.
type Head struct {
	Limits
	buf        []byte // whole lines with their newlines, then an incomplete line
	wholeBytes int    // bytes of the whole lines in kept
	lines      int    // number of whole lines in kept
	cutBy      string

	newlines  int
	total     int64
	first     int64 // bytes of the first line so far
	firstDone bool
	last      byte
}

// Write never fails.
func (h *Head) Write(p []byte) (int, error) {
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	h.total += int64(n)
	h.newlines += bytes.Count(p, newline)
	h.last = p[n-1]
	if !h.firstDone {
		i := bytes.IndexByte(p, '\n')
		h.firstDone = i >= 0
		if i < 0 {
			i = n
		}
		h.first += int64(i)
	}
	for len(p) > 0 && h.cutBy == "" {
		if h.lines == h.Lines {
			h.cutBy = ByLines
			break
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			i = len(p)
		}
		if len(h.buf)+i > h.Bytes {
			h.cutBy = ByBytes
			break
		}
		if i == len(p) {
			h.buf = append(h.buf, p...)
			break
		}
		h.buf = append(h.buf, p[:i+1]...)
		p = p[i+1:]
		h.wholeBytes = len(h.buf)
		h.lines++
	}
	return n, nil
}

var newline = []byte{'\n'}

// End returns what was kept, as written. If something was cut, these are whole lines,
// and the last one has no newline.
func (h *Head) End() (string, Cut) {
	c := Cut{By: h.cutBy, TotalLines: h.newlines, TotalBytes: h.total}
	if h.total > 0 && h.last == '\n' {
		c.TotalBytes--
	} else if h.total > 0 {
		c.TotalLines++
	}
	if h.cutBy == "" {
		c.Lines, c.Bytes = c.TotalLines, int(c.TotalBytes)
		return string(h.buf), c
	}
	kept := bytes.TrimSuffix(h.buf[:h.wholeBytes], newline)
	c.Lines, c.Bytes = h.lines, len(kept)
	if h.lines == 0 && h.cutBy == ByBytes {
		c.LineBytes = h.first
	}
	return string(kept), c
}

// A Tail keeps whole lines from the end of what is written to it. If the last line alone
// exceeds the limit, it keeps the end of that line. Its memory use is bounded by its
// limits.
type Tail struct {
	Limits
	buf           []byte // at least the last Limits.Bytes+1 bytes, not counting a final newline
	newlines      int
	total         int64
	lineBytes     int64 // bytes of the line being written
	lastLineBytes int64 // bytes of the line before it
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.total += int64(len(p))
	t.newlines += bytes.Count(p, newline)
	if i := bytes.LastIndexByte(p, '\n'); i < 0 {
		t.lineBytes += int64(len(p))
	} else {
		if j := bytes.LastIndexByte(p[:i], '\n'); j < 0 {
			t.lastLineBytes = t.lineBytes + int64(i)
		} else {
			t.lastLineBytes = int64(i - j - 1)
		}
		t.lineBytes = int64(len(p) - i - 1)
	}
	n := len(p)
	keep := t.Bytes + 2 // one byte more shows that something was cut, and one is the final newline
	if len(p) > keep {
		p = p[len(p)-keep:]
	}
	if len(t.buf)+len(p) > 2*keep { // one copy per keep bytes written
		if drop := len(t.buf) + len(p) - keep; drop < len(t.buf) {
			t.buf = append(t.buf[:0], t.buf[drop:]...)
		} else {
			t.buf = t.buf[:0]
		}
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// End returns what was kept, as written. If something was cut, it has no final newline.
func (t *Tail) End() (string, Cut) {
	c := Cut{TotalLines: t.newlines, TotalBytes: t.total}
	text := t.buf
	last := t.lineBytes
	if bytes.HasSuffix(text, newline) {
		text = text[:len(text)-1]
		c.TotalBytes--
		last = t.lastLineBytes
	} else if t.total > 0 {
		c.TotalLines++
	}
	if c.TotalLines <= t.Lines && c.TotalBytes <= int64(t.Bytes) {
		c.Lines, c.Bytes = c.TotalLines, int(c.TotalBytes)
		return string(t.buf), c
	}
	c.By = ByBytes
	start := len(text) + 1 // start of the first line kept, whose newline is before it
	for start > 0 && c.Lines < t.Lines {
		i := bytes.LastIndexByte(text[:start-1], '\n') + 1
		if len(text)-i > t.Bytes {
			break
		}
		start = i
		c.Lines++
	}
	switch {
	case c.Lines == t.Lines:
		c.By = ByLines
	case c.Lines == 0:
		c.Lines, c.LineBytes = 1, last
		start = len(text) - t.Bytes
		for start < len(text) && !utf8.RuneStart(text[start]) {
			start++
		}
	}
	text = text[start:]
	c.Bytes = len(text)
	return string(text), c
}

// Newlines returns the number of newlines written.
func (t *Tail) Newlines() int { return t.newlines }

// MidLine reports whether the last line written has no newline yet.
func (t *Tail) MidLine() bool { return t.lineBytes > 0 }

// ToHead keeps whole lines from the start of a text.
func ToHead(s string, l Limits) (string, Cut) {
	h := Head{Limits: l}
	h.Write([]byte(s))
	return h.End()
}

// Line shortens a line to a number of characters.
func Line(s string, chars int) (string, bool) {
	if len(s) <= chars {
		return s, false
	}
	n := 0
	for i := range s {
		if n == chars {
			return s[:i] + "… [truncated]", true
		}
		n++
	}
	return s, false
}
