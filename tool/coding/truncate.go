package coding

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Size limits of a tool's output.
const (
	maxLines = 2000
	maxBytes = 50 << 10
	maxLine  = 500 // characters of one line that grep shows
)

// limits are the limits of a truncation. The final newline of a text does not count,
// neither as a line nor as a byte.
type limits struct{ lines, bytes int }

var defaultLimits = limits{maxLines, maxBytes}

// A cut describes what a truncation kept of a text.
type cut struct {
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

const (
	cutLines = "lines"
	cutBytes = "bytes"
)

// A head keeps whole lines from the start of what is written to it and counts the rest.
// Its memory use is bounded by its limits.
type head struct {
	limits
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

func (h *head) Write(p []byte) (int, error) {
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
		if h.lines == h.limits.lines {
			h.cutBy = cutLines
			break
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			i = len(p)
		}
		if len(h.buf)+i > h.limits.bytes {
			h.cutBy = cutBytes
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

// end returns what was kept, as written. If something was cut, these are whole lines,
// and the last one has no newline.
func (h *head) end() (string, cut) {
	c := cut{By: h.cutBy, TotalLines: h.newlines, TotalBytes: h.total}
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
	if h.lines == 0 && h.cutBy == cutBytes {
		c.LineBytes = h.first
	}
	return string(kept), c
}

// A tail keeps whole lines from the end of what is written to it. If the last line alone
// exceeds the limit, it keeps the end of that line. Its memory use is bounded by its
// limits.
type tail struct {
	limits
	buf           []byte // at least the last limits.bytes+1 bytes, not counting a final newline
	newlines      int
	total         int64
	lineBytes     int64 // bytes of the line being written
	lastLineBytes int64 // bytes of the line before it
}

func (t *tail) Write(p []byte) (int, error) {
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
	keep := t.limits.bytes + 2 // one byte more shows that something was cut, and one is the final newline
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

// end returns what was kept, as written. If something was cut, it has no final newline.
func (t *tail) end() (string, cut) {
	c := cut{TotalLines: t.newlines, TotalBytes: t.total}
	text := t.buf
	last := t.lineBytes
	if bytes.HasSuffix(text, newline) {
		text = text[:len(text)-1]
		c.TotalBytes--
		last = t.lastLineBytes
	} else if t.total > 0 {
		c.TotalLines++
	}
	if c.TotalLines <= t.limits.lines && c.TotalBytes <= int64(t.limits.bytes) {
		c.Lines, c.Bytes = c.TotalLines, int(c.TotalBytes)
		return string(t.buf), c
	}
	c.By = cutBytes
	start := len(text) + 1 // start of the first line kept, whose newline is before it
	for start > 0 && c.Lines < t.limits.lines {
		i := bytes.LastIndexByte(text[:start-1], '\n') + 1
		if len(text)-i > t.limits.bytes {
			break
		}
		start = i
		c.Lines++
	}
	switch {
	case c.Lines == t.limits.lines:
		c.By = cutLines
	case c.Lines == 0:
		c.Lines, c.LineBytes = 1, last
		start = len(text) - t.limits.bytes
		for start < len(text) && !utf8.RuneStart(text[start]) {
			start++
		}
	}
	text = text[start:]
	c.Bytes = len(text)
	return string(text), c
}

// truncateHead keeps whole lines from the start of a text.
func truncateHead(s string, l limits) (string, cut) {
	h := head{limits: l}
	h.Write([]byte(s))
	return h.end()
}

// truncateTail keeps whole lines from the end of a text.
func truncateTail(s string, l limits) (string, cut) {
	t := tail{limits: l}
	t.Write([]byte(s))
	return t.end()
}

// truncateLine shortens a line to a number of characters.
func truncateLine(s string, chars int) (string, bool) {
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

// formatSize formats a number of bytes for the model: 512B, 58.6KB, 1.2MB.
func formatSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fKB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1fMB", float64(n)/(1<<20))
}
