package editor

// Key applies the key with the given name, such as "ctrl+a", to the text. text is the content
// of the keys "text" and "paste". Key reports whether it handles the key.
func (e *Editor) Key(name, text string) bool {
	if e.vim != nil && name != "paste" && e.vimKey(name, text) {
		return true
	}
	switch name {
	case "text":
		e.Insert(text)
	case "shift+space", "space":
		e.Insert(" ")
	case "paste":
		e.Paste(text)
	case "left", "ctrl+b":
		e.Left()
	case "right", "ctrl+f":
		e.Right()
	case "alt+left", "ctrl+left", "alt+b":
		e.WordLeft()
	case "alt+right", "ctrl+right", "alt+f":
		e.WordRight()
	case "home", "ctrl+a":
		e.Home()
	case "end", "ctrl+e":
		e.End()
	case "ctrl+home":
		e.Start()
	case "ctrl+end":
		e.Finish()
	case "backspace", "ctrl+h", "shift+backspace":
		e.Backspace()
	case "delete":
		e.Delete()
	case "ctrl+w", "alt+backspace", "ctrl+backspace":
		e.KillWordLeft()
	case "alt+d", "ctrl+delete":
		e.KillWord()
	case "ctrl+k":
		e.KillToEnd()
	case "ctrl+u":
		e.KillToStart()
	case "ctrl+y":
		e.Yank()
	case "alt+y":
		e.YankPop()
	case "ctrl+_", "ctrl+/":
		e.Undo()
	case "alt+_", "alt+/":
		e.Redo()
	default:
		return false
	}
	return true
}
