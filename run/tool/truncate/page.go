package truncate

import (
	"bytes"
	"fmt"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A Page keeps a range of lines of the text written to it, within its limits, and counts
// the others.
type Page struct {
	Limits
	head   Head
	Offset int // number of the first line to keep, from 1
	skip   int // lines still to skip before it
	take   int // lines still to keep; -1: all
	lines  int // line breaks so far
	size   int64
	last   byte
}

// NewPage returns a Page that keeps take lines, or all if take is negative, from the line
// with the number offset on, within the limits. The first line has the number 1.
func NewPage(offset, take int, l Limits) *Page {
	return &Page{Limits: l, Offset: offset, head: Head{Limits: l}, skip: offset - 1, take: take}
}

// Write never fails.
func (p *Page) Write(data []byte) (int, error) {
	written := len(data)
	if len(data) == 0 {
		return written, nil
	}
	n := bytes.Count(data, newline)
	p.lines += n
	p.size += int64(len(data))
	p.last = data[len(data)-1]
	if p.skip > n {
		p.skip -= n
		return written, nil
	}
	for ; p.skip > 0; p.skip-- {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return written, nil
		}
		data = data[i+1:]
	}
	if p.take < 0 {
		p.head.Write(data)
		return written, nil
	}
	end := 0
	for p.take > 0 && end < len(data) {
		i := bytes.IndexByte(data[end:], '\n')
		if i < 0 {
			end = len(data)
			break
		}
		end += i + 1
		p.take--
	}
	p.head.Write(data[:end])
	return written, nil
}

// Total returns the number of lines. A final line break does not begin another line.
func (p *Page) Total() int {
	if p.size > 0 && p.last != '\n' {
		return p.lines + 1
	}
	return p.lines
}

// Size returns the number of bytes written.
func (p *Page) Size() int64 { return p.size }

// End returns the lines that were kept; see [Head.End]. The totals of the Cut are those of
// the range.
func (p *Page) End() (string, Cut) { return p.head.End() }

// Notice tells a model which lines it sees, and how to go on; "": the text ends here. c is
// what End returned; what names the text, such as "file".
func (p *Page) Notice(c Cut, what string) string {
	total, last := p.Total(), p.Offset+c.Lines-1
	switch left := total - last; {
	case c.By == ByLines:
		return fmt.Sprintf("[Showing lines %d-%d of %d. Use offset=%d to continue.]", p.Offset, last, total, last+1)
	case c.By == ByBytes:
		return fmt.Sprintf("[Showing lines %d-%d of %d (%s limit). Use offset=%d to continue.]", p.Offset, last, total,
			plain.Size(int64(p.Bytes)), last+1)
	case left > 0:
		return fmt.Sprintf("[%s in %s. Use offset=%d to continue.]", plain.Count(left, "more line"), what, last+1)
	}
	return ""
}
