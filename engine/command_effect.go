package engine

import (
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
	// Changes means that the command does more than Stores and Shows say: it grants, sends, opens, writes or reads
	// something outside the conversation. A host's message runs it only if a user typed the message.
	Changes Effect = iota
	// Stores means that the user's settings or notes are written. A host's message runs it only if a user typed the
	// message, and [Host.MaySave] is set.
	Stores
	// Shows means that the command shows something, concerns this conversation alone, or makes something stricter.
	Shows
)

// ShowsOnly is a [Command.Effect] of a command that shows something, whatever its arguments are.
func ShowsOnly(permission.Mode, string) Effect { return Shows }

// WithoutArguments returns a [Command.Effect] of a command that shows something if it has no arguments; otherwise its
// effect is with.
func WithoutArguments(with Effect) func(permission.Mode, string) Effect {
	return func(_ permission.Mode, args string) Effect {
		if args == "" {
			return Shows
		}
		return with
	}
}

// ModeEffect is the effect of changing the permission mode: [Shows] if the new mode allows no more than the old one,
// otherwise [Changes].
func ModeEffect(from, to permission.Mode) Effect {
	if m, err := permission.ParseMode(string(to)); err == nil && permission.Stricter(m, from) == m {
		return Shows
	}
	return Changes
}

// EffectOf returns what the command does with arguments in a permission mode.
func (c Command) EffectOf(mode permission.Mode, args string) Effect {
	if c.Effect == nil {
		return Changes
	}
	return c.Effect(mode, args)
}

// checkHost returns why a message of a host must not run a command; nil: it may, or the message is not a host's.
func (c Command) checkHost(host Host, mode permission.Mode, in agent.Input) error {
	if !in.Host {
		return nil
	}
	effect := c.EffectOf(mode, in.Called.Args)
	if effect == Shows {
		return nil
	}
	name := "/" + plain.Line(c.Name)
	if in.Typed != in.Text {
		return fmt.Errorf(`%s does this only for a user, and the message does not say that one typed it ("typed": true)`,
			name)
	}
	if effect == Stores && !host.MaySave {
		return fmt.Errorf("%s writes settings or notes, and a host's message may do that only with --host-may-save", name)
	}
	return nil
}

// checkBypass returns errBypassAtStart for the mode bypassPermissions, by whatever name, unless it is the configured
// mode.
func checkBypass(configured, to permission.Mode) error {
	if m, err := permission.ParseMode(string(to)); err == nil && m == permission.Bypass &&
		configured != permission.Bypass {
		return errBypassAtStart
	}
	return nil
}

// errBypassAtStart is the error for the mode bypassPermissions where nobody at the keyboard chooses it.
var errBypassAtStart = errors.New("bypassPermissions can only be chosen when the program starts")
