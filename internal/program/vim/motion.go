package vim

import (
	"strings"
)

// A reach is where a motion leads.
type reach struct {
	to        int
	inclusive bool // an operator takes the character there, too
	lines     bool // an operator takes whole lines
	failed    bool // it leads nowhere: an operator does nothing
	from      int  // of a text object: where it begins
	object    bool
}

// motion returns where the motion of a command leads.
func (v *Vim) motion(text string, at int, c command) reach {
	n, operated := c.times(), c.op != ""
	line, last := lineOf(text, at), lineCount(text)-1
	switch c.key {
	case "h":
		to := at
		for range n {
			if to > lineStart(text, at) {
				to = prev(text, to)
			}
		}
		return reach{to: to}
	case "l":
		return v.right(text, at, n, operated)
	case " ":
		to := at
		for range n {
			if !atEnd(text, to) {
				to = next(text, to)
			}
			if atEnd(text, to) && to < len(text) && !operated {
				to++
			}
		}
		return reach{to: to}
	case "backspace":
		to := at
		for range n {
			if !operated || to > lineStart(text, at) {
				to = prev(text, to)
			}
			if !operated {
				to = onCharacter(text, to)
			}
		}
		return reach{to: to}
	case "j", "k":
		return v.vertical(text, at, c, line, last)
	case "enter":
		return reach{to: firstNonBlank(text, startOfLine(text, min(line+n, last))), lines: true, failed: line == last}
	case "w", "W":
		return words(text, at, c)
	case "b", "B":
		to, ok := wordBack(text, at, n, c.key == "B", false)
		return reach{to: to, failed: !ok}
	case "e", "E":
		to, ok := wordEnd(text, at, n, c.key == "E", false, false)
		return reach{to: behind(text, at, to), inclusive: true, failed: !ok && !operated}
	case "ge":
		to, ok := wordEndBack(text, at, n, false, false)
		return reach{to: to, inclusive: true, failed: !ok}
	case "0":
		return reach{to: lineStart(text, at)}
	case "^":
		return reach{to: firstNonBlank(text, at)}
	case "$":
		if n > 1 && line == last {
			return nowhere(at)
		}
		to := lineEnd(text, startOfLine(text, min(line+n-1, last)))
		v.column = endColumn
		if v.mode != Visual || operated {
			to = onCharacter(text, to)
		}
		return reach{to: to, inclusive: true}
	case "gg", "G":
		to := last
		if c.count > 0 {
			to = min(c.count-1, last)
		} else if c.key == "gg" {
			to = 0
		}
		return reach{to: firstNonBlank(text, startOfLine(text, to)), lines: true}
	case "f", "F", "t", "T":
		v.find = find{c.key, c.char}
		return v.search(text, at, n, v.find, false)
	case ";":
		return v.search(text, at, n, v.find, true)
	case ",":
		f := v.find
		if strings.ToLower(f.key) == f.key {
			f.key = strings.ToUpper(f.key)
		} else {
			f.key = strings.ToLower(f.key)
		}
		return v.search(text, at, n, f, true)
	case "%":
		if c.count > 0 {
			to := startOfLine(text, (min(c.count, 100)*(last+1)+99)/100-1)
			return reach{to: firstNonBlank(text, to), lines: true, failed: c.count > 100}
		}
		to, ok := match(text, at)
		return reach{to: to, inclusive: true, failed: !ok}
	case "i", "a":
		return v.object(text, at, c)
	}
	return nowhere(at)
}

// nowhere is a motion that fails and does not move.
func nowhere(at int) reach { return reach{to: at, failed: true} }

// right is l: with an operator it takes the last character, too, and in visual mode it goes behind it.
func (v *Vim) right(text string, at, n int, operated bool) reach {
	r := reach{to: at}
	for range n {
		to := next(text, r.to)
		if atEnd(text, r.to) || atEnd(text, to) && v.mode == Normal {
			r.inclusive = operated && !emptyLine(text, r.to)
			r.failed = r.to == at && !operated
			break
		}
		r.to = to
	}
	return r
}

func (v *Vim) vertical(text string, at int, c command, line, last int) reach {
	if v.column == 0 {
		v.column = cellOf(text, at) + 1
	}
	to := line + c.times()
	if c.key == "k" {
		to = line - c.times()
	}
	to = min(max(to, 0), last)
	start := startOfLine(text, to)
	if v.column == endColumn {
		end := lineEnd(text, start)
		if v.mode != Visual {
			end = onCharacter(text, end)
		}
		return reach{to: end, lines: true, failed: to == line}
	}
	return reach{to: onCharacter(text, atCell(text, start, v.column-1)), lines: true, failed: to == line}
}

// behind returns where a motion from one position to another ends that must not end behind the last character of a
// line, if it moves forward.
func behind(text string, from, to int) int {
	if from < to {
		return onCharacter(text, to)
	}
	return to
}

// words is w and W. Before c they end at the end of the word, and before an operator at the end of the line.
func words(text string, at int, c command) reach {
	big := c.key == "W"
	if c.op == "c" && !atEnd(text, at) && !isBlank(text[at]) {
		to, _ := wordEnd(text, at, c.times(), big, true, false)
		return reach{to: behind(text, at, to), inclusive: true}
	}
	to, ok := wordForward(text, at, c.times(), big, c.op != "")
	r := reach{to: to, failed: !ok && c.op == ""}
	if at < to && atEnd(text, to) && !emptyLine(text, to) && c.op != "" {
		r.to, r.inclusive = prev(text, to), true
	}
	return r
}

// wordForward goes to the start of a later word. stop: the last one ends at the end of the line. ok is false at the end
// of the text.
func wordForward(text string, at, n int, big, stop bool) (to int, ok bool) {
	lines := lineCount(text) - 1
	for ; n > 0; n-- {
		was, lastLine := class(text, at, big), lineOf(text, at) == lines
		to, moved, crossed, ended := forward(text, at)
		at = to
		if !moved || (crossed || ended) && lastLine {
			return at, false
		}
		if (crossed || ended) && stop && n == 1 {
			return at, true
		}
		for was != 0 && class(text, at, big) == was {
			to, moved, crossed, ended = forward(text, at)
			at = to
			if !moved || (crossed || ended) && stop && n == 1 {
				return at, true
			}
		}
		for class(text, at, big) == 0 && !emptyLine(text, at) {
			to, moved, crossed, ended = forward(text, at)
			at = to
			if !moved || (crossed || ended) && (lastLine || stop && n == 1) {
				return at, true
			}
		}
	}
	return at, true
}

// wordEnd goes to the end of a word. stay: not further if it is at one. empty: an empty line ends it, too.
func wordEnd(text string, at, n int, big, stay, empty bool) (to int, ok bool) {
	for ; n > 0; n-- {
		was := class(text, at, big)
		to, moved, _, _ := forward(text, at)
		if at = to; !moved {
			return at, false
		}
		if class(text, at, big) == was && was != 0 {
			if at, ok = skip(text, at, was, big); !ok {
				return at, false
			}
		} else if !stay || was == 0 {
			for class(text, at, big) == 0 {
				if empty && emptyLine(text, at) {
					break
				}
				if to, moved, _, _ = forward(text, at); !moved {
					return to, false
				}
				at = to
			}
			if class(text, at, big) == 0 {
				stay = false
				continue
			}
			if at, ok = skip(text, at, class(text, at, big), big); !ok {
				return at, false
			}
		}
		at, _ = backward(text, at)
		stay = false
	}
	return at, true
}

// skip goes behind all that has a class.
func skip(text string, at, of int, big bool) (to int, ok bool) {
	for class(text, at, big) == of {
		to, moved, _, _ := forward(text, at)
		if !moved {
			return to, false
		}
		at = to
	}
	return at, true
}

// skipBack goes before all that has a class.
func skipBack(text string, at, of int, big bool) (to int, ok bool) {
	for class(text, at, big) == of {
		to, moved := backward(text, at)
		if !moved {
			return to, false
		}
		at = to
	}
	return at, true
}

// wordBack goes to the start of an earlier word. stay: not further than that of the one it is in.
func wordBack(text string, at, n int, big, stay bool) (to int, ok bool) {
next:
	for ; n > 0; n-- {
		was := class(text, at, big)
		to, moved := backward(text, at)
		if at = to; !moved {
			return at, false
		}
		if !stay || was == class(text, at, big) || was == 0 {
			for class(text, at, big) == 0 {
				if emptyLine(text, at) {
					stay = false
					continue next
				}
				if to, moved = backward(text, at); !moved {
					return to, true
				}
				at = to
			}
			if at, ok = skipBack(text, at, class(text, at, big), big); !ok {
				return at, true
			}
		}
		at, _, _, _ = forward(text, at)
		stay = false
	}
	return at, true
}

// wordEndBack goes to the end of an earlier word. stop: the start of the line ends it, too.
func wordEndBack(text string, at, n int, big, stop bool) (to int, ok bool) {
	for ; n > 0; n-- {
		was := class(text, at, big)
		step := func() (end bool) {
			to, moved := backward(text, at)
			crossed := moved && text[to] == '\n'
			at = to
			return !moved || stop && crossed
		}
		if at == 0 {
			return at, false
		}
		if step() {
			return at, true
		}
		for was != 0 && class(text, at, big) == was {
			if step() {
				return at, true
			}
		}
		for class(text, at, big) == 0 && !emptyLine(text, at) {
			if step() {
				return at, true
			}
		}
	}
	return at, true
}

// search finds a character in the line. again: with t and T not the one beside the cursor.
func (v *Vim) search(text string, at, n int, f find, again bool) reach {
	if f.key == "" {
		return nowhere(at)
	}
	ahead, until := f.key == "f" || f.key == "t", f.key == "t" || f.key == "T"
	over := again && until && n == 1 // what is beside the cursor does not count
	pos := at
	for ; n > 0; n-- {
		for {
			if ahead {
				pos = next(text, pos)
				if atEnd(text, pos) || atEnd(text, at) {
					return nowhere(at)
				}
			} else {
				if pos <= lineStart(text, at) {
					return nowhere(at)
				}
				pos = prev(text, pos)
			}
			if text[pos:next(text, pos)] == f.char && !over {
				break
			}
			over = false
		}
	}
	switch {
	case until && ahead:
		pos = prev(text, pos)
	case until:
		pos = next(text, pos)
	}
	return reach{to: pos, inclusive: ahead}
}

const brackets = "()[]{}"

// match finds the bracket that belongs to the first one from a position on in its line.
func match(text string, at int) (to int, ok bool) {
	from := at
	for ; !atEnd(text, at) && !strings.ContainsRune(brackets, rune(text[at])); at++ {
	}
	if atEnd(text, at) {
		return from, false
	}
	i := strings.IndexByte(brackets, text[at])
	step, other := 1, brackets[i^1]
	if i%2 == 1 {
		step = -1
	}
	depth := 0
	for pos := at; 0 <= pos && pos < len(text); pos += step {
		switch text[pos] {
		case text[at]:
			depth++
		case other:
			if depth--; depth == 0 {
				return pos, true
			}
		}
	}
	return from, false
}
