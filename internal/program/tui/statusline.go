package tui

import (
	"context"
	"time"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// lineInterval is the least time between two runs of the user's status line.
const lineInterval = 300 * time.Millisecond

// A userLine is the status line that a command of the user prints.
type userLine struct {
	began   time.Time // when the command last began
	running bool
	seen    userLineState // what it was last run for
	failed  string        // the last error that was shown
}

// A userLineState is what a new run of the command depends on.
type userLineState struct {
	session                           string
	model, effort, mode, title, place string
	used                              int
	cost                              float64
	running                           bool
}

// updateLine runs the command of the user's status line if something has changed since it last ran.
func (a *app) updateLine(now time.Time) {
	if a.session == nil {
		return
	}
	s := a.view.status
	state := userLineState{session: a.session.Log().ID(), model: s.model, effort: s.effort, mode: string(s.mode),
		title: s.title, place: s.branch, used: s.used, cost: s.cost, running: a.view.running}
	if a.line.running || state == a.line.seen || now.Sub(a.line.began) < lineInterval {
		return
	}
	a.line.began, a.line.running, a.line.seen = now, true, state
	session := a.session
	a.work(func(ctx context.Context) func() {
		text, err := session.Now().StatusLine(ctx)
		return func() {
			a.line.running = false
			if session != a.session {
				return
			}
			a.view.status.own = text
			if err != nil && err.Error() != a.line.failed && ctx.Err() == nil {
				a.line.failed = err.Error()
				a.conv.note(styled.Warn, "statusLine: "+plain.Line(err.Error()))
			}
		}
	})
}
