package vim

import (
	"strings"
	"unicode"
)

// An extent is what a command of visual mode changed: "." changes as much from the cursor on.
type extent struct {
	mode  Mode // Normal: the command was none of visual mode
	lines int  // how many lines, less one
	cells int  // in one line its width less one, or else where it ends in the last one
}

// run carries out a complete command.
func (v *Vim) run(text string, at int, c command) (string, int) {
	switch c.key {
	case "u", "ctrl+r":
		if v.mode != Normal {
			break
		}
		from, to := &v.undo, &v.redo
		if c.key == "ctrl+r" {
			from, to = to, from
		}
		for range c.times() {
			text, at = swap(from, to, text, at)
		}
		return text, at
	case ".":
		return v.repeat(text, at, c.count)
	case "v", "V":
		v.toggle(at, map[string]Mode{"v": Visual, "V": VisualLine}[c.key])
		return text, at
	}
	if c.op == "" && (listed(motions, c.key) || c.char != "" && c.key != "r") {
		return v.move(text, at, c)
	}
	before, ch := state{text, at}, &change{command: c}
	v.origin, v.failed = at, false
	if v.mode != Normal {
		if c.key == "o" {
			v.anchor, at = at, v.anchor
			return text, at
		}
		text, at = v.selected(text, at, ch)
	} else {
		text, at = v.change(text, at, ch)
	}
	before.at = v.origin
	v.done(text, at, ch, before)
	return text, at
}

// done keeps a change for undo and for ".".
func (v *Vim) done(text string, at int, ch *change, before state) {
	if v.mode == Insert {
		if text == before.text {
			before.at = at
		}
		v.insert(ch, before, state{text, at})
		return
	}
	if text != before.text {
		v.remember(before)
	}
	if !v.failed && ch.op != "y" && ch.key != "y" && ch.key != "Y" {
		v.last = ch
	}
}

// toggle begins or ends a selection, or changes its kind.
func (v *Vim) toggle(at int, to Mode) {
	switch v.mode {
	case to:
		to = Normal
	case Normal:
		v.anchor = at
	}
	v.mode = to
}

// move carries out a motion or, in visual mode, selects a text object.
func (v *Vim) move(text string, at int, c command) (string, int) {
	r := v.motion(text, at, c)
	if r.object && !r.failed {
		if !r.inclusive && r.to > r.from {
			r.to = prev(text, r.to)
		}
		v.anchor, v.mode = r.from, Visual
	}
	return text, r.to
}

// change carries out a command of normal mode.
func (v *Vim) change(text string, at int, ch *change) (string, int) {
	c := ch.command
	short := map[string]command{
		"x": {op: "d", key: "l"}, "X": {op: "d", key: "h"}, "D": {op: "d", key: "$"}, "C": {op: "c", key: "$"},
		"s": {op: "c", key: "l"}, "S": {op: "c", key: "c"}, "Y": {op: "y", key: "y"},
	}
	if full, ok := short[c.key]; ok && c.op == "" {
		full.count = c.count
		c = full
	}
	if c.op != "" {
		return v.operate(text, at, c)
	}
	n := c.times()
	switch c.key {
	case "i", "I", "a", "A", "o", "O":
		return v.enter(text, at, c.key)
	case "p", "P":
		return put(text, at, v.register, n, c.key == "P")
	case "r":
		was := text
		text, at = replace(text, at, n, c.char)
		v.failed = text == was
		return text, at
	case "~":
		to := at
		for range n {
			to = min(next(text, to), lineEnd(text, at))
		}
		return text[:at] + swapCase(text[at:to]) + text[to:], to
	case "J":
		last := lineCount(text) - 1
		line := lineOf(text, at)
		if line+max(n-1, 1) > last {
			if n <= 2 {
				v.failed = true
				return text, at
			}
			if n = last - line + 1; n == 1 {
				return text, lineStart(text, at)
			}
		}
		return join(text, at, max(n, 2))
	}
	return text, at
}

// enter begins insert mode.
func (v *Vim) enter(text string, at int, key string) (string, int) {
	v.mode = Insert
	switch key {
	case "I":
		at = lineStart(text, at)
		for !atEnd(text, at) && isBlank(text[at]) {
			at++
		}
	case "a":
		if !atEnd(text, at) {
			at = next(text, at)
		}
	case "A":
		at = lineEnd(text, at)
	case "o":
		at = lineEnd(text, at) + 1
		text = text[:at-1] + "\n" + text[at-1:]
	case "O":
		at = lineStart(text, at)
		text = text[:at] + "\n" + text[at:]
	}
	return text, at
}

// insert notes how insert mode began.
func (v *Vim) insert(ch *change, begin, entered state) {
	v.insertion, v.begin, v.entered = ch, begin, entered
}

// leaveInsert ends insert mode: what was typed is repeated if there was a count.
func (v *Vim) leaveInsert(text string, at int) (string, int) {
	ch := v.insertion
	ch.inserted, ch.typed = between(v.entered, text)
	if n := ch.times(); n > 1 && ch.op == "" && ch.extent.mode == 0 && ch.typed {
		end := len(text) - (len(v.entered.text) - v.entered.at)
		more := ch.again(n - 1)
		if strings.Contains("iIaA", ch.key) {
			text, at = text[:end]+more+text[end:], end+len(more)
		} else if ch.key == "o" || ch.key == "O" {
			text, at = text[:end]+more+text[end:], end+len(more)
		}
	}
	ch.typed = true
	v.mode, v.insertion = Normal, nil
	if text != v.begin.text {
		v.remember(v.begin)
	}
	v.last = ch
	if at > lineStart(text, at) {
		at = prev(text, at)
	}
	return text, at
}

// again returns what a count of an insertion adds.
func (ch *change) again(n int) string {
	if ch.key == "o" || ch.key == "O" {
		return strings.Repeat("\n"+ch.inserted, n)
	}
	return strings.Repeat(ch.inserted, n)
}

// between returns what was typed in insert mode. whole is false if more than that has changed.
func between(from state, text string) (typed string, whole bool) {
	before, after := from.text[:from.at], from.text[from.at:]
	if len(text) >= len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after) {
		return text[len(before) : len(text)-len(after)], true
	}
	i := 0
	for i < min(len(from.text), len(text)) && from.text[i] == text[i] {
		i++
	}
	end := len(text)
	for j := len(from.text); j > i && end > i && from.text[j-1] == text[end-1]; {
		j, end = j-1, end-1
	}
	return strings.ToValidUTF8(text[i:end], ""), false
}

// repeat carries out the last change again.
func (v *Vim) repeat(text string, at, count int) (string, int) {
	if v.last == nil {
		return text, at
	}
	ch := *v.last
	if count > 0 && ch.extent.mode == 0 {
		ch.count = count
	}
	before := state{text, at}
	v.origin = at
	if ch.extent.mode != 0 {
		v.anchor, v.mode = at, ch.extent.mode
		text, at = v.selected(text, ch.extent.end(text, at), &ch)
	} else {
		text, at = v.change(text, at, &ch)
	}
	if v.mode == Insert {
		typed := ch.inserted
		if ch.op == "" && ch.extent.mode == 0 && strings.Contains("iIaAoO", ch.key) {
			typed += ch.again(ch.times() - 1)
		}
		text, at = text[:at]+typed+text[at:], at+len(typed)
		v.mode = Normal
		if at > lineStart(text, at) {
			at = prev(text, at)
		}
	}
	if before.at = v.origin; text != before.text {
		v.remember(before)
	}
	v.last = &ch
	return text, at
}

// operate carries out an operator of normal mode.
func (v *Vim) operate(text string, at int, c command) (string, int) {
	if c.key == c.op { // whole lines
		line, last := lineOf(text, at), lineCount(text)-1
		if c.times() > 1 && line == last {
			v.failed = true
			return text, at
		}
		if c.times() == 1 && c.op != "y" {
			v.origin = min(at, firstNonBlank(text, at))
		}
		end := lineEnd(text, startOfLine(text, min(line+c.times()-1, last)))
		return v.lines(text, at, end, at, c.op, 1)
	}
	r := v.motion(text, at, c)
	if v.column, v.failed = 0, r.failed; r.failed {
		return text, r.to
	}
	from, to := at, r.to
	if r.object {
		from = r.from
	}
	if to < from {
		from, to = to, from
	}
	v.origin = from
	if !r.lines && !r.inclusive && to > from && to == lineStart(text, to) { // it is moved to the end of the line above
		to--
		r.lines = inIndent(text, from)
	} else if !r.lines && r.inclusive && !atEnd(text, to) {
		to = next(text, to)
	}
	if r.lines || c.op == ">" || c.op == "<" {
		return v.lines(text, from, to, from, c.op, 1)
	}
	if c.op == "d" && strings.Contains(text[from:to], "\n") && inIndent(text, from) &&
		strings.Trim(text[to:lineEnd(text, to)], " \t") == "" {
		return v.lines(text, from, to, from, c.op, 1)
	}
	if from == to && r.inclusive && c.op == "c" {
		v.register = register{}
	}
	return v.characters(text, from, to, c.op)
}

// characters carries out d, c or y on a part of the text.
func (v *Vim) characters(text string, from, to int, op string) (string, int) {
	if op == "c" {
		v.mode = Insert
	}
	if from == to && op != "y" {
		return text, from
	}
	v.register = register{text: text[from:to]}
	if op == "y" {
		return text, from
	}
	return text[:from] + text[to:], from
}

// lines carries out an operator on the lines from one position to another. n is by how much > and < move them.
func (v *Vim) lines(text string, from, to, at int, op string, n int) (string, int) {
	from, to = lineStart(text, from), lineEnd(text, to)
	switch op {
	case ">", "<":
		by := n * shiftWidth
		if op == "<" {
			by = -by
		}
		return shift(text, from, to, by)
	}
	v.register = register{text[from:to], true}
	switch op {
	case "y":
		return text, at
	case "c":
		v.mode = Insert
		return text[:from] + text[to:], from
	}
	switch {
	case to < len(text):
		text = text[:from] + text[to+1:]
	case from > 0:
		text = text[:from-1]
		from = lineStart(text, len(text))
	default:
		return "", 0
	}
	return text, firstNonBlank(text, from)
}

// shift moves lines by a number of cells.
func shift(text string, from, to, by int) (string, int) {
	lines := strings.Split(text[from:to], "\n")
	for i, l := range lines {
		rest := strings.TrimLeft(l, " \t")
		if l == "" {
			continue
		}
		cells := cellOf(l, len(l)-len(rest)) + by
		lines[i] = strings.Repeat(" ", max(cells, 0)) + rest
	}
	text = text[:from] + strings.Join(lines, "\n") + text[to:]
	return text, firstNonBlank(text, from)
}

// put inserts the register behind the cursor, or before it.
func put(text string, at int, r register, n int, before bool) (string, int) {
	if r.text == "" && !r.lines {
		return text, at
	}
	if r.lines {
		all := strings.Repeat(r.text+"\n", n)
		if before {
			from := lineStart(text, at)
			return text[:from] + all + text[from:], firstNonBlank(text[:from]+all+text[from:], from)
		}
		end := lineEnd(text, at)
		text = text[:end] + "\n" + strings.TrimSuffix(all, "\n") + text[end:]
		return text, firstNonBlank(text, end+1)
	}
	if !before && !atEnd(text, at) {
		at = next(text, at)
	}
	all := strings.Repeat(r.text, n)
	text = text[:at] + all + text[at:]
	if strings.Contains(r.text, "\n") {
		return text, at
	}
	return text, prev(text, at+len(all))
}

// replace is r: n characters become another one, or the end of a line.
func replace(text string, at, n int, char string) (string, int) {
	to := at
	for range n {
		if atEnd(text, to) {
			return text, at
		}
		to = next(text, to)
	}
	switch {
	case char == "enter":
		return text[:at] + "\n" + text[to:], at + 1
	case char == "tab":
		char = "\t"
	case len([]rune(char)) > 1 && next(char, 0) != len(char), strings.HasPrefix(char, "ctrl+"):
		return text, at
	}
	all := strings.Repeat(char, n)
	return text[:at] + all + text[to:], at + len(all) - len(char)
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

// join joins n lines by blanks.
func join(text string, at, n int) (string, int) {
	end := lineEnd(text, at)
	for range n - 1 {
		if end >= len(text) {
			break
		}
		start := lineStart(text, end)
		rest := strings.TrimLeft(text[end+1:lineEnd(text, end+1)], " \t")
		after := text[lineEnd(text, end+1):]
		gap := " "
		if rest == "" || rest[0] == ')' || end == start || text[end-1] == ' ' {
			gap = ""
		}
		at = end
		text = text[:end] + gap + rest + after
		end += len(gap) + len(rest)
	}
	return text, at
}

// selected carries out a command of visual mode on the selection, which ends with it.
func (v *Vim) selected(text string, at int, ch *change) (string, int) {
	mode := v.mode
	from, to := min(v.anchor, at), max(v.anchor, at)
	first := from
	if mode == VisualLine && v.anchor <= at {
		first = lineStart(text, from)
	}
	to = min(to, len(text))
	v.origin = from
	if ch.extent.mode == 0 {
		ch.extent = extentOf(text, from, to, mode)
	}
	v.mode = Normal
	key := ch.key
	if low, ok := map[string]string{"X": "d", "D": "d", "C": "c", "S": "c", "R": "c", "Y": "y"}[key]; ok {
		mode, key = VisualLine, low
	}
	key = strings.NewReplacer("x", "d", "s", "c").Replace(key)
	if mode == VisualLine && key != "J" {
		from, to = lineStart(text, from), lineEnd(text, to)
	} else if key != "J" && key != ">" && key != "<" {
		if !atEnd(text, to) || to < len(text) && (key == "d" || key == "c" || key == "y" || key == "p" || key == "P") {
			to = next(text, to)
		}
	}
	switch key {
	case "d", "c", "y":
		if mode == VisualLine {
			return v.lines(text, from, to, from, key, 1)
		}
		return v.characters(text, from, to, key)
	case ">", "<":
		return v.lines(text, from, to, from, key, ch.times())
	case "J":
		if mode == VisualLine {
			from = lineStart(text, from)
		}
		return join(text, from, max(lineOf(text, to)-lineOf(text, from)+1, 2))
	case "~":
		return text[:from] + swapCase(text[from:to]) + text[to:], first
	case "u":
		return text[:from] + strings.ToLower(text[from:to]) + text[to:], first
	case "U":
		return text[:from] + strings.ToUpper(text[from:to]) + text[to:], first
	case "r":
		return overwrite(text, from, to, ch.char), from
	case "p", "P":
		return v.putOver(text, from, to, mode, ch)
	}
	return text, at
}

// overwrite replaces each character of a part by another one.
func overwrite(text string, from, to int, char string) string {
	if char == "enter" {
		char = "\n"
	} else if len(char) > 1 && next(char, 0) != len(char) {
		return text
	}
	parts := graphemes(text[from:to])
	for i, p := range parts {
		if p != "\n" {
			parts[i] = char
		}
	}
	return text[:from] + strings.Join(parts, "") + text[to:]
}

// putOver is p and P of visual mode: the register takes the place of the selection, which p keeps in it.
func (v *Vim) putOver(text string, from, to int, mode Mode, ch *change) (string, int) {
	was, n := v.register, ch.times()
	if mode == VisualLine {
		v.register = register{text[from:to], true}
		all := strings.Repeat(was.text+"\n", n)
		if !was.lines {
			all = strings.Repeat(was.text, n) + "\n"
		}
		text = text[:from] + strings.TrimSuffix(all, "\n") + text[to:]
		if ch.key == "P" {
			v.register = was
		}
		return text, firstNonBlank(text, from)
	}
	v.register = register{text: text[from:to]}
	if ch.key == "P" {
		defer func() { v.register = was }()
	}
	if was.lines {
		all := "\n" + strings.Repeat(was.text+"\n", n)
		text = text[:from] + all + text[to:]
		return text, firstNonBlank(text, from+1)
	}
	all := strings.Repeat(was.text, n)
	text = text[:from] + all + text[to:]
	if strings.Contains(was.text, "\n") || all == "" {
		return text, from
	}
	return text, prev(text, from+len(all))
}

func extentOf(text string, from, to int, mode Mode) extent {
	e := extent{mode: mode, lines: lineOf(text, to) - lineOf(text, from), cells: cellOf(text, to)}
	if e.lines == 0 {
		e.cells += widthAt(text[to:next(text, to)], e.cells) - 1 - cellOf(text, from)
	}
	return e
}

// end returns where an extent ends that begins at a position.
func (e extent) end(text string, at int) int {
	start, cell := startOfLine(text, lineOf(text, at)+e.lines), e.cells
	if e.lines == 0 {
		cell += cellOf(text, at)
	}
	return onCharacter(text, atCell(text, start, cell))
}
