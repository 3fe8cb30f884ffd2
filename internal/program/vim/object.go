package vim

import (
	"strings"
)

// object returns the text object of a command at a position.
func (v *Vim) object(text string, at int, c command) reach {
	around := c.key == "a"
	switch c.char {
	case "w", "W":
		return v.word(text, at, c.times(), c.char == "W", around)
	case `"`, "'", "`":
		return v.quoted(text, at, c.times(), c.char[0], around)
	case "(", ")", "b":
		return v.block(text, at, c.times(), '(', ')', around)
	case "[", "]":
		return v.block(text, at, c.times(), '[', ']', around)
	case "{", "}", "B":
		return v.block(text, at, c.times(), '{', '}', around)
	}
	return v.block(text, at, c.times(), '<', '>', around)
}

// block is block in a text; in visual mode, what is selected already is extended by the next brackets around it.
func (v *Vim) block(text string, at, n int, open, closes byte, around bool) reach {
	if v.mode == Normal || v.anchor == at {
		return block(text, at, n, open, closes, around)
	}
	from, to := min(v.anchor, at), max(v.anchor, at)
	r := block(text, from, n, open, closes, around)
	if !r.failed && from <= r.from && r.to <= to {
		r = block(text, from, n+1, open, closes, around)
	}
	if r.failed {
		return nowhere(at)
	}
	return r
}

// word is iw, aw, iW and aW: a run of characters of one kind, with around also the blanks behind or else before it.
func (v *Vim) word(text string, at, n int, big, around bool) reach {
	r := reach{from: at, to: at, inclusive: true, object: true}
	extends := v.mode != Normal && v.anchor != at
	if extends {
		r.from = v.anchor
	}
	back, withBlanks := extends && at < v.anchor, false
	ok := true
	if !extends {
		r.from = inLine(text, at, big)
		if (class(text, r.from, big) == 0) == around {
			if r.to, ok = wordEnd(text, r.from, 1, big, true, true); !ok {
				return nowhere(at)
			}
		} else {
			r.to, _ = wordForward(text, r.from, 1, big, true)
			if r.to == lineStart(text, r.to) {
				if r.to > 0 {
					r.to = onCharacter(text, r.to-1)
				}
			} else {
				r.to = prev(text, r.to)
			}
			withBlanks = around
		}
		n--
	}
	for ; n > 0; n-- {
		if back {
			if r.to, ok = wordBefore(text, r.to, big, around); !ok {
				return nowhere(at)
			}
			continue
		}
		r.inclusive = true
		to, moved, _, ended := forward(text, r.to)
		if moved && ended && !emptyLine(text, to) {
			to, moved, _, _ = forward(text, to)
		}
		if !moved {
			return nowhere(at)
		}
		if around != (class(text, to, big) == 0) {
			if to, ok = wordForward(text, to, 1, big, true); !ok && n > 1 {
				return nowhere(at)
			}
			if to == lineStart(text, to) {
				r.inclusive = false
			} else {
				to = prev(text, to)
			}
		} else if to, ok = wordEnd(text, to, 1, big, true, true); !ok {
			return nowhere(at)
		}
		r.to = to
	}
	if withBlanks && (class(text, r.to, big) != 0 || r.to == lineStart(text, r.to) && !r.inclusive) &&
		r.from > lineStart(text, r.from) {
		if from := inLine(text, prev(text, r.from), big); class(text, from, big) == 0 && from > lineStart(text, from) {
			r.from = from
		}
	}
	return r
}

// wordBefore extends a selection whose cursor is at its start by the word before it.
func wordBefore(text string, at int, big, around bool) (to int, ok bool) {
	to, ok = backward(text, at)
	if ok && atEnd(text, to) && !emptyLine(text, to) {
		to, ok = backward(text, to)
	}
	if !ok {
		return at, false
	}
	if around != (class(text, to, big) != 0) {
		return wordBack(text, to, 1, big, true)
	}
	if to, ok = wordEndBack(text, to, 1, big, true); !ok {
		return at, false
	}
	to, _, _, ended := forward(text, to)
	if ended && !emptyLine(text, to) {
		to, _, _, _ = forward(text, to)
	}
	return to, true
}

// inLine returns the start of the run of characters of one kind at a position.
func inLine(text string, at int, big bool) int {
	of, start := class(text, at, big), lineStart(text, at)
	for at > start && class(text, prev(text, at), big) == of {
		at = prev(text, at)
	}
	return at
}

// quoted is i" and a": what is between two quotes of the line, with around also these and the blanks behind or else
// before them. With a count of 2, i" has the quotes without blanks.
func (v *Vim) quoted(text string, at, n int, quote byte, around bool) reach {
	start, end := lineStart(text, at), lineEnd(text, at)
	line, col := text[start:end], at-start
	open, closed := -1, -1
	if col < len(line) && line[col] == quote {
		for from := 0; ; from = closed + 1 {
			open = quoteFrom(line, from, quote, false)
			if open < 0 || open > col {
				return nowhere(at)
			}
			if closed = quoteFrom(line, open+1, quote, true); closed < 0 {
				return nowhere(at)
			}
			if col <= closed {
				break
			}
		}
	} else {
		if open = quoteBefore(line, col, quote); open < 0 {
			open = quoteFrom(line, col, quote, false)
		}
		if open < 0 {
			return nowhere(at)
		}
		if closed = quoteFrom(line, open+1, quote, true); closed < 0 {
			return nowhere(at)
		}
	}
	from, to := open, closed+1
	switch {
	case around && to < len(line) && isBlank(line[to]):
		for to < len(line) && isBlank(line[to]) {
			to++
		}
	case around:
		for from > 0 && isBlank(line[from-1]) {
			from--
		}
	case n < 2:
		from, to = open+1, closed
	}
	if from == to && v.mode != Normal {
		return nowhere(at)
	}
	if from == to {
		return reach{from: start + from, to: start + to, object: true}
	}
	return reach{from: start + from, to: prev(text, start+to), inclusive: true, object: true}
}

// quoteFrom finds the next quote of a line; escapes: one behind a backslash does not count. -1: there is none.
func quoteFrom(line string, from int, quote byte, escapes bool) int {
	for i := from; i < len(line); i++ {
		switch {
		case escapes && line[i] == '\\':
			i++
		case line[i] == quote:
			return i
		}
	}
	return -1
}

// quoteBefore finds the last quote before a column that is not behind an odd number of backslashes.
func quoteBefore(line string, col int, quote byte) int {
	for i := min(col, len(line)) - 1; i >= 0; i-- {
		if line[i] != quote {
			continue
		}
		escapes := i - len(strings.TrimRight(line[:i], `\`))
		if escapes%2 == 0 {
			return i
		}
		i -= escapes
	}
	return -1
}

// block is i( and the like: what is between two brackets that belong together, around with these.
func block(text string, at, n int, open, closes byte, around bool) reach {
	from := at
	if at < len(text) && text[at] == open {
		n--
	}
	for ; n > 0; n-- {
		depth := 0
		for from--; from >= 0 && depth >= 0; from-- {
			if text[from] == closes {
				depth++
			} else if text[from] == open {
				depth--
			}
		}
		if from++; depth < 0 {
			continue
		}
		if from = ahead(text, at+1, open, closes); from < 0 || n > 1 {
			return nowhere(at)
		}
	}
	depth, to := 0, from
	for ; to < len(text); to++ {
		if text[to] == open {
			depth++
		} else if text[to] == closes {
			if depth--; depth == 0 {
				break
			}
		}
	}
	if to >= len(text) {
		return nowhere(at)
	}
	if around {
		return reach{from: from, to: to, inclusive: true, object: true}
	}
	return inside(text, from, to)
}

// ahead finds the next bracket that opens and is not within others; -1: there is none.
func ahead(text string, at int, open, closes byte) int {
	depth := 0
	for ; at < len(text); at++ {
		if text[at] == closes {
			depth++
		} else if text[at] == open {
			if depth--; depth < 0 {
				return at
			}
		}
	}
	return -1
}

// inside is what is between two brackets, without the end of the line behind the first and the indent before the last.
func inside(text string, open, closes int) reach {
	from := open + 1
	if atEnd(text, from) {
		from++
	}
	to, indented := closes, closes == lineStart(text, closes)
	for at := closes; inIndent(text, at); {
		indented = true
		to = lineStart(text, at)
		if to == 0 || !emptyOrIndent(text, to-1) {
			break
		}
		at = to - 1
	}
	if from >= to {
		return reach{from: min(from, closes), to: min(from, closes), object: true}
	}
	if indented {
		return reach{from: from, to: to, object: true}
	}
	return reach{from: from, to: prev(text, to), inclusive: true, object: true}
}

// emptyOrIndent reports whether a line has blanks only.
func emptyOrIndent(text string, end int) bool {
	return inIndent(text, end) && end > lineStart(text, end)
}
