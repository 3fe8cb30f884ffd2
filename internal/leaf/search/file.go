package search

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/charset"
)

// A Line is a line of a file.
type Line struct {
	Num   int    // line number, from 1
	Text  string // without the line ending; at most MaxLine bytes, cut at a rune boundary
	Match bool   // false: a context line
}

// MaxLine is the maximum length of Line.Text in bytes.
const MaxLine = 4 << 10

// Limits of a search, in bytes.
const (
	// maxText is the maximum size of text kept in memory at once: a file searched with
	// Multiline, or one line.
	maxText = 64 << 20
	block   = 128 << 10
	// binaryPrefix is the size of the part of a file that is checked for a NUL byte, which
	// means that the file is not text.
	binaryPrefix = 64 << 10
)

var bom = []byte("\ufeff")

// ErrLarge means that a file is too large for a search with Multiline.
var ErrLarge = errors.New("larger than 64 MiB, which is the most that is searched over several lines")

// A Searcher searches files for a Pattern. It must not be used by several goroutines at once.
type Searcher struct {
	Context   int  // number of context lines before and after a match
	Max       int  // stop after this many matches in a file; 0: no limit
	FirstOnly bool // only the first match is needed
	// Decode, if not nil, converts the whole of a file whose beginning may not be UTF-8, for a pattern that has more
	// than ASCII.
	Decode func([]byte) []byte

	pattern *Pattern
	match   *Matcher
	buf     []byte

	lines    []Line
	count    int
	shownEnd int // end of the text already in lines, as an offset into data
	num      int // number of the line at numAt
	numAt    int
	pending  int // number of context lines still to be added
}

// Searcher returns a new Searcher for p.
func (p *Pattern) Searcher(multiline bool) *Searcher {
	s := &Searcher{pattern: p, buf: make([]byte, block)}
	if !multiline {
		s.match = p.Matcher()
	}
	return s
}

// File searches a file from its beginning. It returns the matching lines with their context,
// and the number of matching lines or, with Multiline, of matches. Binary files have none.
// UTF-16 is decoded.
func (s *Searcher) File(r io.Reader) ([]Line, int, error) {
	s.lines, s.count, s.shownEnd, s.num, s.numAt, s.pending = nil, 0, 0, 1, 0, 0
	n, eof, err := s.fill(r, 0)
	if err != nil || n == 0 {
		return nil, 0, err
	}
	if bytes.HasPrefix(s.buf[:n], bom) { // so that ^ matches after the byte-order mark
		n = copy(s.buf, s.buf[len(bom):n])
	}
	data := s.buf[:n]
	if enc := charset.Begins(data); enc.Wide() {
		data, err = s.rest(r, n, eof)
		if err != nil {
			return nil, 0, err
		}
		data = data[len(enc.Mark()):]
		data, eof = enc.Decode(nil, data[:len(data)&^1]), true
	} else if bytes.IndexByte(data[:min(n, binaryPrefix)], 0) >= 0 {
		return nil, 0, nil
	} else if s.Decode != nil && !validStart(data, eof) {
		if data, err = s.rest(r, n, eof); err != nil {
			return nil, 0, err
		}
		data, eof = s.Decode(data), true
	} else if s.match == nil {
		if data, err = s.rest(r, n, eof); err != nil {
			return nil, 0, err
		}
	}
	if s.match == nil {
		s.spans(data)
		return s.lines, s.count, nil
	}
	from := 0 // start of the text not searched yet
	for {
		whole := len(data)
		if !eof {
			whole = bytes.LastIndexByte(data, '\n') + 1
			if whole == 0 && len(data) < maxText {
				// A line is longer than the buffer.
				s.buf = slices.Grow(s.buf, len(s.buf))[:2*len(s.buf)]
				if n, eof, err = s.fill(r, len(data)); err != nil {
					return s.lines, s.count, err
				}
				data = s.buf[:n]
				continue
			} else if whole == 0 {
				whole = len(data)
			}
		}
		if s.scan(data[:whole], from) || eof {
			return s.lines, s.count, nil
		}
		// Keep the incomplete line, and the lines before it that may be needed as context.
		keep := whole
		for range s.Context {
			if keep > s.shownEnd {
				keep = bytes.LastIndexByte(data[:keep-1], '\n') + 1
			}
		}
		keep = max(keep, min(s.shownEnd, whole))
		s.lineNumber(data, whole)
		s.num -= bytes.Count(data[keep:whole], []byte{'\n'})
		s.numAt, s.shownEnd = 0, 0
		from = whole - keep
		n = copy(s.buf, data[keep:])
		if n == len(s.buf) {
			s.buf = slices.Grow(s.buf, len(s.buf))[:2*len(s.buf)]
		}
		if n, eof, err = s.fill(r, n); err != nil {
			return s.lines, s.count, err
		}
		data = s.buf[:n]
	}
}

// fill reads until buf, which already has n bytes, is full.
func (s *Searcher) fill(r io.Reader, n int) (int, bool, error) {
	for n < len(s.buf) {
		k, err := r.Read(s.buf[n:])
		n += k
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// rest reads the rest of a file, of which n bytes are already in the buffer.
func (s *Searcher) rest(r io.Reader, n int, eof bool) ([]byte, error) {
	var err error
	for !eof {
		if n >= maxText {
			return nil, ErrLarge
		}
		if n == len(s.buf) {
			s.buf = slices.Grow(s.buf, len(s.buf))[:2*len(s.buf)]
		}
		if n, eof, err = s.fill(r, n); err != nil {
			return nil, err
		}
	}
	return s.buf[:n], nil
}

// scan searches complete lines. It reports whether the search of the file is finished.
func (s *Searcher) scan(data []byte, from int) bool {
	for from < len(data) {
		start, end := s.match.Line(data, from)
		if start < 0 {
			break
		}
		s.after(data, start)
		s.count++
		s.before(data, start)
		s.show(data, start, end, true)
		from = s.shownEnd
		s.pending = s.Context
		if s.FirstOnly || s.count == s.Max {
			s.after(data, len(data)) // as far as data goes
			return true
		}
	}
	s.after(data, len(data))
	return false
}

// spans searches a whole file for matches that may span lines.
func (s *Searcher) spans(data []byte) {
	m := &Matcher{p: s.pattern}
	for from := 0; from <= len(data); {
		start, end := m.Span(data, from)
		if start < 0 || start == len(data) && bytes.HasSuffix(data, []byte{'\n'}) {
			break // there is no line after the last newline
		}
		first := bytes.LastIndexByte(data[:start], '\n') + 1
		s.after(data, first)
		s.count++
		s.before(data, first)
		for at := first; ; {
			le := len(data)
			if nl := bytes.IndexByte(data[at:], '\n'); nl >= 0 {
				le = at + nl
			}
			s.show(data, at, le, true)
			at = s.shownEnd
			if at >= end || at >= len(data) {
				break
			}
		}
		from = max(s.shownEnd, from+1)
		s.pending = s.Context
		if s.FirstOnly || s.count == s.Max {
			break
		}
	}
	s.after(data, len(data))
}

// before adds the context lines before a match that begins at start.
func (s *Searcher) before(data []byte, start int) {
	from := start
	for range s.Context {
		if from > s.shownEnd {
			from = bytes.LastIndexByte(data[:from-1], '\n') + 1
		}
	}
	for from = max(from, s.shownEnd); from < start; from = s.shownEnd {
		s.show(data, from, from+bytes.IndexByte(data[from:], '\n'), false)
	}
}

// after adds the remaining context lines of the last match, up to end.
func (s *Searcher) after(data []byte, end int) {
	for s.pending > 0 && s.shownEnd < end {
		le := end
		if nl := bytes.IndexByte(data[s.shownEnd:end], '\n'); nl >= 0 {
			le = s.shownEnd + nl
		}
		s.show(data, s.shownEnd, le, false)
		s.pending--
	}
}

// show adds a line to the result. Its line ending is at end or directly after it.
func (s *Searcher) show(data []byte, start, end int, match bool) {
	s.lineNumber(data, start)
	text := data[start:end]
	if i := end; i == len(data) || data[i] == '\n' {
		text = bytes.TrimSuffix(text, []byte{'\r'})
	}
	if len(text) > MaxLine {
		cut := MaxLine
		for cut > MaxLine-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	s.lines = append(s.lines, Line{Num: s.num, Text: string(text), Match: match})
	s.shownEnd = len(data)
	if nl := bytes.IndexByte(data[end:], '\n'); nl >= 0 {
		s.shownEnd = end + nl + 1
	}
}

// lineNumber advances num to the number of the line at at.
func (s *Searcher) lineNumber(data []byte, at int) {
	s.num += bytes.Count(data[s.numAt:at], []byte{'\n'})
	s.numAt = at
}

// validStart reports whether the lines at the start of a file are valid UTF-8, without escapes of ISO-2022-JP.
func validStart(data []byte, eof bool) bool {
	if !eof {
		data = data[:bytes.LastIndexByte(data, '\n')+1]
	}
	return utf8.Valid(data) && !bytes.Contains(data, []byte("\x1b$"))
}
