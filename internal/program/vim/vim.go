// Package vim is the keys of Vim as a state machine: a text, a cursor and a key give a text, a cursor and a mode. It
// knows no terminal and draws nothing.
//
// [Vim.Key] has the motions h j k l w W b B e E ge 0 ^ $ gg G f F t T ; , and %, the operators d c y > <, counts, text
// objects of words, quotes and brackets, x X D C Y s S r ~ J p P o O i a I A u Ctrl-R and ., visual and linewise visual
// mode, and one register. What it does is compared with Vim itself by the tests. It differs in two points: brackets
// within quotes count for %, and a command that is repeated by "." inserts what became of the text, not the keys.
package vim

import (
	"slices"
	"strings"
)

// A Mode says what keys do.
type Mode uint8

const (
	Insert     Mode = iota // keys are text
	Normal                 // keys are commands
	Visual                 // keys change or use the selected characters
	VisualLine             // keys change or use the selected lines
)

func (m Mode) String() string {
	return [...]string{"INSERT", "NORMAL", "VISUAL", "V-LINE"}[m]
}

// shiftWidth is the number of blanks by which > and < move lines, and tabWidth what a tab counts.
const shiftWidth, tabWidth = 2, 4

// maxUndo is how many changes can be undone, and maxCount the largest count: a text of a prompt has no use for more.
const maxUndo, maxCount = 200, 999

// A Vim is the state between two keys. The zero Vim is in insert mode. It may not be used by several goroutines at
// once.
type Vim struct {
	mode     Mode
	keys     []string // of a command that is not complete
	register register
	find     find    // the last f, F, t or T, for ; and ,
	last     *change // the last change, for .; nil: none
	anchor   int     // where the selection began
	origin   int     // where the change that runs begins: undo puts the cursor there
	failed   bool    // the change that runs cannot be done
	column   int     // the cell that j and k keep, plus one; 0: that of the cursor; endColumn: the end of lines

	undo, redo []state
	seen       string  // the text after the last key: another one was changed from outside
	insertion  *change // what led to insert mode; nil: the text begins in it
	begin      state   // the text before that change
	entered    state   // the text when insert mode began
}

const endColumn = -1

// A state is a text and a cursor.
type state struct {
	text string
	at   int
}

// A register has what was cut or copied last.
type register struct {
	text  string // linewise: without the newline of the last line
	lines bool
}

// A find is a search for a character in the line.
type find struct{ key, char string }

// A change is a command that changes the text, as "." repeats it.
type change struct {
	command
	inserted string // what was typed in insert mode
	typed    bool   // it has gone through insert mode
	extent   extent // what a command of visual mode changed
}

// Mode returns the mode.
func (v *Vim) Mode() Mode { return v.mode }

// Waits reports whether the keys of a command are not complete.
func (v *Vim) Waits() bool { return len(v.keys) > 0 }

// Pending returns the keys of a command that is not complete.
func (v *Vim) Pending() string { return strings.Join(v.keys, "") }

// Reset begins another text in insert mode. The register and the last change remain.
func (v *Vim) Reset() {
	*v = Vim{register: v.register, find: v.find, last: v.last}
}

// Clamp returns where the cursor of a text that was changed from outside may be: in normal mode it is on a character,
// not behind the last one of a line.
func (v *Vim) Clamp(text string, at int) int {
	if v.mode == Normal {
		return onCharacter(text, at)
	}
	return min(at, len(text))
}

// Selection returns the selected part of a text, as byte offsets; both are the same if nothing is selected.
func (v *Vim) Selection(text string, at int) (from, to int) {
	switch v.mode {
	case Visual:
		from, to = min(v.anchor, at), max(v.anchor, at)
		return min(from, len(text)), next(text, min(to, len(text)))
	case VisualLine:
		from, to = min(v.anchor, at), max(v.anchor, at)
		return lineStart(text, min(from, len(text))), lineEnd(text, min(to, len(text)))
	}
	return 0, 0
}

// Key applies a key to a text with the cursor at a byte offset between two graphemes, and returns the new ones. A key
// is a character, or a name such as "esc", "ctrl+r", "left" or "enter". handled is false for a key that is no command:
// in insert mode all but Esc, which the caller applies to the text itself.
func (v *Vim) Key(text string, at int, key string) (newText string, newAt int, handled bool) {
	at = min(max(at, 0), len(text))
	if v.mode == Insert {
		if v.insertion == nil {
			v.insert(&change{command: command{key: "i"}}, state{text, at}, state{text, at})
		}
		if key != "esc" && key != "ctrl+[" {
			return text, at, false
		}
		text, at = v.leaveInsert(text, at)
		v.seen = text
		return text, at, true
	}
	if text != v.seen { // a paste, or an earlier prompt
		v.remember(state{v.seen, 0})
		v.anchor = min(v.anchor, len(text))
	}
	at = v.Clamp(text, at)
	text, at, handled = v.command(text, at, key)
	if v.mode == Normal {
		at = onCharacter(text, at)
	}
	v.seen = text
	return text, at, handled
}

// named returns the character that does the same as a key with a name, or the key.
func named(key string) string {
	switch key {
	case "left":
		return "h"
	case "right":
		return "l"
	case "up":
		return "k"
	case "down":
		return "j"
	case "home":
		return "0"
	case "end":
		return "$"
	case "delete":
		return "x"
	case "space":
		return " "
	}
	return key
}

// command adds a key to the command that is being typed, and runs it when it is complete.
func (v *Vim) command(text string, at int, key string) (string, int, bool) {
	if key == "esc" || key == "ctrl+[" || key == "ctrl+c" {
		used := v.Waits() || v.mode != Normal
		v.keys, v.mode = nil, Normal
		return text, at, used
	}
	if n := len(v.keys); n > 0 && v.keys[0] == ":" && (key == "backspace" || key == "ctrl+h") {
		v.keys = v.keys[:n-1]
		return text, at, true
	}
	v.keys = append(v.keys, named(key))
	c, state := parse(v.keys, v.mode != Normal)
	if state == incomplete {
		return text, at, true
	}
	waited := len(v.keys) > 1
	v.keys = nil
	if state == invalid {
		return text, at, waited || len([]rune(key)) == 1
	}
	if c.key != "j" && c.key != "k" && c.key != "$" {
		v.column = 0
	}
	text, at = v.run(text, at, c)
	return text, at, true
}

// remember keeps a text so that it can be undone to.
func (v *Vim) remember(s state) {
	v.redo = nil
	v.undo = append(v.undo, s)
	if len(v.undo) > maxUndo {
		v.undo = slices.Delete(v.undo, 0, 1)
	}
}

// swap goes to the last state of one list, and keeps the current one in the other.
func swap(from, to *[]state, text string, at int) (string, int) {
	n := len(*from)
	if n == 0 {
		return text, at
	}
	was := (*from)[n-1]
	*from = (*from)[:n-1]
	*to = append(*to, state{text, was.at})
	return was.text, afterUndo(text, was)
}

// afterUndo returns where the cursor is after undo or redo: where the change began, if that is in the first line that
// changes or above it, or else at the start of this line.
func afterUndo(text string, to state) int {
	line := 0
	a, b := strings.Split(text, "\n"), strings.Split(to.text, "\n")
	for line < len(a) && line < len(b) && a[line] == b[line] {
		line++
	}
	line = min(line, len(b)-1)
	began := strings.Count(to.text[:min(to.at, len(to.text))], "\n")
	if began == line || began+1 == line {
		return characterAt(to.text, min(to.at, len(to.text))) // to.at is of the other text
	}
	return firstNonBlank(to.text, startOfLine(to.text, line))
}
