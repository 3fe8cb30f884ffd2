package editor

import (
	"github.com/clipperhouse/displaywidth"

	"github.com/knack-agent/knack/internal/program/vim"
)

// SetVim switches Vim's keys on, in insert mode, or off.
func (e *Editor) SetVim(on bool) {
	if e.vim = nil; on {
		e.vim = &vim.Vim{}
	}
}

// Vim returns the state of Vim's keys, which the caller must not change; nil: they are off.
func (e *Editor) Vim() *vim.Vim { return e.vim }

// Selected returns the part of the text that is selected in Vim's visual modes, as byte offsets for [Row.Split]; both
// are the same if nothing is.
func (e *Editor) Selected() (from, to int) {
	if e.vim == nil {
		return 0, 0
	}
	return e.vim.Selection(e.text, e.at)
}

// dropSelection removes what is selected and ends the visual mode: what is pasted takes its place.
func (e *Editor) dropSelection() {
	if e.vim == nil || e.vim.Mode() != vim.Visual && e.vim.Mode() != vim.VisualLine {
		return
	}
	from, to := e.Selected()
	e.vimPress("esc")
	if from < to {
		e.change(false)
		e.text, e.at = e.text[:from]+e.text[to:], from
	}
}

// InFirstLine and InLastLine report whether the cursor is in the first or in the last line of the text.
func (e *Editor) InFirstLine() bool { return e.lineStart() == 0 }
func (e *Editor) InLastLine() bool  { return e.lineEnd() == len(e.text) }

// vimKey applies a key as Vim does. The rest of a text is typed if a character of it begins insert mode.
func (e *Editor) vimKey(name, text string) bool {
	if name != "text" {
		return e.vimPress(name)
	}
	for g := displaywidth.StringGraphemes(text); g.Next(); text = text[len(g.Value()):] {
		if !e.vimPress(g.Value()) {
			if e.vim.Mode() == vim.Insert {
				e.Insert(text)
				return true
			}
		}
	}
	return true
}

func (e *Editor) vimPress(key string) bool {
	text, at, handled := e.vim.Key(e.text, e.at, key)
	if text != e.text {
		e.change(false)
		e.text = text
	}
	if handled {
		e.move(at)
	}
	return handled
}
