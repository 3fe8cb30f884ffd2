// Package tui is the terminal interface: an append-only conversation in the
// terminal's own scrollback, and a small live area below it with what goes on,
// the prompt and a status line.
//
// [Run] is the whole of it. Everything that happens arrives as a func on one
// channel and changes the state of one goroutine; what is shown is a function
// from that state to lines. Nothing above the live area is ever written again.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/editor"
	"github.com/knack-agent/knack/internal/markdown"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/regular"
	"github.com/knack-agent/knack/internal/styled"
	"github.com/knack-agent/knack/internal/terminal"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
)

// Options say how the interface runs.
type Options struct {
	In  *os.File  // a terminal
	Out io.Writer // the same
	// Start begins the conversation; who answers its questions.
	Start func(ctx context.Context, who engine.Person) (*engine.Session, error)
	Theme styled.Theme
	// History and Bindings are files; "": there is none.
	History, Bindings string
	Greeting          string // the first line
	First             string // a prompt to begin with
	Env               func(string) string
}

// Run shows the interface until the user leaves, ctx ends or the terminal goes
// away. The session is closed when it returns.
func Run(ctx context.Context, o Options) error {
	a := newApp(ctx, o)
	defer a.end()
	var err error
	if a.keys, err = loadBindings(o.Bindings); err != nil {
		a.conv.note(styled.Warn, err.Error())
	}
	a.history.Load(o.History)
	loaded := len(a.history.All())
	if a.session, err = o.Start(a.ctx, person{a}); err != nil {
		return err
	}
	defer func() { a.session.Close() }()
	if a.terminal, err = terminal.Open(o.In, o.Out, func(k terminal.Key) { a.post(func() { a.key(k) }) }); err != nil {
		return err
	}
	defer a.terminal.Close()
	a.screen = &terminal.Screen{Out: o.Out, Theme: o.Theme}
	a.screen.Resize(a.terminal.Size())
	a.conv.width, _ = a.screen.Size()
	if o.Greeting != "" {
		a.conv.add(blockNote, styled.Wrap(styled.S(styled.Dim, plain.Line(o.Greeting)), a.conv.width, nil, nil)...)
	}
	a.begin()
	if o.First != "" {
		a.submit(o.First, engine.Next)
	}
	err = a.loop()
	if saved := a.history.Save(o.History, min(loaded, len(a.history.All()))); err == nil {
		err = saved
	}
	return err
}

// app is the state of the interface. All of it belongs to the goroutine of
// loop; others reach it through post.
type app struct {
	o        Options
	ctx      context.Context
	cancel   context.CancelFunc
	posts    chan func()
	session  *engine.Session
	terminal *terminal.Terminal
	screen   *terminal.Screen
	keys     bindings
	history  editor.History
	prompt   editor.Editor

	conv      *conversation
	view      view
	questions []*question
	pick      func(item) // what the open picker does
	menuFrom  int        // bytes of the prompt that the menu replaces
	commands  []knack.Command
	files     []string                // for @; nil: not read yet
	reading   bool                    // files are being read
	stop      context.CancelCauseFunc // of the running turn
	next      *engine.Session         // replaces the session after the turn
	quit      bool
	pressed   time.Time // of the last Ctrl-C or Esc at an empty prompt
	streamed  int       // bytes of the answer that is being received
	counted   int       // tokens of the turn's answers that are complete
	drawn     time.Time
	watch     context.CancelFunc
	workers   sync.WaitGroup
	pastes    struct {
		sync.Mutex
		dir string // of pasted images; "": none yet
		n   int
	}
}

// A question is one that the run waits for.
type question struct {
	dialog *dialog
	reply  chan engine.Answer
}

// frame is the least time between two frames that no key asked for.
const frame = 33 * time.Millisecond

func newApp(ctx context.Context, o Options) *app {
	a := &app{o: o, posts: make(chan func(), 256)}
	a.ctx, a.cancel = context.WithCancel(ctx)
	a.conv = &conversation{width: 80, summary: func(name string, in []byte) string {
		return a.session.Summary(name, in)
	}}
	a.view.conv, a.view.prompt = a.conv, &a.prompt
	return a
}

// post hands the loop something to do. It does not block for ever: what comes
// after the end is dropped.
func (a *app) post(do func()) {
	select {
	case a.posts <- do:
	case <-a.ctx.Done():
	}
}

// work runs something that may take its time; then is called in the loop.
func (a *app) work(do func(ctx context.Context) (then func())) {
	a.workers.Add(1)
	go func() {
		defer a.workers.Done()
		if then := do(a.ctx); then != nil {
			a.post(then)
		}
	}()
}

// end stops what still runs.
func (a *app) end() {
	a.cancel()
	a.workers.Wait()
	if a.pastes.dir != "" {
		os.RemoveAll(a.pastes.dir)
	}
}

// loop draws and handles what is posted until the user leaves.
func (a *app) loop() error {
	sizes, release := resizes()
	defer release()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	later := time.NewTimer(time.Hour)
	defer later.Stop()
	if err := a.draw(); err != nil {
		return err
	}
	for !a.quit {
		select {
		case do := <-a.posts:
			do()
			for more := true; more && !a.quit; { // what came together is one frame
				select {
				case do := <-a.posts:
					do()
				default:
					more = false
				}
			}
			if wait := frame - time.Since(a.drawn); wait > 0 && a.view.running {
				later.Reset(wait)
				continue
			}
		case <-later.C:
		case <-ticker.C:
			if !a.view.running {
				if w, h := a.terminal.Size(); a.resized(w, h) {
					break // where no signal tells of it
				}
				continue
			}
		case <-sizes:
			w, h := a.terminal.Size()
			a.resized(w, h)
		case <-a.terminal.Ended():
			return a.leave(nil)
		case <-a.ctx.Done():
			return a.leave(context.Cause(a.ctx))
		}
		if err := a.draw(); err != nil {
			return err
		}
	}
	return a.leave(nil)
}

// resized takes in a new size. The live area is erased where the terminal left
// it, and drawn anew.
func (a *app) resized(width, height int) bool {
	if w, h := a.screen.Size(); w == width && h == height {
		return false
	}
	a.screen.Redraw()
	a.screen.Resize(width, height)
	return true
}

func (a *app) draw() error {
	a.drawn = time.Now()
	width, height := a.screen.Size()
	a.conv.width = width
	if len(a.questions) > 0 && !a.questions[0].dialog.shown {
		d := a.questions[0].dialog
		a.conv.endAnswer()
		a.view.dialog = d
		if a.view.tall(width, height) {
			d.shown = true
			a.conv.last = blockNone
			a.conv.add(blockNote, append([]styled.Line{nil, d.title().Cut(width)}, d.body(width)...)...)
		}
	}
	a.view.dialog, a.view.more = nil, 0
	if len(a.questions) > 0 {
		a.view.dialog, a.view.more = a.questions[0].dialog, len(a.questions)-1
	}
	a.view.tokens = a.counted + a.streamed/4
	final := a.conv.take()
	live, cursor := a.view.live(width, height, a.drawn)
	return a.screen.Show(final, live, cursor)
}

// leave erases the live area and says how to come back.
func (a *app) leave(err error) error {
	if a.stop != nil {
		a.stop(context.Canceled)
	}
	a.conv.endAnswer()
	if s := a.session.Log(); len(s.Entries()) > 0 && a.session.Recorded() {
		a.conv.note(styled.Dim, "resume with: knack -r "+s.ID())
	}
	if e := a.screen.Show(a.conv.take(), nil, terminal.Cursor{}); e != nil {
		return errors.Join(err, e)
	}
	return errors.Join(err, a.screen.Leave())
}

// begin shows the session and tells its hooks that it starts.
func (a *app) begin() {
	s := a.session
	a.show(s.Log())
	a.view.todos = todosOf(engine.Todos(s.Log()))
	a.commands = nil
	if a.watch != nil {
		a.watch()
	}
	ctx, stop := context.WithCancel(a.ctx)
	a.watch = stop
	a.workers.Add(1)
	go func() {
		defer a.workers.Done()
		for st := range s.Watch(ctx) {
			a.post(func() { a.status(s, st) })
		}
	}()
	a.work(func(ctx context.Context) func() {
		if done, err := s.ChooseModel(ctx); err != nil {
			a.post(func() { a.failed(err) })
		} else if done != "" {
			a.post(func() { a.conv.note(styled.Dim, done) })
		}
		var failed error
		for e, err := range s.Begin(ctx) {
			if failed = err; err == nil {
				a.post(func() { a.conv.event(e.Event, time.Now()) })
			}
		}
		info := llm.Info{}
		if m, err := s.Model(ctx); err == nil {
			info = m.Info()
		} else if failed == nil {
			failed = err
		}
		return func() {
			a.view.status.window = info.Window
			if failed != nil {
				a.failed(failed)
			}
		}
	})
}

// status takes in the state of a session.
func (a *app) status(s *engine.Session, st engine.Status) {
	if s != a.session {
		return
	}
	a.commands = nil // skills may have changed
	v := &a.view
	v.status.model, v.status.effort, v.status.mode, v.status.title = st.Model, st.Effort, st.Mode, st.Title
	v.status.branch = branch(s.Engine().Project().Dir())
	v.queue = v.queue[:0]
	for _, m := range st.Queue {
		v.queue = append(v.queue, m.Text)
	}
	v.agents = v.agents[:0]
	for _, g := range st.Agents {
		v.agents = append(v.agents, g.Line())
	}
}

// branch returns the branch of the repository that a directory is the root of,
// "" if there is none. Only the file that names it is read.
func branch(dir string) string {
	head, err := regular.Read(filepath.Join(dir, ".git", "HEAD"), 1<<10)
	if err != nil {
		return ""
	}
	name, _ := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
	if len(name) == 40 { // a commit
		return name[:8]
	}
	return name
}

// shownEntries bounds what of a resumed conversation is shown.
const shownEntries = 120

// show shows the end of a conversation that is resumed.
func (a *app) show(log *session.Log) {
	all := log.Branch()
	if n := len(all) - shownEntries; n > 0 {
		a.conv.note(styled.Dim, fmt.Sprintf("%s earlier; /export writes all", plain.Count(n, "entry")))
		all = all[n:]
	}
	for i := range all {
		e := &all[i]
		switch {
		case e.User != nil && !e.User.Steering:
			text := e.User.Typed
			if text == "" {
				text = llm.TextOf(e.User.Parts)
			}
			a.conv.user(text)
		case e.Answer != nil:
			if text := llm.TextOf(e.Answer.Message.Parts); text != "" {
				a.conv.add(blockAnswer, markdown.Render(text, a.conv.width)...)
			}
			for _, p := range e.Answer.Message.Parts {
				if p.Call != nil {
					a.conv.calls = append(a.conv.calls, &call{call: *p.Call})
				}
			}
		default:
			a.conv.entry(e)
		}
	}
	a.conv.calls = nil
	a.usage(log.State())
}

// usage takes in what the session has used.
func (a *app) usage(st session.State) {
	u := st.Last
	a.view.status.used = u.Input + u.CacheRead + u.CacheWrite + u.Output
	a.view.status.cost = st.Cost
	a.view.status.skills = a.view.status.skills[:0]
	for _, s := range st.Scopes {
		if !slices.Contains(a.view.status.skills, s.Skill) {
			a.view.status.skills = append(a.view.status.skills, s.Skill)
		}
	}
}

// failed shows an error, with what to do.
func (a *app) failed(err error) {
	a.conv.note(styled.Bad, err.Error())
	var e *engine.Error
	if errors.As(err, &e) && e.Hint != "" {
		a.conv.note(styled.Dim, e.Hint)
	}
}

// turn runs what the user typed.
func (a *app) turn(text string) {
	ctx, stop := context.WithCancelCause(a.ctx)
	a.stop = stop
	a.view.running, a.view.since = true, time.Now()
	a.counted, a.streamed = 0, 0
	s := a.session
	a.workers.Add(1)
	go func() {
		defer a.workers.Done()
		defer stop(nil)
		err := func() error {
			in, err := s.Attach(ctx, agent.Typed(text))
			if err != nil {
				return err
			}
			for e, err := range s.Run(ctx, in) {
				if err != nil {
					return err
				}
				a.post(func() { a.event(e) })
			}
			return nil
		}()
		a.post(func() { a.done(err) })
	}()
}

// event takes in what a turn did.
func (a *app) event(e engine.Event) {
	a.conv.event(e.Event, time.Now())
	switch {
	case e.Reply != nil:
		a.replied(*e.Reply)
	case e.Agent != nil:
	case e.Text != "":
		a.streamed += len(e.Text)
	case e.Thinking != "":
		a.streamed += len(e.Thinking)
	case e.Entry != nil && e.Entry.Answer != nil:
		a.counted += e.Entry.Answer.Usage.Output
		a.streamed = 0
		a.usage(a.session.Log().State())
	case e.Entry != nil && e.Entry.Activation != nil:
		a.usage(a.session.Log().State())
	case e.Entry != nil && e.Entry.Result != nil && !e.Entry.Result.IsError && engine.IsTodo(e.Entry.Result.Name):
		a.view.todos = todosOf(e.Entry.Result.Details)
	}
}

// replied shows what a command answered.
func (a *app) replied(r engine.Reply) {
	if text := r.String(); text != "" {
		a.conv.reply(text)
	}
	if r.Choices != nil {
		var items []item
		for _, o := range r.Choices.Options {
			items = append(items, item{value: o.ID, label: o.Label, help: o.Help})
		}
		a.open(newPicker(r.Choices.Title, items), func(it item) { a.submit(it.value, engine.Next) })
	}
	if r.Next != nil {
		a.next = r.Next
	}
	a.quit = a.quit || r.Quit
}

// done ends a turn.
func (a *app) done(err error) {
	a.view.running, a.stop = false, nil
	a.conv.end(&agent.End{Reason: "done"})
	a.usage(a.session.Log().State())
	if err != nil && !errors.Is(err, context.Canceled) {
		a.failed(err)
	}
	var left []string
	for _, m := range a.session.Status().Queue { // said when the turn had just ended, or was stopped
		if a.session.Unsay(m.ID) {
			left = append(left, m.Text)
		}
	}
	if len(left) > 0 {
		a.prompt.Set(strings.TrimLeft(strings.Join(left, "\n")+"\n"+a.prompt.Text(), "\n"))
	}
	if a.next != nil {
		was := a.session
		a.session, a.next = a.next, nil
		a.work(func(context.Context) func() { was.Close(); return nil })
		a.begin()
	}
}

// submit sends what the user typed: as a turn, or into the one that runs.
func (a *app) submit(text string, when engine.When) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if a.local(text) {
		return
	}
	if !a.view.running {
		a.conv.user(text)
		a.turn(text)
		return
	}
	s := a.session
	a.work(func(ctx context.Context) func() {
		in, err := s.Attach(ctx, agent.Typed(text))
		var q engine.Queued
		if err == nil {
			q, err = s.Say(ctx, engine.Message{Input: in, When: when})
		}
		return func() {
			switch {
			case errors.Is(err, engine.ErrIdle): // it ended meanwhile
				a.submit(text, when)
			case err != nil:
				a.failed(err)
			case q.Reply != nil:
				a.replied(*q.Reply)
			}
		}
	})
}

// person asks questions on the screen.
type person struct{ a *app }

func (p person) Ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	a := p.a
	asked := &question{dialog: newDialog(q), reply: make(chan engine.Answer, 1)}
	a.post(func() {
		asked.dialog.held = q.Call != nil && a.prompt.Text() != ""
		a.questions = append(a.questions, asked)
		io.WriteString(a.o.Out, "\a")
	})
	select {
	case answer := <-asked.reply:
		return answer, nil
	case <-ctx.Done():
		a.post(func() { a.withdraw(asked) })
		return engine.Answer{}, context.Cause(ctx)
	case <-a.ctx.Done():
		return engine.Answer{}, engine.ErrCannot
	}
}

func (a *app) withdraw(q *question) {
	a.questions = slices.DeleteFunc(a.questions, func(o *question) bool { return o == q })
}

// open opens a list; pick is called with what is picked.
func (a *app) open(p *picker, pick func(item)) {
	a.view.picker, a.pick = p, pick
}
