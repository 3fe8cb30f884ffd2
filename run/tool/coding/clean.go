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
	w       io.Writer
	state   escape
	partial []byte // bytes of an incomplete character
	skipped int    // bytes of an incomplete sequence or line break
	afterCR bool   // the last byte was a carriage return
	buf     []byte
}

// An escape is the state of the cleaner within a terminal sequence.
type escape uint8

const (
	plainText       escape = iota
	afterEsc               // ESC
	escIntermediate        // ESC and intermediate bytes, before the final one
	controlSequence        // control sequence: parameters, then a final byte
	stringSequence         // operating system command and the like: text up to BEL or ST
	stringEsc              // ESC within one
)

func (c *cleaner) Write(p []byte) (int, error) {
	n := len(p)
	if c.state == plainText && len(c.partial) == 0 && !c.afterCR && clean(p) {
		c.w.Write(p)
		return n, nil
	}
	if len(c.partial) > 0 {
		p = append(c.partial, p...)
		c.partial = nil
	}
	c.buf = c.buf[:0]
	for len(p) > 0 {
		if p[0] < utf8.RuneSelf {
			c.char(rune(p[0]))
			c.pendingAt(1)
			p = p[1:]
			continue
		}
		if !utf8.FullRune(p) {
			c.partial = bytes.Clone(p)
			break
		}
		r, size := utf8.DecodeRune(p)
		c.char(r) // an invalid byte becomes U+FFFD
		c.pendingAt(size)
		p = p[size:]
	}
	if len(c.buf) > 0 {
		c.w.Write(c.buf)
	}
	return n, nil
}

// pendingAt updates the number of bytes of the incomplete sequence or line break.
func (c *cleaner) pendingAt(size int) {
	switch {
	case c.state != plainText:
		c.skipped += size
	case c.afterCR:
		c.skipped = 1
	default:
		c.skipped = 0
	}
}

// pending returns how many of the bytes written have not been passed on yet.
func (c *cleaner) pending() int { return c.skipped + len(c.partial) }

// end passes on what remains.
func (c *cleaner) end() {
	c.buf = c.buf[:0]
	for range c.partial {
		c.char(utf8.RuneError)
	}
	c.partial = nil
	if c.afterCR {
		c.afterCR = false
		c.buf = append(c.buf, '\n')
	}
	if len(c.buf) > 0 {
		c.w.Write(c.buf)
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
	if c.afterCR {
		c.afterCR = false
		c.buf = append(c.buf, '\n')
		if r == '\n' {
			return
		}
	}
	switch c.state {
	case afterEsc:
		c.state = plainText
		switch {
		case r == '[':
			c.state = controlSequence
		case r == ']' || r == 'P' || r == '_' || r == '^' || r == 'X':
			c.state = stringSequence
		case r >= ' ' && r <= '/':
			c.state = escIntermediate
		case r < ' ':
			c.text(r)
		}
	case escIntermediate:
		if r < ' ' || r > '/' {
			c.state = plainText
		}
	case controlSequence:
		switch {
		case r >= ' ' && r <= '?':
		case r >= '@' && r <= '~':
			c.state = plainText
		default: // not a sequence
			c.state = plainText
			c.text(r)
		}
	case stringSequence, stringEsc:
		switch {
		case r == '\a', r == 0x9c, c.state == stringEsc && r == '\\':
			c.state = plainText
		case r == '\n', r == '\r': // a sequence that is not closed must not hide what follows
			c.state = plainText
			c.text(r)
		case r == 0x1b:
			c.state = stringEsc
		default:
			c.state = stringSequence
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
		c.state = controlSequence
	case r == 0x90, r == 0x98, r == 0x9d, r == 0x9e, r == 0x9f:
		c.state = stringSequence
	case r == '\r':
		c.afterCR = true
	case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0:
	default:
		c.buf = utf8.AppendRune(c.buf, r)
	}
}
