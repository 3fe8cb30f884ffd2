package tui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/internal/program/terminal"
	"github.com/knack-agent/knack/run/agent"
)

// doublePressTime is the maximum time between two presses that count as a double press.
const doublePressTime = 2 * time.Second

// key passes a key to the open question, or else to the open list, or else to the prompt.
func (a *app) key(k terminal.Key) {
	if k.Name == "background" {
		if cmp.Or(a.o.Theme, "auto") == "auto" {
			a.setTheme("auto")
		}
		return
	}
	a.view.hint = ""
	switch {
	case a.view.pager != nil:
		if _, height := a.screen.Size(); a.view.pager.key(k, height) {
			a.view.pager = nil
		}
	case a.session != nil && a.view.picker == nil && a.keys.of(k) == actLeave: // also where a question waits
		a.submit(agent.Typed(strings.TrimSpace("/command:background "+a.prompt.Text())), engine.Next)
	case len(a.questions) > 0:
		a.questionKey(k)
	case a.session == nil: // between two questions
		if name := k.String(); name == "ctrl+c" || name == "ctrl+d" {
			a.quit = true
		} else if len(a.early) > 0 || !a.prompt.Key(name, k.Text) {
			a.early = append(a.early, k)
		}
	case a.view.picker != nil:
		a.pickerKey(k)
	case a.view.menu != nil && a.menuKey(k):
	default:
		a.promptKey(k)
	}
}

func (a *app) questionKey(k terminal.Key) {
	q := a.questions[0]
	if k.Name == "paste" && k.Text != "" && q.dialog.text == nil && (q.dialog.list.closed || q.dialog.locked) {
		a.prompt.Paste(k.Text) // it is no answer, and must not be lost
		a.view.hint = "What you pasted is in the prompt."
		return
	}
	answer, done := q.dialog.key(k)
	if doc := q.dialog.reads; doc != nil {
		q.dialog.reads = nil
		a.page(doc.Title, func(width int) []styled.Line {
			if doc.key == 'v' {
				rows, _ := show.Body(&q.dialog.q, width, 0, "")
				return rows
			}
			return rendered(doc.Text, doc.Name, width)
		})
		return
	}
	if !done {
		return
	}
	if style, text := q.dialog.summary(answer, a.view.modeKey); text != "" {
		a.conv.note(style, text)
	}
	if q.dialog.bodyWritten && q.dialog.q.Call != nil {
		a.conv.drawn = q.dialog.q.Call.Call
	}
	a.withdraw(q)
	q.reply <- answer
}

func (a *app) pickerKey(k terminal.Key) {
	p := a.view.picker
	switch k.String() {
	case "esc", "ctrl+c":
		cancelled := a.cancelled
		a.view.picker, a.pick, a.cancelled = nil, nil, nil
		if cancelled != nil {
			cancelled()
		}
	case "enter":
		it, ok := p.picked()
		pick := a.pick
		a.view.picker, a.pick, a.cancelled = nil, nil, nil
		if ok && pick != nil {
			pick(it)
		}
	default:
		isSpace := k.String() == "space" || k.Text == " "
		if it, ok := p.picked(); ok && isSpace && it.other != "" && p.query == "" && !a.view.running {
			a.view.picker, a.pick, a.cancelled = nil, nil, nil
			a.again, a.at = p.line, it.value
			a.submit(agent.Typed(it.other), engine.Next)
			return
		}
		p.key(k)
	}
}

func (a *app) promptKey(k terminal.Key) {
	act, hint := vimLine(&a.prompt, k)
	done := hint != ""
	if a.view.hint = cmp.Or(hint, a.view.hint); act == "" && !done {
		act, done = vimKey(&a.prompt, k)
	}
	if done {
		a.view.menu = nil
		return
	}
	act = cmp.Or(act, a.keys.of(k))
	if act == actHelp && k.Name == "text" && !a.prompt.Empty() {
		act = "" // a question mark in a text is not a key binding
	}
	if act == actBackground && !waiting(a) {
		act = "" // the editor's key
	}
	if act != a.lastAct {
		a.pressed = time.Time{}
	}
	a.lastAct = act
	width, _ := a.screen.Size()
	switch act {
	case actSubmit:
		a.enter(engine.Next)
	case actFollowUp:
		a.enter(engine.Later)
	case actNewline:
		a.prompt.Insert("\n")
	case actInterrupt:
		a.interrupt()
	case actClear:
		a.clear()
	case actExit:
		switch {
		case a.prompt.Empty() && !a.leaving && !a.view.running && a.session.Leaving() != nil:
			a.leaving = true // once more ends the program at once
			a.submit(agent.Typed("/quit"), engine.Next)
		case a.prompt.Empty():
			a.quit = true
		default:
			a.prompt.Delete()
		}
	case actSuspend:
		a.suspend()
	case actMode:
		a.cycleMode()
	case actThinking:
		a.reasoning()
	case actResult:
		a.turnPage()
	case actOutput:
		a.attachOutput()
	case actEditor:
		a.external()
	case actSearch:
		a.searchHistory()
	case actImage:
		a.pasteImage()
	case actComplete:
		a.menu()
		if a.view.menu != nil && len(a.view.menu.found) == 1 {
			a.complete()
		}
		return
	case actUnqueue:
		a.unqueue()
	case actSendNow:
		sendNow(a)
	case actBackground:
		switch {
		case a.session.MoveToBackground(""):
		case len(a.shells) > 0:
			a.moves = true
		default:
			a.view.hint = "No command runs that could go on in the background."
		}
	case actRedraw:
		a.screen.Redraw()
	case actHistoryBack:
		a.back()
	case actHistoryNext:
		a.forward()
	case actHelp:
		a.page("Keys", func(width int) []styled.Line { return wrapped(a.keys.help(), width) })
	case actSteps:
		if a.view.noSteps = !a.view.noSteps; len(a.view.todos) == 0 {
			a.view.hint = "There is no list of steps."
		}
	default:
		switch k.String() {
		case "up":
			if !a.prompt.Up(max(width-2, 2)) {
				a.back()
			}
		case "down":
			if !a.prompt.Down(max(width-2, 2)) {
				a.forward()
			}
		default:
			if k.Name == "paste" {
				a.pasted(k.Text)
				a.view.menu = nil
				return
			}
			if !a.prompt.Key(k.String(), k.Text) {
				return
			}
		}
		a.menu()
		return
	}
	a.view.menu = nil
}

// enter submits the prompt.
func (a *app) enter(when engine.When) {
	in := input(&a.prompt)
	text := in.Text
	if before := a.prompt.Before(); strings.HasSuffix(before, `\`) && a.prompt.After() == "" {
		a.prompt.Backspace()
		a.prompt.Insert("\n")
		return
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	a.history.Add(a.prompt.Display())
	typed := len(a.prompt.Chips()) == 0
	if in.Typed != in.Text {
		if a.conv.pastes == nil {
			a.conv.pastes = map[string]string{}
		}
		a.conv.pastes[in.Text] = in.Typed
	}
	a.prompt.Clear()
	if command, ok := strings.CutPrefix(text, "!"); ok && typed {
		a.shell(command)
		return
	}
	if note := a.session.Engine().Shorthand(text); note != text && typed {
		in = agent.Typed(note)
	}
	a.submit(in, when)
}

// input returns the input for a prompt. The text of a pasted chip was not typed by the user:
// it cannot invoke a skill that only the user may invoke, and approves none.
func input(prompt *editor.Editor) agent.Input {
	in := agent.Typed(prompt.Text())
	if in.Typed = prompt.Typed(); in.Typed != in.Text {
		name, _, slash := agent.Slash(in.Text)
		typed, _, _ := agent.Slash(in.Typed)
		in.Named = slash && name == typed && strings.HasPrefix(prompt.Display(), "/")
	}
	return in
}

// interrupt handles Esc: it stops the turn. At an empty prompt, a double press offers the
// earlier messages.
func (a *app) interrupt() {
	switch {
	case a.busy() && a.prompt.Vim() != nil && !a.prompt.Empty(): // a second Esc out of habit
		a.view.hint = "Esc interrupts when the prompt is empty. " + a.keys.first(actClear) + " empties it."
	case a.busy():
		a.cancelWork()
	case !a.prompt.Empty():
	case time.Since(a.pressed) < doublePressTime:
		a.pressed = time.Time{}
		a.rewind()
	default:
		a.pressed = time.Now()
		a.view.hint = "Press esc again to go back to an earlier message."
	}
}

// clear handles Ctrl-C: it empties the prompt, or stops the turn. A double press at an empty
// prompt leaves.
func (a *app) clear() {
	switch {
	case !a.prompt.Empty():
		a.prompt.Clear()
	case time.Since(a.pressed) < doublePressTime:
		a.quit = true
	default:
		a.cancelWork()
		a.pressed = time.Now()
		a.view.hint = "Press ctrl+c again to exit."
	}
}

// cancelWork stops the turn and the user's shell commands.
func (a *app) cancelWork() {
	if a.stop != nil {
		a.stop(context.Canceled)
	}
	for _, s := range a.shells {
		s.stop()
	}
}

func (a *app) back() {
	if s, ok := a.history.Back(a.prompt.Text()); ok {
		a.prompt.Set(s)
	}
}

func (a *app) forward() {
	if s, ok := a.history.Forward(); ok {
		a.prompt.Set(s)
	}
}

func (a *app) searchHistory() {
	var items []item
	for _, s := range a.history.Search("", 1000) {
		items = append(items, item{value: s, label: strings.Join(strings.Fields(s), " ")})
	}
	if len(items) == 0 {
		a.view.hint = "There are no earlier prompts."
		return
	}
	p := newPicker("Earlier prompts", items)
	p.again = a.keys.keys(actSearch)
	p.query = a.prompt.Display()
	p.filter()
	a.open(p, func(it item) { a.prompt.Set(it.value) })
}

// unqueue moves the last queued message back into the prompt.
func (a *app) unqueue() {
	queue := a.session.Status().Queue
	if len(queue) == 0 {
		return
	}
	m := queue[len(queue)-1]
	if a.session.RemoveQueued(m.ID) {
		a.prompt.Set(strings.Trim(m.Text+"\n"+a.prompt.Text(), "\n"))
		a.prompt.Finish()
	}
}

// waiting reports whether a call or a command of the user is running.
func waiting(a *app) bool {
	return a.session != nil && (len(a.shells) > 0 || a.view.running && len(a.conv.calls)+len(a.conv.subs) > 0)
}

// sendNow interrupts the turn with what was typed, or else with the first queued message.
func sendNow(a *app) {
	if !a.prompt.Empty() {
		a.enter(engine.Now)
		return
	}
	queue := a.session.Status().Queue
	if len(queue) == 0 {
		a.view.hint = "No message is queued."
		return
	}
	m := queue[0]
	if a.view.queueWaits {
		a.view.hint = "This command runs when the turn has ended. Esc ends the turn."
		return
	}
	if !a.session.RemoveQueued(m.ID) {
		return // it is in the conversation by now
	}
	m.When = engine.Now
	s := a.session
	a.work(func(ctx context.Context) func() {
		_, err := s.Send(ctx, m)
		return func() {
			switch {
			case errors.Is(err, engine.ErrIdle): // the turn ended in the meantime
				a.submit(m.Input, engine.Next)
			case err != nil:
				a.failed(err)
			}
		}
	})
}

// todosOf reads the list from the Details of a todo tool result.
func todosOf(details json.RawMessage) []todo {
	var in struct {
		Items []struct{ Text, State string }
	}
	if json.Unmarshal(details, &in) != nil {
		return nil
	}
	var all []todo
	for _, it := range in.Items {
		all = append(all, todo{it.Text, it.State})
	}
	return all
}
