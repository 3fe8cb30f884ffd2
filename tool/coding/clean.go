package coding

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// A cleaner passes on what a program wrote as the text that a reader is meant
// to see: valid UTF-8 without terminal sequences and control characters. A
// carriage return ends a line, so that every state of a progress bar is one. A
// character or sequence that is split between writes is put together again.
type cleaner struct {
	w     io.Writer
	state escape
	held  []byte // the beginning of a character
	open  int    // bytes of the sequence or line break that has begun
	cr    bool   // the last byte was a carriage return
	out   []byte
}

// An escape is where in a terminal sequence the cleaner is.
type escape uint8

const (
	plainText escape = iota
	afterEsc         // ESC
	inter            // ESC and intermediate bytes, before the final one
	csi              // control sequence: parameters, then a final byte
	str              // operating system command and the like: text up to BEL or ST
	strEsc           // ESC within one
)

func (c *cleaner) Write(p []byte) (int, error) {
	n := len(p)
	if c.state == plainText && len(c.held) == 0 && !c.cr && clean(p) {
		c.w.Write(p)
		return n, nil
	}
	if len(c.held) > 0 {
		p = append(c.held, p...)
		c.held = nil
	}
	c.out = c.out[:0]
	for len(p) > 0 {
		if p[0] < utf8.RuneSelf {
			c.char(rune(p[0]))
			c.began(1)
			p = p[1:]
			continue
		}
		if !utf8.FullRune(p) {
			c.held = bytes.Clone(p)
			break
		}
		r, size := utf8.DecodeRune(p)
		c.char(r) // a byte that is no character is U+FFFD
		c.began(size)
		p = p[size:]
	}
	if len(c.out) > 0 {
		c.w.Write(c.out)
	}
	return n, nil
}

// began counts the bytes of what has begun.
func (c *cleaner) began(size int) {
	switch {
	case c.state != plainText:
		c.open += size
	case c.cr:
		c.open = 1
	default:
		c.open = 0
	}
}

// pending is how many of the bytes written have not come out yet.
func (c *cleaner) pending() int { return c.open + len(c.held) }

// end passes on what was held back.
func (c *cleaner) end() {
	c.out = c.out[:0]
	for range c.held {
		c.char(utf8.RuneError)
	}
	c.held = nil
	if c.cr {
		c.cr = false
		c.out = append(c.out, '\n')
	}
	if len(c.out) > 0 {
		c.w.Write(c.out)
	}
}

// clean reports that there is nothing to do.
func clean(p []byte) bool {
	for _, b := range p {
		if b < ' ' && b != '\n' && b != '\t' || b == 0x7f || b == 0xc2 { // 0xc2 begins U+0080 to U+009F
			return false
		}
	}
	return utf8.Valid(p)
}

func (c *cleaner) char(r rune) {
	if c.cr {
		c.cr = false
		c.out = append(c.out, '\n')
		if r == '\n' {
			return
		}
	}
	switch c.state {
	case afterEsc:
		c.state = plainText
		switch {
		case r == '[':
			c.state = csi
		case r == ']' || r == 'P' || r == '_' || r == '^' || r == 'X':
			c.state = str
		case r >= ' ' && r <= '/':
			c.state = inter
		case r < ' ':
			c.text(r)
		}
	case inter:
		if r < ' ' || r > '/' {
			c.state = plainText
		}
	case csi:
		switch {
		case r >= ' ' && r <= '?':
		case r >= '@' && r <= '~':
			c.state = plainText
		default: // not a sequence after all
			c.state = plainText
			c.text(r)
		}
	case str, strEsc:
		switch {
		case r == '\a', r == 0x9c, c.state == strEsc && r == '\\':
			c.state = plainText
		case r == '\n', r == '\r': // never closed: it does not swallow the rest
			c.state = plainText
			c.text(r)
		case r == 0x1b:
			c.state = strEsc
		default:
			c.state = str
		}
	default:
		c.text(r)
	}
}

func (c *cleaner) text(r rune) {
	switch {
	case r == 0x1b:
		c.state = afterEsc
	case r == 0x9b:
		c.state = csi
	case r == 0x90, r == 0x98, r == 0x9d, r == 0x9e, r == 0x9f:
		c.state = str
	case r == '\r':
		c.cr = true
	case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0:
	default:
		c.out = utf8.AppendRune(c.out, r)
	}
}
