// Package editor implements the prompt's text while it is typed: a cursor, undo, a kill
// buffer, pasted blocks shown as chips, and the history of earlier prompts.
//
// It does not depend on a terminal: the caller maps keys to its methods, and [Editor.Rows]
// returns what to draw. All movement is by grapheme cluster, so an emoji or a letter with
// combining marks is one step.
package editor

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"github.com/knack-agent/knack/internal/leaf/grapheme"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/vim"
)

// An Editor is the text being typed. The zero Editor is empty.
type Editor struct {
	text   string // chips are represented by the runes from firstChip on
	at     int    // byte offset of the cursor, between two graphemes
	chips  []Chip
	undo   []snapshot
	redo   []snapshot
	typing bool     // the last change typed a character: undo removes whole words
	killed []string // killed texts, the newest last
	yanked int      // the killed text before the cursor, counted from the end of killed; 0: none
	column int      // the column that Up and Down keep, plus one; 0: that of the cursor
	vim    *vim.Vim // Vim's keys; nil: they are off
}

// A Chip is one character that represents an image, or pasted text too long to edit.
type Chip struct {
	Label string // shown in brackets
	Text  string // Editor.Text returns it in place of the chip
	// Pasted means that Text was pasted, not typed by the user.
	Pasted bool
}

type snapshot struct {
	text string
	at   int
}

const (
	// Chips use the last private-use plane; a pasted character from that plane is replaced.
	firstChip = '\U00100000'
	lastChip  = firstChip + 0xff

	maxUndo   = 200
	maxKilled = 30
	// A paste with more rows than pasteRows or more bytes than pasteBytes becomes a chip.
	pasteRows  = 10
	pasteBytes = 2000
)

// Text returns the text with chips replaced by their content. What was typed directly after pasted content is on a
// line of its own.
func (e *Editor) Text() string {
	var b strings.Builder
	unended := false // pasted content was written whose last line has no end
	for _, r := range e.text {
		c, ok := e.chip(r)
		if !ok {
			c.Text = string(r)
		}
		if first, _ := utf8.DecodeRuneInString(c.Text); unended && !unicode.IsSpace(first) {
			b.WriteByte('\n')
		}
		b.WriteString(c.Text)
		unended = c.Pasted && !strings.HasSuffix(c.Text, "\n")
	}
	return b.String()
}

// Typed returns the text without the content of pasted chips.
func (e *Editor) Typed() string {
	return e.expand(func(c Chip) string {
		if c.Pasted {
			return ""
		}
		return c.Text
	})
}

// Display returns the text with chips replaced by their labels.
func (e *Editor) Display() string { return e.expand(Chip.displayText) }

func (c Chip) displayText() string { return "[" + c.Label + "]" }

func (e *Editor) expand(chip func(Chip) string) string {
	if len(e.chips) == 0 {
		return e.text
	}
	var b strings.Builder
	for _, r := range e.text {
		if c, ok := e.chip(r); ok {
			b.WriteString(chip(c))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (e *Editor) chip(r rune) (Chip, bool) {
	if i := int(r - firstChip); r >= firstChip && i < len(e.chips) {
		return e.chips[i], true
	}
	return Chip{}, false
}

// Chips returns the chips in the text, in order.
func (e *Editor) Chips() []Chip {
	var all []Chip
	for _, r := range e.text {
		if c, ok := e.chip(r); ok {
			all = append(all, c)
		}
	}
	return all
}

// Empty reports whether there is no text.
func (e *Editor) Empty() bool { return e.text == "" }

// Before and After return the text before and after the cursor, with chips replaced by their
// labels.
func (e *Editor) Before() string { return (&Editor{text: e.text[:e.at], chips: e.chips}).Display() }
func (e *Editor) After() string  { return (&Editor{text: e.text[e.at:], chips: e.chips}).Display() }

// Set replaces the text and puts the cursor at the end. It can be undone.
func (e *Editor) Set(text string) {
	e.change(false)
	e.text = clean(text)
	e.at = len(e.text)
	if e.vim != nil {
		e.at = e.vim.Clamp(e.text, e.at)
	}
}

// Clear empties the editor for the next prompt. It cannot be undone.
func (e *Editor) Clear() {
	*e = Editor{killed: e.killed, vim: e.vim}
	if e.vim != nil {
		e.vim.Reset()
	}
}

// Insert inserts typed text at the cursor.
func (e *Editor) Insert(text string) {
	text = clean(text)
	if text == "" {
		return
	}
	e.change(utf8.RuneCountInString(text) == 1 && !unicode.IsSpace(rune(text[0])))
	e.put(text)
}

// Paste inserts pasted text at the cursor, or in the place of what is selected, as a chip if it has more than 10 lines
// or 2,000 bytes.
func (e *Editor) Paste(text string) {
	e.dropSelection()
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	rows := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
	switch {
	case rows > pasteRows:
		e.Attach(Chip{Label: fmt.Sprintf("pasted text %d, %s lines", len(e.chips)+1, plain.Number(rows)), Text: text,
			Pasted: true})
	case len(text) > pasteBytes:
		e.Attach(Chip{Label: fmt.Sprintf("pasted text %d, %s characters", len(e.chips)+1,
			plain.Number(utf8.RuneCountInString(text))), Text: text, Pasted: true})
	default:
		e.change(false)
		e.put(clean(text))
	}
}

// Attach inserts a chip at the cursor, or in the place of what is selected.
func (e *Editor) Attach(c Chip) {
	e.dropSelection()
	if len(e.chips) > lastChip-firstChip {
		e.change(false)
		e.put(clean(c.Text))
		return
	}
	e.change(false)
	e.chips = append(e.chips, c)
	e.put(string(firstChip + rune(len(e.chips)-1)))
}

func (e *Editor) put(text string) {
	e.text = e.text[:e.at] + text + e.text[e.at:]
	e.at += len(text)
}

// clean replaces characters that a prompt must not contain: control characters other than
// newline and tab, and the runes that represent chips.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ', 0x7f <= r && r <= 0x9f:
			return -1
		case r >= firstChip:
			return utf8.RuneError
		}
		return r
	}, s)
}

// change saves the current state for Undo. It is called before each change.
func (e *Editor) change(typing bool) {
	e.column, e.yanked = 0, 0
	e.redo = nil
	if typing && e.typing {
		return
	}
	e.typing = typing
	e.undo = append(e.undo, snapshot{e.text, e.at})
	if len(e.undo) > maxUndo {
		e.undo = e.undo[1:]
	}
}

// Undo reverts the last change; typed text is reverted word by word.
func (e *Editor) Undo() { e.swap(&e.undo, &e.redo) }

// Redo reapplies the change that Undo reverted.
func (e *Editor) Redo() { e.swap(&e.redo, &e.undo) }

func (e *Editor) swap(from, to *[]snapshot) {
	n := len(*from)
	if n == 0 {
		return
	}
	*to = append(*to, snapshot{e.text, e.at})
	last := (*from)[n-1]
	*from = (*from)[:n-1]
	e.text, e.at, e.typing, e.column, e.yanked = last.text, last.at, false, 0, 0
}

// Left and Right move by one grapheme, WordLeft and WordRight by one word, and Home and End
// within the line.
func (e *Editor) Left()      { e.move(e.prevGrapheme(e.at)) }
func (e *Editor) Right()     { e.move(e.nextGrapheme(e.at)) }
func (e *Editor) WordLeft()  { e.move(e.wordLeft()) }
func (e *Editor) WordRight() { e.move(e.wordRight()) }
func (e *Editor) Home()      { e.move(e.lineStart()) }
func (e *Editor) End()       { e.move(e.lineEnd()) }

// Start and Finish move to the start and the end of the text.
func (e *Editor) Start()  { e.move(0) }
func (e *Editor) Finish() { e.move(len(e.text)) }

func (e *Editor) move(to int) { e.at, e.typing, e.column, e.yanked = to, false, 0, 0 }

func (e *Editor) lineStart() int { return strings.LastIndexByte(e.text[:e.at], '\n') + 1 }

func (e *Editor) lineEnd() int {
	if i := strings.IndexByte(e.text[e.at:], '\n'); i >= 0 {
		return e.at + i
	}
	return len(e.text)
}

func (e *Editor) nextGrapheme(at int) int { return grapheme.Next(e.text, at) }
func (e *Editor) prevGrapheme(at int) int { return grapheme.Prev(e.text, at) }

func isWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'
}

func (e *Editor) wordLeft() int {
	at := e.at
	for at > 0 && !isWord(e.text[e.prevGrapheme(at):]) {
		at = e.prevGrapheme(at)
	}
	for at > 0 && isWord(e.text[e.prevGrapheme(at):]) {
		at = e.prevGrapheme(at)
	}
	return at
}

func (e *Editor) wordRight() int {
	at := e.at
	for at < len(e.text) && !isWord(e.text[at:]) {
		at = e.nextGrapheme(at)
	}
	for at < len(e.text) && isWord(e.text[at:]) {
		at = e.nextGrapheme(at)
	}
	return at
}

// Backspace and Delete remove one grapheme.
func (e *Editor) Backspace() { e.remove(e.prevGrapheme(e.at), e.at) }
func (e *Editor) Delete()    { e.remove(e.at, e.nextGrapheme(e.at)) }

// KillToEnd, KillToStart, KillWord and KillWordLeft remove the text up to where the
// corresponding movement leads, and keep it for Yank.
func (e *Editor) KillToEnd() {
	end := e.lineEnd()
	if end == e.at { // at the end of a line: join it with the next one
		end = e.nextGrapheme(e.at)
	}
	e.kill(e.at, end)
}
func (e *Editor) KillToStart()  { e.kill(e.lineStart(), e.at) }
func (e *Editor) KillWord()     { e.kill(e.at, e.wordRight()) }
func (e *Editor) KillWordLeft() { e.kill(e.wordLeft(), e.at) }

// Yank inserts the text that was killed last.
func (e *Editor) Yank() {
	if n := len(e.killed); n > 0 {
		e.change(false)
		e.put(e.killed[n-1])
		e.yanked = 1
	}
}

// YankPop replaces the text just inserted by Yank with the one killed before it.
func (e *Editor) YankPop() {
	n := len(e.killed)
	if e.yanked == 0 {
		return
	}
	was, next := e.killed[n-e.yanked], e.yanked%n+1
	e.change(false)
	e.text, e.at = e.text[:e.at-len(was)]+e.text[e.at:], e.at-len(was)
	e.put(e.killed[n-next])
	e.yanked = next
}

func (e *Editor) kill(from, to int) {
	if from < to {
		e.killed = append(e.killed, e.text[from:to])
		e.killed = e.killed[max(0, len(e.killed)-maxKilled):]
		e.remove(from, to)
	}
}

func (e *Editor) remove(from, to int) {
	if from >= to {
		return
	}
	e.change(false)
	e.text = e.text[:from] + e.text[to:]
	e.at = from
}

// Replace replaces the last n bytes of [Editor.Before] with text, as a completion does.
func (e *Editor) Replace(n int, text string) {
	before := e.text[:e.at]
	if n > len(before) {
		return
	}
	e.change(false)
	e.text = before[:len(before)-n] + clean(text) + e.text[e.at:]
	e.at = len(before) - n + len(clean(text))
}

// A Row is one row of the screen.
type Row struct {
	Text  string
	from  int // start of the text shown in this row, as a byte offset
	to    int
	cells []int // byte offset of the start of each cell, then to
}

// tabWidth is how many cells a tab takes.
const tabWidth = 4

// Rows returns the text broken into rows of at most width cells, and the row and column of the
// cursor. There is at least one row. A width below 2 counts as 2.
func (e *Editor) Rows(width int) (rows []Row, row, col int) {
	width = max(width, 2)
	var r Row
	var shown strings.Builder
	used, row := 0, -1
	end := func(at int) {
		r.Text, r.to = shown.String(), at
		r.cells = append(r.cells, at)
		rows = append(rows, r)
		shown.Reset()
		r, used = Row{from: at}, 0
	}
	g := displaywidth.StringGraphemes(e.text)
	at := 0
	for ; g.Next(); at += len(g.Value()) {
		v := g.Value()
		if v == "\n" {
			if at == e.at {
				row, col = len(rows), used
			}
			end(at)
			r.from = at + 1
			continue
		}
		text, w := v, g.Width()
		if v == "\t" {
			w = min(tabWidth, width)
			text = strings.Repeat(" ", w)
		}
		if c, ok := e.chip(firstRune(v)); ok {
			text = c.displayText()
			if displaywidth.String(text) > width {
				text = displaywidth.TruncateString(text, width, "…")
			}
			w = displaywidth.String(text)
		}
		if used+w > width {
			end(at)
		}
		if at == e.at {
			row, col = len(rows), used
		}
		for range w {
			r.cells = append(r.cells, at)
		}
		shown.WriteString(text)
		used += w
	}
	if row < 0 {
		if used == width { // the cursor does not fit after the last character
			end(at)
		}
		row, col = len(rows), used
	}
	end(at)
	return rows, row, col
}

// Split returns a row's text before, in and after the part of the editor's text between two byte offsets.
func (r Row) Split(from, to int) (before, in, after string) {
	cell := func(at int) int {
		i := 0
		for i < len(r.cells)-1 && r.cells[i] < at {
			i++
		}
		return i
	}
	if to <= r.from || from >= r.to || from >= to {
		return r.Text, "", ""
	}
	first, last := cell(from), cell(to)
	var parts [3]strings.Builder
	width := 0
	for g := displaywidth.StringGraphemes(r.Text); g.Next(); width += g.Width() {
		part := &parts[0]
		if width >= last {
			part = &parts[2]
		} else if width >= first {
			part = &parts[1]
		}
		part.WriteString(g.Value())
	}
	return parts[0].String(), parts[1].String(), parts[2].String()
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// Up moves to the row above. It returns false if the cursor is in the first row.
func (e *Editor) Up(width int) bool { return e.vertical(width, -1) }

// Down moves to the row below. It returns false if the cursor is in the last row.
func (e *Editor) Down(width int) bool { return e.vertical(width, +1) }

func (e *Editor) vertical(width, by int) bool {
	rows, row, col := e.Rows(width)
	if e.column == 0 {
		e.column = col + 1
	}
	row += by
	if row < 0 || row >= len(rows) {
		return false
	}
	cells := rows[row].cells
	column := e.column
	e.move(cells[min(column-1, len(cells)-1)])
	e.column = column
	return true
}
