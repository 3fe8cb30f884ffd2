package agent

import (
	"context"
	"strings"
	"time"

	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
)

// A display emits the text of an answer as people see it, after MessageDisplay hooks have rewritten it. The log keeps
// the model's own text, and the model sees only that.
type display struct {
	emit  func(Event)
	set   *hook.Set // nil: no hook wants to know
	id    string
	index int
	held  string    // not emitted yet
	shown string    // emitted so far
	last  time.Time // when the hooks last ran
}

// displayPause is the least time between two runs of the hooks, each of which may start a program.
const displayPause = 500 * time.Millisecond

// newDisplay returns the display of an answer with the hooks in effect, which may be none.
func newDisplay(emit func(Event), set *hook.Set) *display {
	d := &display{emit: emit, last: time.Now()}
	if set.Has(hook.MessageDisplay) {
		d.set, d.id = set, session.NewUUID()
	}
	return d
}

// add emits a piece of the answer, or keeps it until its line is whole.
func (d *display) add(ctx context.Context, piece string) {
	if d.set == nil {
		d.emit(Event{Text: piece})
		return
	}
	d.held += piece
	if time.Since(d.last) >= displayPause {
		d.flush(ctx, strings.LastIndexByte(d.held, '\n')+1, false)
	}
}

// flush emits the first n bytes that are held.
func (d *display) flush(ctx context.Context, n int, final bool) {
	if n == 0 && d.index == 0 || n == 0 && !final {
		return
	}
	text := d.held[:n]
	out := d.set.Fire(ctx, hook.Input{Event: hook.MessageDisplay,
		Shown: &hook.Shown{Message: d.id, Index: d.index, Final: final, Delta: text}})
	if out.Display != nil {
		text = *out.Display
	}
	d.held, d.shown, d.last = d.held[n:], d.shown+text, time.Now()
	d.index++
	d.emit(Event{Text: text})
}

// end emits the rest.
func (d *display) end(ctx context.Context) {
	if d.set != nil {
		d.flush(ctx, len(d.held), true)
	}
}

// text returns the text emitted so far, which grows until the end; nil: no hook changes it.
func (d *display) text() *string {
	if d.set == nil {
		return nil
	}
	return &d.shown
}

// displayed returns an answer with its text as it was shown.
func displayed(of *session.Answer, shown string) *session.Answer {
	answer := *of
	answer.Message.Parts = nil
	for _, p := range of.Message.Parts {
		if p.Text != "" {
			p.Text, shown = shown, ""
			if p.Text == "" {
				continue
			}
		}
		answer.Message.Parts = append(answer.Message.Parts, p)
	}
	return &answer
}
