package coding

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// A cleaner passes on the output of a program as readable text: valid UTF-8 without
// terminal sequences and control characters. A carriage return ends a line, so that
// every state of a progress bar is a line of its own. Characters and sequences that are
// split between writes are joined.
type cleaner struct {
	w     io.Writer
	state escape
	held  []byte // bytes of an incomplete character
	open  int    // bytes of an incomplete sequence or line break
	cr    bool   // the last byte was a carriage return
	out   []byte
}

// An escape is the state of the cleaner within a terminal sequence.
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
		c.char(r) // an invalid byte becomes U+FFFD
		c.began(size)
		p = p[size:]
	}
	if len(c.out) > 0 {
		c.w.Write(c.out)
	}
	return n, nil
}

// began updates the number of bytes of the incomplete sequence or line break.
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

// pending returns how many of the bytes written have not been passed on yet.
func (c *cleaner) pending() int { return c.open + len(c.held) }

// end passes on what remains.
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

// clean reports whether p can be passed on unchanged.
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
		default: // not a sequence
			c.state = plainText
			c.text(r)
		}
	case str, strEsc:
		switch {
		case r == '\a', r == 0x9c, c.state == strEsc && r == '\\':
			c.state = plainText
		case r == '\n', r == '\r': // a sequence that is not closed must not hide what follows
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
