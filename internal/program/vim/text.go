package vim

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"github.com/knack-agent/knack/internal/leaf/grapheme"
)

// In this package a position is a byte offset in the text. It is the start of a character, a newline, or the end of the
// text.

func next(text string, at int) int { return grapheme.Next(text, at) }
func prev(text string, at int) int { return grapheme.Prev(text, at) }

// atEnd reports whether a position is behind the last character of its line.
func atEnd(text string, at int) bool { return at >= len(text) || text[at] == '\n' }

func lineStart(text string, at int) int { return strings.LastIndexByte(text[:at], '\n') + 1 }

func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}

// lineOf returns the number of the line with a position, from 0, and lineCount how many there are.
func lineOf(text string, at int) int { return strings.Count(text[:at], "\n") }
func lineCount(text string) int      { return strings.Count(text, "\n") + 1 }

// startOfLine returns the start of a line, or of the last one.
func startOfLine(text string, line int) int {
	at := 0
	for range line {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			break
		}
		at += i + 1
	}
	return at
}

// onCharacter moves a position from behind the last character of a line to it.
func onCharacter(text string, at int) int {
	at = min(at, len(text))
	if atEnd(text, at) && at > lineStart(text, at) {
		return prev(text, at)
	}
	return at
}

// characterAt returns the start of the character that contains the byte at an offset.
func characterAt(text string, at int) int {
	start := lineStart(text, at)
	for start < at {
		end := next(text, start)
		if end > at {
			break
		}
		start = end
	}
	return start
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

// firstNonBlank returns the position of the first character of a line that is no blank, or its last one.
func firstNonBlank(text string, at int) int {
	at = lineStart(text, at)
	for !atEnd(text, at) && isBlank(text[at]) {
		at++
	}
	return onCharacter(text, at)
}

// inIndent reports whether only blanks precede a position in its line.
func inIndent(text string, at int) bool {
	return strings.Trim(text[lineStart(text, at):at], " \t") == ""
}

// cellOf returns how many cells precede a position in its line, and atCell the position in a line of a cell.
func cellOf(text string, at int) int {
	cells := 0
	for _, r := range graphemes(text[lineStart(text, at):at]) {
		cells += widthAt(r, cells)
	}
	return cells
}

func atCell(text string, start, cell int) int {
	at, cells := start, 0
	for !atEnd(text, at) {
		to := next(text, at)
		if cells += widthAt(text[at:to], cells); cells > cell {
			break
		}
		at = to
	}
	return at
}

func graphemes(s string) (all []string) {
	for g := displaywidth.StringGraphemes(s); g.Next(); {
		all = append(all, g.Value())
	}
	return all
}

func widthAt(s string, cell int) int {
	if s == "\t" {
		return tabWidth - cell%tabWidth
	}
	return displaywidth.String(s)
}

// class returns the kind of the character at a position: blanks and ends of lines are 0, and a word is a run of the
// same kind. Letters of scripts without blanks are words of their script. big counts all that is no blank as one.
func class(text string, at int, big bool) int {
	if atEnd(text, at) || isBlank(text[at]) {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(text[at:])
	switch {
	case big:
		return 1
	case unicode.Is(unicode.Han, r):
		return 3
	case unicode.Is(unicode.Hiragana, r):
		return 4
	case unicode.Is(unicode.Katakana, r):
		return 5
	case unicode.Is(unicode.Hangul, r):
		return 6
	case r == '_', unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
		return 2
	case r > 0x2100 && unicode.IsSymbol(r):
		return 7
	}
	return 1
}

// forward moves to the next position, also behind the last character of a line and from there to the next line. ok is
// false at the end of the text; crossed says that it is in another line, ended that it is behind the last character.
func forward(text string, at int) (to int, ok, crossed, ended bool) {
	switch {
	case at >= len(text):
		return at, false, false, false
	case text[at] == '\n':
		return at + 1, true, true, false
	}
	to = next(text, at)
	return to, true, false, atEnd(text, to)
}

// backward moves to the position before, also behind the last character of the line above.
func backward(text string, at int) (to int, ok bool) {
	if at == 0 {
		return 0, false
	}
	return prev(text, at), true
}

// emptyLine reports whether a position is that of a line without characters.
func emptyLine(text string, at int) bool { return atEnd(text, at) && at == lineStart(text, at) }
