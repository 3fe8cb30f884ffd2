package tui

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// rewind offers the user's earlier messages, to continue the conversation from one of them, with the files as they
// were.
func (a *app) rewind() {
	a.conv.typed = true // do not show the command
	a.turn(agent.Typed("/rewind"))
}

// modes is the cycle of Shift-Tab.
var modes = []permission.Mode{permission.Default, permission.AcceptEdits, permission.Plan}

func (a *app) cycleMode() {
	s := a.session
	next := modes[(slices.Index(modes, s.Mode())+1)%len(modes)]
	a.work(func(ctx context.Context) func() {
		err := s.Set(ctx, session.Setting{Mode: next})
		return func() {
			if err != nil {
				a.failed(err)
			}
		}
	})
}

// local lists the commands that the screen handles itself.
var local = []struct{ name, help string }{
	{"theme", "choose the colours"},
	{"vim", "switch Vim's keys of the prompt on or off"},
	{"diff", "show what differs from the last commit, on the whole screen"},
}

// local runs text if it is a command of the screen, and reports whether it was.
func (a *app) local(text string) bool {
	name, args, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(text, "/")), " ")
	if !strings.HasPrefix(text, "/") {
		return false
	}
	switch {
	case (name == "quit" || name == "exit") && a.view.running: // without waiting for the end of the turn
		a.quit = true
	case name == "diff":
		openDiff(a)
	case name == "theme":
		a.theme(strings.TrimSpace(args))
	case name == "vim":
		said, err := switchVim(&a.prompt, a.session.Engine().Project())
		a.conv.note(styled.Dim, said)
		if err != nil {
			a.failed(err)
		}
	case name == "hotkeys":
		a.conv.reply(a.keys.help())
	default:
		return false
	}
	return true
}

// openDiff opens what differs from the last commit.
func openDiff(a *app) {
	s := a.session
	a.work(func(ctx context.Context) func() {
		out, err := s.Shell(ctx, engine.ShellCommand{Command: "git --no-pager diff HEAD --no-color --no-ext-diff " +
			"--no-textconv"})
		return func() {
			text := llm.TextOf(out.Parts)
			switch {
			case err != nil:
				a.failed(err)
			case out.IsError:
				a.conv.note(styled.Warn, "git diff failed: "+strings.TrimSpace(text))
			case !strings.Contains(text, "diff --git "):
				a.view.hint = "Nothing differs from the last commit."
			default:
				title := "Changes since the last commit"
				if !strings.HasPrefix(text, "diff --git ") { // the output was too long
					title += " (only the end of them)"
				}
				a.page(title, func(width int) []styled.Line { return show.Diffs(text, width) })
			}
		}
	})
}

// theme changes the colours and saves the choice in the user's settings. Without a name it
// opens a list of themes and previews the one under the cursor.
func (a *app) theme(name string) {
	if name != "" {
		a.keepTheme(name)
		return
	}
	was := a.screen.Theme
	items := []item{{value: "auto", label: "auto", help: "dark or light, to match the terminal's background"}}
	for _, name := range themeNames(a.o.Themes) {
		it := item{value: name, label: name}
		if t, err := readTheme(a.o.Themes, name); err != nil {
			it.help = plain.Line(err.Error())
		} else {
			it.help = plain.Line(t.Help)
		}
		items = append(items, it)
	}
	p := newPicker("Which colours?", items).opened(cmp.Or(a.o.Theme, "auto"))
	p.moved = func(it item) { a.setTheme(it.value) }
	a.open(p, func(it item) { a.keepTheme(it.value) })
	a.cancelled = func() { a.screen.Theme = was; a.screen.Redraw() }
}

// setTheme switches to a theme. It returns false if the theme cannot be used; a hint then shows the reason.
func (a *app) setTheme(name string) bool {
	t, err := styled.ThemeFor(a.light()), error(nil)
	switch depth := a.env("COLORTERM"); {
	case name != "auto":
		t, err = readTheme(a.o.Themes, name)
	case depth == "truecolor" || depth == "24bit":
		t = t.Deep(a.light())
	}
	if err != nil {
		a.view.hint = plain.Line(err.Error())
		return false
	}
	if !a.o.Colour {
		t = styled.NoColor()
	}
	a.screen.Theme = t
	a.screen.Redraw()
	return true
}

// light reports whether the background is light, from the terminal's reply, or else from
// COLORFGBG. The default is dark.
func (a *app) light() bool {
	if light, known := a.terminal.Light(); known {
		return light
	}
	colours := strings.Split(a.env("COLORFGBG"), ";")
	background := colours[len(colours)-1]
	return background == "7" || background == "15"
}

func (a *app) keepTheme(name string) {
	if !a.setTheme(name) {
		return
	}
	a.o.Theme = name
	if _, err := a.session.Engine().Project().Set("theme", name); err != nil {
		a.failed(err)
		return
	}
	a.conv.note(styled.Dim, "The theme is "+name+" from now on.")
}
