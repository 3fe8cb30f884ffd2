// Package tui is the terminal interface: an append-only conversation in the
// terminal's own scrollback, and a small live area below it with the current activity,
// the prompt and a status line.
//
// [Run] is the whole of it. Everything that happens arrives as a func on one
// channel and changes the state of one goroutine; what is shown is a function
// from that state to lines. Nothing above the live area is ever written again.
package tui

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/editor"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/styled"
	"github.com/knack-agent/knack/internal/terminal"
)

// Options say how the interface runs.
type Options struct {
	In  *os.File  // a terminal
	Out io.Writer // the same
	// Start begins the conversation; who answers its questions.
	Start func(ctx context.Context, who engine.Person) (*engine.Session, error)
	// Theme is the name of a theme; "" and "auto": that of the terminal's
	// background.
	Theme  string
	Colour bool // whether anything may be coloured
	// Notify is how the user is notified when an answer is needed: bell, osc9, off, or a
	// command; "": bell.
	Notify string
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
	if a.terminal, err = terminal.Open(o.In, o.Out, terminal.Keys,
		func(k terminal.Key) {
			select {
			case a.pressedKeys <- k:
			case <-a.ctx.Done():
			}
		}); err != nil {
		return err
	}
	defer a.terminal.Close()
	a.screen = &terminal.Screen{Out: o.Out}
	a.screen.Resize(a.terminal.Size())
	if o.Colour && cmp.Or(o.Theme, "auto") == "auto" {
		if err := a.terminal.AskBackground(); err != nil {
			return err
		}
	}
	if !a.setTheme(cmp.Or(o.Theme, "auto")) {
		a.setTheme("auto")
		a.conv.note(styled.Warn, "unknown theme "+o.Theme)
	}
	a.conv.width, _ = a.screen.Size()
	if o.Greeting != "" {
		a.conv.add(blockNote, styled.Wrap(styled.S(styled.Dim, plain.Line(o.Greeting)), a.conv.width, nil, nil)...)
	}
	a.begin()
	if o.First != "" {
		a.submit(agent.Typed(o.First), engine.Next)
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
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	posts  chan func()
	// pressedKeys are handled at once; what a turn posts waits for the next frame.
	pressedKeys chan terminal.Key
	session     *engine.Session
	terminal    *terminal.Terminal
	screen      *terminal.Screen
	keys        bindings
	history     editor.History
	prompt      editor.Editor

	conv      *conversation
	view      view
	questions []*question
	pick      func(item)              // what the open picker does
	cancelled func()                  // called when it is closed; nil: nothing is
	menuFrom  int                     // bytes of the prompt that the menu replaces
	commands  []item                  // for /; nil: to be made
	files     []string                // for @; nil: not read yet
	named     []item                  // what can follow @; nil: to be made of files and agents
	reading   bool                    // files are being read
	stop      context.CancelCauseFunc // of the running turn
	shells    []*shellCommand         // that run
	ran       *shellCommand           // the last that has ended; nil: none
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

// frame is the time between two frames of a turn, but for those that a key asks
// for. What is posted between them is not even looked at: waking up for each piece
// of an answer would cost more than drawing it.
const frame = 50 * time.Millisecond

func newApp(ctx context.Context, o Options) *app {
	a := &app{o: o, posts: make(chan func(), 256), pressedKeys: make(chan terminal.Key, 64)}
	a.ctx, a.cancel = context.WithCancel(ctx)
	a.conv = &conversation{width: 80, summary: func(name string, in []byte) string {
		return a.session.Summary(name, in)
	}}
	a.view.conv, a.view.prompt = a.conv, &a.prompt
	return a
}

// post queues a func for the loop. After the end of the interface it is dropped.
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
	sizes, release := terminal.Resizes()
	defer release()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	next := time.NewTimer(time.Hour) // the next frame of a turn
	defer next.Stop()
	if err := a.draw(); err != nil {
		return err
	}
	var handled time.Time // when posts were
	for !a.quit {
		posts := a.posts
		if wait := frame - time.Since(handled); wait > 0 && a.busy() {
			posts = nil
			next.Reset(wait)
		}
		select {
		case do := <-posts:
			handled = time.Now()
			do()
			for more := true; more && !a.quit; { // what came together is one frame
				select {
				case do := <-a.posts:
					do()
				default:
					more = false
				}
			}
		case k := <-a.pressedKeys:
			a.key(k)
			for more := true; more && !a.quit; {
				select {
				case k := <-a.pressedKeys:
					a.key(k)
				default:
					more = false
				}
			}
		case <-next.C:
			continue
		case <-ticker.C:
			if !a.busy() {
				w, h := a.terminal.Size()
				if a.resized(w, h) || len(a.view.jobs)+len(a.view.agents) > 0 && a.tasks() {
					break // nothing reports the end of a task, and on some systems a new size
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

// busy reports whether something in the live area changes by itself.
func (a *app) busy() bool { return a.view.running || len(a.shells) > 0 }

// resized applies a new size. The live area is erased where the terminal left
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
		a.view.writeTall(width, height)
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

// leave erases the live area and shows how to resume the session.
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

// open opens a list; pick is called with what is picked.
func (a *app) open(p *picker, pick func(item)) {
	a.view.picker, a.pick, a.cancelled = p, pick, nil
}
