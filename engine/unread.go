package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Unread are the restrictions in settings that cannot be read, or that Knack cannot hold. A session starts only after
// somebody agreed to go on without them. It is safe for concurrent use.
type Unread struct {
	asking sync.Mutex // held while somebody is asked; taken before mu
	mu     sync.Mutex
	found  []knack.Problem
	agreed map[string]bool
}

// Problems returns what cannot be read, and where.
func (u *Unread) Problems() []knack.Problem {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.found)
}

func (u *Unread) set(found []knack.Problem) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.found = found
}

// check returns an error if the user has not agreed to go on without all of these.
func (u *Unread) check(found []knack.Problem) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range found {
		if !u.agreed[x.String()] {
			what := "cannot be read"
			if x.Code == knack.CodeSettingIgnored {
				what = "would not hold"
			}
			return &Error{Err: errors.New("restrictions in the settings " + what + ": " + x.String()),
				Hint: "correct the file (knack help settings), or start knack on a terminal to go on without them",
				Exit: ExitUsage}
		}
	}
	return nil
}

// Ask asks who whether to go on without these restrictions, unless that was answered. On no, it returns the error with
// which [Engine.Start] would fail.
func (u *Unread) Ask(ctx context.Context, who Person) error {
	u.asking.Lock()
	defer u.asking.Unlock()
	found := u.Problems()
	stop := u.check(found)
	if stop == nil {
		return nil
	}
	var lines []string
	for _, x := range found {
		lines = append(lines, plain.Line(x.String()))
	}
	a, err := who.Ask(ctx, Question{Title: "Go on without restrictions in the settings?", Asker: AskerSettings,
		Text: strings.Join(lines, "\n"), Options: []Option{
			{ID: OptionYes, Label: "go on without them", Help: "in this session; these files allow nothing", Allow: true},
			{ID: OptionNo, Label: "stop", Help: "correct the file first"},
		}})
	if err != nil || a.Declined || a.Option != OptionYes {
		return stop
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.agreed == nil {
		u.agreed = map[string]bool{}
	}
	for _, x := range found {
		u.agreed[x.String()] = true
	}
	return nil
}
