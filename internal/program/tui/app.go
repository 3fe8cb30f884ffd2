// Package tui is the terminal interface: an append-only conversation in the terminal's own
// scrollback, and a small live area below it with the current activity, the prompt and a
// status line.
//
// [Run] is the main entry point. All events (keys, agent events, timers) reach one goroutine
// as functions on a channel; only that goroutine changes the state. The live area is a
// function from that state to lines. Lines above the live area are never written again.
package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/internal/program/terminal"
	"github.com/knack-agent/knack/run/agent"
)

// Options configure the interface.
type Options struct {
	In  *os.File  // a terminal
	Out io.Writer // the same terminal
	// Before, if not nil, asks what has to be answered before the conversation begins, such as whether to trust the
	// project. An error ends the program.
	Before func(ctx context.Context, who engine.Person) error
	// Start begins the conversation. The session asks its questions through who.
	Start func(ctx context.Context, who engine.Person) (*engine.Session, error)
	// Warnings returns what Start has to say, one line each; nil: nothing.
	Warnings func() []string
	// Notices returns which problems that the engine finds later are shown; nil: all.
	Notices func([]knack.Problem) []knack.Problem
	// Theme is the name of a theme. "" and "auto" choose one that fits the terminal's
	// background.
	Theme string
	// Themes is a directory with theme files of the user, NAME.json; "": there is none.
	Themes string
	Colour bool // whether colours may be used
	Vim    bool // whether the prompt has Vim's keys
	// Notify is how the user is notified when an answer is needed: bell, osc9, off, or a
	// command. "" means bell.
	Notify string
	// History and Bindings are file names, and ClaudeBindings that of Claude Code's key bindings; "" means no file.
	History, Bindings, ClaudeBindings string

	// Greeting is the first screen; modeKey is the key that changes the mode, "" if there is none. nil: no greeting.
	Greeting func(s *engine.Session, modeKey string) Greeting
	Shown    func() // called once, when the prompt has been drawn; nil: nothing
	First    string // the first prompt, sent at the start
	Env      func(string) string
}

// Run shows the interface until the user leaves, ctx ends or the terminal is closed. It closes
// the session before it returns.
func Run(ctx context.Context, o Options) error {
	a := newApp(ctx, o)
	defer a.end()
	var err error
	if a.keys, err = loadBindings(o.Bindings, o.ClaudeBindings); err != nil {
		a.conv.note(styled.Warn, err.Error())
	}
	a.view.nowKey, a.view.backgroundKey = a.keys.first(actSendNow), a.keys.first(actBackground)
	a.view.modeKey = a.keys.first(actMode)
	a.prompt.SetVim(o.Vim)
	a.history.Load(o.History)
	loaded := len(a.history.All())
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
	a.screen = &terminal.Screen{Out: o.Out, Reflows: terminal.Reflows(a.env)}
	a.screen.Resize(a.terminal.Size())
	if o.Colour && cmp.Or(o.Theme, "auto") == "auto" {
		if err := a.terminal.AskBackground(); err != nil {
			return err
		}
	}
	if !a.setTheme(cmp.Or(o.Theme, "auto")) {
		a.setTheme("auto")
		a.conv.note(styled.Warn, a.view.hint)
	}
	a.conv.width, _ = a.screen.Size()
	defer func() {
		if a.talk != nil {
			a.talk.Close()
		}
	}()
	if o.Before == nil {
		a.start()
	} else {
		a.work(func(ctx context.Context) func() {
			err := o.Before(ctx, person{a})
			return func() {
				if a.startErr = err; err != nil {
					a.quit = true
					return
				}
				a.start()
			}
		})
	}
	err = a.loop()
	if a.startErr != nil {
		return a.startErr
	}
	if saved := a.history.Save(o.History, min(loaded, len(a.history.All()))); err == nil && saved != nil {
		err = fmt.Errorf("the history could not be kept: %w", saved)
	}
	return err
}

// start begins the conversation.
func (a *app) start() {
	s, err := a.o.Start(a.ctx, person{a})
	if err != nil {
		a.startErr, a.quit = err, true
		return
	}
	a.session = s
	a.talk = engine.Converse(s)
	if a.o.Greeting != nil {
		greeting := a.o.Greeting(s, a.view.modeKey)
		a.conv.add(blockReply, greeting.lines(a.conv.width)...) // a note does not join it
		a.view.try = greeting.Try
	}
	if a.o.Warnings != nil {
		for _, text := range a.o.Warnings() {
			a.conv.note(styled.Warn, plain.Line(text))
		}
	}
	a.begin()
	if a.o.First != "" {
		a.submit(agent.Typed(a.o.First), engine.Next)
	}
	for _, k := range a.early {
		a.key(k)
	}
	a.early = nil
}

// app is the state of the interface. Only the goroutine of loop may use it; other goroutines
// call post.
type app struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	posts  chan func()
	// Keys are handled at once; functions posted during a turn wait for the next frame.
	pressedKeys chan terminal.Key
	talk        *engine.Conversation
	session     *engine.Session // the one that is shown; nil: Before asks
	early       []terminal.Key  // from Enter on, pressed before there was a session
	startErr    error           // why the conversation did not begin
	terminal    *terminal.Terminal
	screen      *terminal.Screen
	keys        bindings
	history     editor.History
	prompt      editor.Editor

	conv      *conversation
	view      view
	questions []*question
	again, at string                  // the line that shows a list again after this turn, and where its cursor is then
	pick      func(item)              // called with the item picked in the open picker
	cancelled func()                  // called when the picker is closed without a choice; may be nil
	menuFrom  int                     // start of the part of the prompt that the menu replaces, as a byte offset
	commands  []item                  // completions for /; nil: not built yet
	files     []string                // files for @; nil: not read yet
	resources map[string]*resources   // for @server:, by server
	named     []item                  // completions for @; nil: not yet built from files and agents
	moves     bool                    // the command after "!" is to go to the background as soon as it runs
	reading   bool                    // files are being read in the background
	stop      context.CancelCauseFunc // stops the running turn
	shells    []*shellCommand         // running
	lastShell *shellCommand           // the last one that ended; nil: none
	quit      bool
	leaving   bool      // the user wants to leave, and is asked about notes first
	pressed   time.Time // time of the last Ctrl-C or Esc at an empty prompt
	lastAct   action    // the action of the last key
	noticed   int       // number of the engine's notices that were shown
	streamed  int       // bytes received of the answer being streamed
	counted   int       // tokens of the turn's complete answers
	drawn     time.Time
	watch     context.CancelFunc
	late      bool // a hook with asyncRewake has reported something that the model has not read
	lateNoted bool // the user knows
	wakes     bool // it may begin a turn
	line      userLine
	workers   sync.WaitGroup
	pastes    struct {
		sync.Mutex
		dir string // directory of pasted images; "": not created yet
		n   int
	}
}

// frame is the time between two frames of a turn, except for frames drawn because of a key
// press. Posted functions wait in the channel until the next frame: waking up for each piece
// of an answer would cost more than drawing it.
const frame = 50 * time.Millisecond

func newApp(ctx context.Context, o Options) *app {
	a := &app{o: o, posts: make(chan func(), 256), pressedKeys: make(chan terminal.Key, 64)}
	a.ctx, a.cancel = context.WithCancel(ctx)
	a.conv = &conversation{width: 80, summary: func(name string, in []byte) string {
		return a.session.Now().Summary(name, in)
	}}
	a.view.conv, a.view.prompt = a.conv, &a.prompt
	return a
}

// post queues a function for the loop. After the interface has ended, the function is dropped.
func (a *app) post(do func()) {
	select {
	case a.posts <- do:
	case <-a.ctx.Done():
	}
}

// work runs do, which may be slow, in another goroutine; the function that it returns then
// runs in the loop.
func (a *app) work(do func(ctx context.Context) (then func())) {
	a.workers.Add(1)
	go func() {
		defer a.workers.Done()
		if then := do(a.ctx); then != nil {
			a.post(then)
		}
	}()
}

// end stops everything that is still running.
func (a *app) end() {
	a.cancel()
	a.workers.Wait()
	if a.pastes.dir != "" {
		os.RemoveAll(a.pastes.dir)
	}
}

// loop draws and runs posted functions until the user leaves.
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
	if a.o.Shown != nil {
		a.o.Shown()
	}
	var handled time.Time // when posted functions last ran
	for !a.quit {
		a.updateLine(time.Now())
		posts := a.posts
		if wait := frame - time.Since(handled); wait > 0 && a.busy() {
			posts = nil
			next.Reset(wait)
		}
		select {
		case do := <-posts:
			handled = time.Now()
			do()
			for more := true; more && !a.quit; { // everything that is already waiting goes into one frame
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
					break // polled: nothing reports the end of a background task
				}
				continue
			}
			if a.moves = a.moves && len(a.shells) > 0; a.moves {
				a.moves = !a.session.MoveToBackground("")
			}
		case <-sizes:
		case <-a.terminal.Ended():
			return a.leave(nil)
		case <-a.ctx.Done():
			return a.leave(context.Cause(a.ctx))
		}
		// A new size may be known before its signal arrives: a frame for the old width would leave rows behind.
		a.resized(a.terminal.Size())
		a.wake()
		if err := a.draw(); err != nil {
			return err
		}
	}
	return a.leave(nil)
}

// busy reports whether something in the live area changes by itself.
func (a *app) busy() bool { return a.view.running || len(a.shells) > 0 }

// resized applies a new size: it erases the live area where the terminal left it, and redraws
// it.
func (a *app) resized(width, height int) bool {
	if w, h := a.screen.Size(); w == width && h == height {
		return false
	}
	a.screen.Reflow(width)
	a.screen.Redraw()
	a.screen.Resize(width, height)
	return true
}

func (a *app) draw() error {
	a.drawn = time.Now()
	width, height := a.screen.Size()
	a.conv.width = width
	a.view.dialog, a.view.more = nil, 0
	if len(a.questions) > 0 {
		a.view.dialog, a.view.more = a.questions[0].dialog, len(a.questions)-1
		a.conv.endAnswer()
		a.view.writeTall(width, height)
	}
	if a.view.pager != nil {
		return a.screen.Full(a.view.pager.rows(width, height))
	}
	if err := a.screen.Back(); err != nil {
		return err
	}
	a.view.tokens = a.counted + a.streamed/4
	final := a.conv.take()
	live, cursor := a.view.live(width, height, a.drawn)
	if len(a.questions) > 0 && a.questions[0].dialog.appears() {
		drop(a.pressedKeys) // what was typed before the field was visible is not part of a secret
	}
	return a.screen.Show(final, live, cursor)
}

// drop takes from keys those that were pressed but not handled yet.
func drop(keys <-chan terminal.Key) {
	for {
		select {
		case <-keys:
		default:
			return
		}
	}
}

// leave erases the live area and shows how to resume the session.
func (a *app) leave(err error) error {
	if a.stop != nil {
		a.stop(context.Canceled)
	}
	a.view.pager = nil
	if e := a.screen.Back(); e != nil {
		return errors.Join(err, e)
	}
	a.conv.endAnswer()
	if a.session == nil {
		return errors.Join(err, a.screen.Leave())
	}
	if s := a.session.Log(); s.Last() > 0 && a.session.Recorded() {
		a.conv.note(styled.Dim, "resume with: knack -r "+s.ID())
	}
	if e := a.screen.Show(a.conv.take(), nil, terminal.Cursor{}); e != nil {
		return errors.Join(err, e)
	}
	return errors.Join(err, a.screen.Leave())
}

// open opens a list; pick is called with the chosen item.
func (a *app) open(p *picker, pick func(item)) {
	a.view.picker, a.pick, a.cancelled = p, pick, nil
}
