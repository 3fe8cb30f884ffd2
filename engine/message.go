package engine

import (
	"cmp"
	"errors"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// ErrEmpty is the error of commands that need a conversation in which something was said.
var ErrEmpty = errors.New("this session is still empty")

// StartsTurn reports whether an entry is the message or the skill with which the user began a turn.
func StartsTurn(e session.Entry) bool {
	return e.User != nil && !e.User.Steering || e.Activation != nil && e.Activation.By == session.ByUser
}

// TypedIn returns what the user typed or called in an entry; "": nothing.
func TypedIn(e session.Entry) string {
	switch {
	case e.User != nil:
		return cmp.Or(e.User.Typed, llm.JoinText(e.User.Parts, "\n"), "(an attachment)")
	case e.Activation != nil && e.Activation.By == session.ByUser:
		return strings.TrimSpace("/" + e.Activation.Skill + " " + e.Activation.Args)
	}
	return ""
}
