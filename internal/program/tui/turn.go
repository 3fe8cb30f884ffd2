package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/session"
)

// turn runs a turn with the user's input.
func (a *app) turn(in agent.Input) {
	ctx, stop := context.WithCancelCause(a.ctx)
	a.stop = stop
	a.view.running, a.view.since = true, time.Now()
	a.counted, a.streamed = 0, 0
	s := a.session
	a.workers.Add(1)
	go func() {
		defer a.workers.Done()
		defer stop(nil)
		var next *engine.Session // has replaced s
		err := func() error {
			in, err := s.Attach(ctx, in)
			if err != nil {
				return err
			}
			for e, err := range a.talk.Run(ctx, in) {
				switch {
				case err != nil:
					return err
				case e.Session != nil: // the user may type while hooks run for the end of one and the start of the other
					next = e.Session
					a.post(func() { a.done(nil); a.display(next) })
					a.chooseModel(ctx, next)
				case next != nil:
					a.post(func() { a.conv.event(e.Event, time.Now()) })
				default:
					a.post(func() { a.event(e) })
				}
			}
			return nil
		}()
		if next != nil {
			a.post(a.began(ctx, next, err))
			return
		}
		a.post(func() { a.done(err) })
	}()
}

// event applies an event of a turn.
func (a *app) event(e engine.Event) {
	a.conv.event(e.Event, time.Now())
	if e.Entry != nil {
		a.notices()
	}
	switch {
	case e.Reply != nil:
		if !a.conv.typed { // the message was queued
			a.conv.user(strings.TrimSpace("/" + e.Reply.Command + " " + e.Reply.Args))
			a.conv.typed = e.Reply.Prompt != ""
		}
		a.replied(*e.Reply)
	case e.Agent != nil:
		if e.Entry != nil && e.Entry.Result != nil && e.Entry.Result.Shared() {
			a.view.todos = todosOf(e.Entry.Result.Todos())
		}
	case e.Text != "":
		a.streamed += len(e.Text)
	case e.Thinking != "":
		a.streamed += len(e.Thinking)
	case e.Entry != nil && e.Entry.Answer != nil:
		a.counted += e.Entry.Answer.Usage.Output
		a.streamed = 0
		a.usage(a.session.Log())
	case e.Entry != nil && e.Entry.Note != nil && e.Entry.Note.Notify:
		a.notify("Knack: " + plain.Line(e.Entry.Note.People))
	case e.Entry != nil && e.Entry.Activation != nil:
		a.usage(a.session.Log())
	case e.Entry != nil && e.Entry.Result != nil && e.Entry.Result.Todos() != nil:
		a.view.todos = todosOf(e.Entry.Result.Todos())
	}
}

// replied shows the reply of a command.
func (a *app) replied(r engine.Reply) {
	switch {
	case r.Choices != nil && len(r.Choices.Options) > 0:
		if r.Choices.Text != "" {
			a.conv.reply(r.Choices.Text)
		}
		a.choose(r.Choices)
	case r.Chart != nil:
		a.conv.chart(r.Chart)
	case r.String() != "":
		a.conv.reply(r.String())
	}
	if r.Draft != "" && a.prompt.Empty() {
		a.prompt.Set(r.Draft)
	}
	if r.Edit != "" {
		if err := a.openEditor(r.Edit); err != nil {
			a.failed(err)
		}
	}
	a.quit = a.quit || r.Quit
}

// choose offers a command's choices as a list; the choice becomes the next input.
func (a *app) choose(q *engine.Question) {
	var items []item
	for _, o := range q.Options {
		items = append(items, item{value: o.ID, label: o.Label, help: o.Help, preview: o.Preview, other: o.Switch})
	}
	p := newPicker(plain.Line(q.Title), items).opened(q.Current)
	if i := slices.IndexFunc(p.found, func(i int) bool { return a.at != "" && p.items[i].value == a.at }); i >= 0 {
		p.at = i
	}
	p.line, a.at = q.Again, ""
	a.open(p, func(it item) {
		if strings.HasSuffix(it.value, " ") { // the user has to type more
			a.prompt.Set(it.value)
			return
		}
		a.submit(agent.Typed(it.value), engine.Next)
	})
}

// longTurn is the minimum duration of a turn whose end shows the time.
const longTurn = 5 * time.Second

// wake begins a turn if something happened in the background that may begin one, and the user is doing nothing.
// Otherwise the model reads it with the user's next message.
func (a *app) wake() {
	switch {
	case !a.late || a.busy():
	case !a.wakes || !a.prompt.Empty() || a.view.picker != nil || a.view.pager != nil || len(a.questions) > 0:
		if !a.lateNoted {
			a.lateNoted = true
			a.conv.note(styled.Dim, "Something happened in the background. The model reads it with your next message.")
		}
	default:
		a.conv.typed = true
		a.turn(engine.Woken())
	}
}

// done ends a turn.
func (a *app) done(err error) {
	a.view.running, a.stop = false, nil
	st := a.session.Status()
	a.late, a.wakes, a.lateNoted = st.News, st.Wakes, false
	a.conv.end(&agent.End{Reason: session.EndDone})
	a.usage(a.session.Log())
	a.tasks()
	a.notices()
	if d := time.Since(a.view.since); d >= longTurn && err == nil {
		a.conv.note(styled.Dim, show.Elapsed(d)+", "+plain.Number(a.counted)+" tokens")
		a.notify("Knack has finished")
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		a.failed(err)
	}
	if again := a.again; again != "" {
		a.again, a.conv.typed = "", true // do not show the command
		a.turn(agent.Typed(again))
	}
	var left []string
	for _, m := range a.talk.Unsent() {
		left = append(left, m.Text)
	}
	if len(left) > 0 {
		a.prompt.Set(strings.Trim(strings.Join(left, "\n")+"\n"+a.prompt.Text(), "\n"))
	}
}

// submit sends the user's input: as a new turn, or as a message to the running one.
func (a *app) submit(in agent.Input, when engine.When) {
	text := in.Text
	if strings.TrimSpace(text) == "" {
		return
	}
	a.view.try = ""
	if a.local(text) {
		return
	}
	if !a.view.running {
		if !strings.HasPrefix(text, "/") { // the steps are those of an earlier message, until the model lists them again
			a.view.todos = nil
		}
		a.conv.user(echo(text))
		a.conv.typed = true
		a.turn(in)
		return
	}
	s := a.session
	a.work(func(ctx context.Context) func() {
		with, err := s.Attach(ctx, in)
		var q engine.Queued
		if err == nil {
			q, err = s.Send(ctx, engine.QueuedMessage{Input: with, When: when})
			if errors.Is(err, engine.ErrCommandWaits) {
				q, err = s.Send(ctx, engine.QueuedMessage{Input: with, When: engine.Later})
			}
		}
		return func() {
			switch {
			case errors.Is(err, engine.ErrIdle): // the turn ended in the meantime
				a.submit(in, when)
			case err != nil:
				a.failed(err)
			case q.Reply != nil:
				a.conv.user(echo(text))
				a.replied(*q.Reply)
			}
		}
	})
}

// echo returns what the conversation shows of a message. The key that leaves calls the command by its long name,
// because a skill may be called background.
func echo(text string) string {
	if rest, ok := strings.CutPrefix(text, "/command:background"); ok {
		return "/background" + rest
	}
	return text
}
