package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
)

// An Effect says what a command does with its arguments, and so for which messages of a host it runs: a host sends
// text that its user typed, and text of others, such as a page or a chat. See [Command.Effect].
type Effect int

const (
	// Changes is the effect of all that is neither of the others: it grants, sends, opens, writes or reads something
	// beyond the conversation. A host's message runs it only if a user typed the message.
	Changes Effect = iota
	// Stores means that the user's settings or notes are written. A host's message runs it only if a user typed the
	// message, and [Host.MaySave] is set.
	Stores
	// Shows means that the command shows something, concerns this conversation alone, or makes something stricter.
	Shows
)

// ShowsOnly is a [Command.Effect] of a command that shows something, whatever its arguments are.
func ShowsOnly(*Session, string) Effect { return Shows }

// WithoutArguments returns a [Command.Effect] of a command that shows something if it has no arguments; otherwise its
// effect is with.
func WithoutArguments(with Effect) func(*Session, string) Effect {
	return func(_ *Session, args string) Effect {
		if args == "" {
			return Shows
		}
		return with
	}
}

// ModeEffect is the effect of a change to a permission mode: one that allows no more than the mode in force is
// stricter.
func (s *Session) ModeEffect(to permission.Mode) Effect {
	if m, err := permission.ParseMode(string(to)); err == nil && permission.Stricter(m, s.Mode()) == m {
		return Shows
	}
	return Changes
}

// checkHost returns why a message of a host must not run a command; nil: it may, or the message is not a host's.
func (c Command) checkHost(s *Session, in agent.Input) error {
	if !in.Host {
		return nil
	}
	effect := Changes
	if c.Effect != nil {
		effect = c.Effect(s, in.Called.Args)
	}
	if effect == Shows {
		return nil
	}
	name := "/" + plain.Line(c.Name)
	if in.Typed != in.Text {
		return fmt.Errorf(`%s does this only for a user, and the message does not say that one typed it ("typed": true)`,
			name)
	}
	if effect == Stores && !s.Host().MaySave {
		return fmt.Errorf("%s writes settings or notes, which a host's message does only with --host-may-save", name)
	}
	return nil
}

// runFor runs the command that an input calls, if the input may run it.
func (c Command) runFor(ctx context.Context, s *Session, in agent.Input) (Reply, error) {
	if err := c.checkHost(s, in); err != nil {
		return Reply{}, err
	}
	return c.run(ctx, s, in.Called.Args)
}

// errBypassAtStart is the error for the mode bypassPermissions where nobody at the keyboard chooses it.
var errBypassAtStart = errors.New("bypassPermissions can only be chosen when the program starts")
