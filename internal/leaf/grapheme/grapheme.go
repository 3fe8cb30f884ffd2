// Package grapheme moves through a text by grapheme cluster: an emoji, or a letter with its combining marks, is one
// step.
package grapheme

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Next returns the end of the grapheme that begins at the byte offset at, or the length of the text at its end.
func Next(text string, at int) int {
	g := displaywidth.StringGraphemes(text[at:])
	if g.Next() {
		return at + len(g.Value())
	}
	return at
}

// Prev returns the start of the grapheme that ends at the byte offset at, or 0 at the start of the text. Graphemes
// never cross lines.
func Prev(text string, at int) int {
	if at == 0 {
		return 0
	}
	if text[at-1] == '\n' {
		return at - 1
	}
	from := strings.LastIndexByte(text[:at], '\n') + 1
	last := from
	g := displaywidth.StringGraphemes(text[from:at])
	for pos := from; g.Next(); pos += len(g.Value()) {
		last = pos
	}
	return last
}
