package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/styled"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
)

// rewind offers the user's messages to go back to.
func (a *app) rewind() {
	var items []item
	texts := map[string]string{}
	for _, e := range a.session.Log().Branch() {
		if e.User == nil || e.User.Steering {
			continue
		}
		text := e.User.Typed
		if text == "" {
			text = llm.TextOf(e.User.Parts)
		}
		id := fmt.Sprint(e.Parent)
		texts[id] = text
		items = append(items, item{value: id, label: strings.Join(strings.Fields(text), " "), help: e.Time.Local().Format("15:04")})
	}
	if len(items) == 0 {
		a.view.hint = "there is no earlier message"
		return
	}
	slices.Reverse(items)
	a.open(newPicker("go back to before", items), func(it item) {
		a.prompt.Set(texts[it.value])
		a.turn("/tree " + it.value)
	})
}

// modes is the order of Shift-Tab.
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

// local are the commands of the screen itself.
var local = []struct{ name, help string }{
	{"theme", "choose the colours"},
}

// local runs a command of the screen. It reports whether the text was one.
func (a *app) local(text string) bool {
	name, args, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(text, "/")), " ")
	if !strings.HasPrefix(text, "/") {
		return false
	}
	switch {
	case name == "theme":
		a.theme(strings.TrimSpace(args))
	case name == "hotkeys":
		a.conv.reply(a.keys.help())
	case name == "skills" && args == "":
		a.skills()
	default:
		return false
	}
	return true
}

func (a *app) theme(name string) {
	set := func(name string) {
		if t, ok := styled.ThemeNamed(name); ok {
			a.screen.Theme = t
			a.screen.Redraw()
			a.view.hint = "theme " + name + "; knack help settings tells how to keep it"
		} else {
			a.view.hint = "there is no theme " + name
		}
	}
	if name != "" {
		set(name)
		return
	}
	var items []item
	for _, t := range styled.Themes() {
		items = append(items, item{value: t.Name, label: t.Name})
	}
	a.open(newPicker("theme", items), func(it item) { set(it.value) })
}

// skills opens a list of the skills; picking one opens a list of actions.
func (a *app) skills() {
	var items []item
	for _, c := range a.session.Commands() {
		if c.Skill == nil {
			continue
		}
		help := fmt.Sprintf("%s  %s tokens  %s", c.Skill.Origin.Kind, plain.Number(c.Skill.Tokens().Body), c.Description)
		items = append(items, item{value: c.Name, label: c.Name, help: help})
	}
	if len(items) == 0 {
		a.view.hint = "there are no skills"
		return
	}
	a.open(newPicker("skills", items), func(it item) {
		name := it.value
		a.open(newPicker(name, []item{
			{value: "use", label: "use it", help: "puts /" + name + " into the prompt"},
			{value: "why", label: "explain it", help: "why it was or was not loaded, and what it may do"},
		}), func(it item) {
			if it.value == "use" {
				a.prompt.Set("/" + name + " ")
				return
			}
			a.submit("/why "+name, engine.Next)
		})
	})
}
