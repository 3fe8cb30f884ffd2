package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/ignore"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/search"
	"github.com/knack-agent/knack/internal/styled"
	"github.com/knack-agent/knack/internal/terminal"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
)

// twice is how soon a key must be pressed again to count as pressed twice.
const twice = 2 * time.Second

// key handles a key: of the open question, else of the open list, else of the
// prompt.
func (a *app) key(k terminal.Key) {
	a.view.hint = ""
	switch {
	case len(a.questions) > 0:
		a.questionKey(k)
	case a.view.picker != nil:
		a.pickerKey(k)
	case a.view.menu != nil && a.menuKey(k):
	default:
		a.promptKey(k)
	}
}

func (a *app) questionKey(k terminal.Key) {
	q := a.questions[0]
	answer, done := q.dialog.key(k)
	if !done {
		return
	}
	style, text := q.dialog.summary(answer)
	a.conv.note(style, text)
	a.withdraw(q)
	q.reply <- answer
}

func (a *app) pickerKey(k terminal.Key) {
	p := a.view.picker
	switch k.String() {
	case "esc", "ctrl+c":
		a.view.picker, a.pick = nil, nil
	case "enter":
		it, ok := p.picked()
		pick := a.pick
		a.view.picker, a.pick = nil, nil
		if ok && pick != nil {
			pick(it)
		}
	default:
		p.key(k)
	}
}

// menuKey handles the keys of the completion menu. It reports whether the key
// was one of them.
func (a *app) menuKey(k terminal.Key) bool {
	switch k.String() {
	case "up", "down", "ctrl+p", "ctrl+n", "pageup", "pagedown":
		a.view.menu.key(k)
	case "esc":
		a.view.menu = nil
	case "tab":
		a.complete()
	case "enter":
		it, ok := a.view.menu.picked()
		if !ok || strings.HasSuffix(a.prompt.Before(), it.value) || !strings.HasPrefix(it.value, "/") {
			a.view.menu = nil
			return ok && a.complete()
		}
		a.complete()
	default:
		return false
	}
	return true
}

// complete puts the chosen completion into the prompt.
func (a *app) complete() bool {
	if a.view.menu == nil {
		return false
	}
	it, ok := a.view.menu.picked()
	n := a.menuFrom
	a.view.menu = nil
	if !ok || strings.HasSuffix(a.prompt.Before(), it.value) && len(it.value) == n {
		return false
	}
	a.prompt.Replace(n, it.value+" ")
	return true
}

func (a *app) promptKey(k terminal.Key) {
	act := a.keys.of(k)
	if act == actHelp && k.Name == "text" && !a.prompt.Empty() {
		act = "" // a question mark is text
	}
	if act != actClear && act != actInterrupt {
		a.pressed = time.Time{}
	}
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
		if a.prompt.Empty() {
			a.quit = true
		} else {
			a.prompt.Delete()
		}
	case actSuspend:
		a.suspend()
	case actMode:
		a.cycleMode()
	case actThinking:
		a.conv.thinking = !a.conv.thinking
		a.view.hint = map[bool]string{true: "reasoning is shown", false: "reasoning is hidden"}[a.conv.thinking]
	case actResult:
		if !a.conv.lastResult() {
			a.view.hint = "no tool has run"
		}
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
	case actRedraw:
		a.screen.Redraw()
	case actHistoryBack:
		a.back()
	case actHistoryNext:
		a.forward()
	case actHelp:
		a.conv.reply(a.keys.help())
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
			if !editKey(&a.prompt, k) {
				return
			}
		}
		a.menu()
		return
	}
	a.view.menu = nil
}

// enter sends the prompt.
func (a *app) enter(when engine.When) {
	text := a.prompt.Text()
	if before := a.prompt.Before(); strings.HasSuffix(before, `\`) && a.prompt.After() == "" {
		a.prompt.Backspace()
		a.prompt.Insert("\n")
		return
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	a.history.Add(a.prompt.Shown())
	typed := len(a.prompt.Chips()) == 0
	a.prompt.Clear()
	if command, ok := strings.CutPrefix(text, "!"); ok && typed {
		a.shell(command)
		return
	}
	a.submit(text, when)
}

// interrupt is Esc: it stops the turn, or at an empty prompt, pressed twice,
// offers the earlier messages.
func (a *app) interrupt() {
	switch {
	case a.stop != nil:
		a.stop(context.Canceled)
		a.view.hint = "interrupted"
	case !a.prompt.Empty():
	case time.Since(a.pressed) < twice:
		a.pressed = time.Time{}
		a.rewind()
	default:
		a.pressed = time.Now()
		a.view.hint = "press esc again to go back to an earlier message"
	}
}

// clear is Ctrl-C: it empties the prompt, or stops the turn; pressed twice at
// an empty prompt, it leaves.
func (a *app) clear() {
	switch {
	case !a.prompt.Empty():
		a.prompt.Clear()
	case time.Since(a.pressed) < twice:
		a.quit = true
	default:
		if a.stop != nil {
			a.stop(context.Canceled)
		}
		a.pressed = time.Now()
		a.view.hint = "press ctrl+c again to exit"
	}
}

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
		a.view.hint = "there are no earlier prompts"
		return
	}
	p := newPicker("earlier prompts", items)
	p.query = a.prompt.Shown()
	p.filter()
	a.open(p, func(it item) { a.prompt.Set(it.value) })
}

// unqueue takes the last queued message back into the prompt.
func (a *app) unqueue() {
	queue := a.session.Status().Queue
	if len(queue) == 0 {
		return
	}
	m := queue[len(queue)-1]
	if a.session.Unsay(m.ID) {
		a.prompt.Set(strings.TrimLeft(m.Text+"\n"+a.prompt.Text(), "\n"))
		a.prompt.Finish()
	}
}

// menu opens, narrows or closes the completions of the word before the cursor.
func (a *app) menu() {
	before := a.prompt.Before()
	var items []item
	word := before[strings.LastIndexAny(before, " \n\t")+1:]
	switch {
	case strings.HasPrefix(before, "/") && !strings.ContainsAny(before, " \n"):
		items, word = a.slash(), before
	case strings.HasPrefix(word, "@"):
		items = a.mentions()
	}
	if len(items) == 0 {
		a.view.menu = nil
		return
	}
	query := strings.TrimLeft(word, "/@")
	m := a.view.menu
	if m == nil || len(m.items) != len(items) {
		m = newPicker("", items)
	}
	m.items, m.query = items, query
	m.filter()
	a.view.menu, a.menuFrom = m, len(word)
	if len(m.found) == 0 {
		a.view.menu = nil
	}
}

// slash returns everything that can be typed after a slash.
func (a *app) slash() []item {
	if a.commands == nil {
		a.commands = a.session.Commands()
	}
	items := make([]item, 0, len(a.commands)+len(local))
	for _, c := range a.commands {
		if plain.Line(c.Name) != c.Name {
			continue // it cannot be typed as it is shown
		}
		help := c.Description
		if c.Skill != nil {
			help += "  (" + string(c.Skill.Origin.Kind) + ")"
		}
		items = append(items, item{value: "/" + c.Name, label: "/" + c.Name, help: help})
	}
	for _, c := range local {
		items = append(items, item{value: "/" + c.name, label: "/" + c.name, help: c.help})
	}
	return items
}

// maxFiles bounds the files that are offered after @.
const maxFiles = 200_000

// mentions returns the files of the project. They are read in the background;
// until then there are none.
func (a *app) mentions() []item {
	if a.files == nil && !a.reading {
		a.reading = true
		dir := a.session.Engine().Project().Dir()
		a.work(func(ctx context.Context) func() {
			files := projectFiles(ctx, dir)
			return func() {
				a.files, a.reading = files, false
				a.menu()
			}
		})
	}
	items := make([]item, len(a.files))
	for i, f := range a.files {
		items[i] = item{value: "@" + f, label: f}
	}
	return items
}

// projectFiles lists files below dir, without those that are ignored.
func projectFiles(ctx context.Context, dir string) []string {
	files := []string{}
	root, err := search.OpenDir(dir)
	if err != nil {
		return files
	}
	defer root.Close()
	walk := search.Walk{Root: root, Ignore: ignore.New(os.DirFS(dir)).Root()}
	for f := range search.Each(ctx, walk, func() func(*search.Entry) []string {
		return func(e *search.Entry) []string {
			if !e.Type.IsRegular() {
				return nil
			}
			return []string{e.Path()}
		}
	}) {
		if plain.Line(f) == f && !strings.Contains(f, " ") {
			files = append(files, f)
		}
		if len(files) == maxFiles {
			break
		}
	}
	return files
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

// external opens the prompt in the user's editor.
func (a *app) external() {
	program := a.env("VISUAL")
	if program == "" {
		program = a.env("EDITOR")
	}
	if program == "" {
		a.view.hint = "no editor: set VISUAL or EDITOR"
		return
	}
	text, err := a.edited(program)
	if err != nil {
		a.failed(err)
		return
	}
	a.prompt.Set(strings.TrimRight(text, "\n"))
}

func (a *app) edited(program string) (string, error) {
	dir, err := os.MkdirTemp("", "knack-prompt-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "prompt.md")
	if err := os.WriteFile(file, []byte(a.prompt.Text()), 0o600); err != nil {
		return "", err
	}
	a.screen.Redraw()
	if err := a.terminal.Close(); err != nil {
		return "", err
	}
	// The variable may hold arguments, as in "code --wait".
	words := strings.Fields(program)
	c := exec.CommandContext(a.ctx, words[0], append(words[1:], file)...)
	c.Stdin, c.Stdout, c.Stderr = a.o.In, a.o.Out, a.o.Out
	ran := c.Run()
	if err := a.terminal.Resume(); err != nil {
		return "", err
	}
	if ran != nil {
		return "", fmt.Errorf("%s: %w", program, ran)
	}
	data, err := os.ReadFile(file)
	return string(data), err
}

// suspend stops the program until the shell resumes it.
func (a *app) suspend() {
	a.screen.Redraw()
	a.terminal.Close()
	stopProcess()
	a.terminal.Resume()
	a.resized(a.terminal.Size())
}

func (a *app) env(name string) string {
	if a.o.Env != nil {
		return a.o.Env(name)
	}
	return os.Getenv(name)
}

// todosOf reads the list out of the Details of a result of the todo tool.
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
