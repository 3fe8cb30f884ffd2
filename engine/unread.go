package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Unread returns the problems of settings files with restrictions that cannot be read: a session starts only after
// somebody agreed to go on without them, see [Engine.AskUnread].
func (p *Project) Unread() []knack.Problem { return slices.Clone(p.config.Unread) }

// unreadError returns an error if a project has restrictions that cannot be read, and the user has not agreed to that.
func (e *Engine) unreadError(p *Project) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range p.Unread() {
		if !e.agreed[x.String()] {
			return &Error{Err: errors.New("restrictions in the settings cannot be read: " + x.String()),
				Hint: "correct the file (knack help settings), or start knack on a terminal to go on without them",
				Exit: ExitUsage}
		}
	}
	return nil
}

// AskUnread asks who whether to go on without the restrictions in settings that cannot be read. On no, it returns the
// error with which [Engine.Start] would fail.
func (e *Engine) AskUnread(ctx context.Context, who Person) error {
	p := e.Project()
	stop := e.unreadError(p)
	if stop == nil {
		return nil
	}
	var lines []string
	for _, x := range p.Unread() {
		lines = append(lines, plain.Line(x.String()))
	}
	a, err := who.Ask(ctx, Question{Title: "Go on without restrictions that cannot be read?", Asker: AskerTrust,
		Text: strings.Join(lines, "\n"), Options: []Option{
			{ID: OptionNo, Label: "stop", Help: "correct the file first"},
			{ID: OptionYes, Label: "go on without them", Help: "in this session; these files allow nothing", Allow: true},
		}})
	if err != nil || a.Declined || a.Option != OptionYes {
		return stop
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.agreed == nil {
		e.agreed = map[string]bool{}
	}
	for _, x := range p.Unread() {
		e.agreed[x.String()] = true
	}
	return nil
}
