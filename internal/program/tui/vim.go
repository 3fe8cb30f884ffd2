package tui

import (
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/terminal"
	"github.com/knack-agent/knack/internal/program/vim"
)

// switchVim switches Vim's keys of a prompt on or off, saves the choice in the user's settings, and returns what to
// say.
func switchVim(prompt *editor.Editor, p *engine.Project) (string, error) {
	if prompt.Vim() != nil {
		prompt.SetVim(false)
		_, err := p.Set("editorMode", "normal")
		return "The prompt has the usual keys from now on.", err
	}
	prompt.SetVim(true)
	_, err := p.Set("editorMode", "vim")
	return "The prompt has Vim's keys from now on. Esc leads to normal mode, /vim back.", err
}

// vimKey passes a key to Vim's keys before the key bindings see it. done means that there is nothing more to do; act is
// what the key does in place of what it is bound to, or "".
func vimKey(prompt *editor.Editor, k terminal.Key) (act action, done bool) {
	v, name := prompt.Vim(), k.String()
	if v == nil || v.Mode() == vim.Insert && name != "esc" || name == "paste" {
		return "", false
	}
	if v.Mode() == vim.Normal && !v.Waits() {
		switch text := k.Text; {
		case k.Name != "text" && name != "ctrl+r":
			return "", false
		case text == "/":
			return actSearch, false
		case text == "k" && prompt.InFirstLine():
			return actHistoryBack, false
		case text == "j" && prompt.InLastLine():
			return actHistoryNext, false
		case text == "?" && prompt.Empty():
			return "", false
		}
	}
	if k.Name != "text" && name != "esc" && name != "ctrl+r" && !v.Waits() && !moves(name) {
		return "", false
	}
	return "", prompt.Key(name, k.Text)
}

// vimLine returns what a command line does that k ends: an action, or a hint that says why there is none.
func vimLine(prompt *editor.Editor, k terminal.Key) (act action, hint string) {
	v := prompt.Vim()
	if v == nil || k.String() != "enter" || len(v.Pending()) < 2 || v.Pending()[0] != ':' {
		return "", ""
	}
	line := strings.TrimSpace(v.Pending()[1:])
	prompt.Key("esc", "")
	switch command, force := strings.CutSuffix(line, "!"); command {
	case "w", "write":
		return actSubmit, ""
	case "q", "quit", "qa", "x", "wq":
		if !prompt.Empty() && !force {
			return "", "The prompt has a text. :w sends it, :q! leaves without it."
		}
		prompt.Clear()
		return actExit, ""
	}
	return "", "Of Vim's command line there are only :w (send), :q and :q! (leave)."
}

// moves reports whether a key moves the cursor in a selection, too.
func moves(name string) bool {
	switch name {
	case "left", "right", "up", "down", "home", "end", "backspace", "delete", "space":
		return true
	}
	return false
}

// vimMode returns Vim's mode for the status line, and the keys of a command that is not complete; "": Vim's keys are
// off.
func (v *view) vimMode() styled.Span {
	keys := v.prompt.Vim()
	if keys == nil {
		return styled.Span{}
	}
	style := styled.Accent
	if keys.Mode() == vim.Insert {
		style = styled.Dim
	}
	text := keys.Mode().String()
	if keys.Waits() {
		text += " " + keys.Pending()
	}
	return styled.Span{Text: text, Style: style}
}
