// Package background is the part with the command /background, which lets a conversation go on without its terminal.
package background

import (
	"context"
	"errors"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/session"
)

// A Leave notes that a conversation goes on in the background once its front end, which quits then, has ended.
type Leave func(s *engine.Session, messages []Message) error

// A Message is what the session works on in the background. The zero Message means what was interrupted.
type Message struct {
	Text  string
	Typed bool // the user typed all of it
}

// Part is the command /background. Where leave is nil, it says that it needs a terminal.
func Part(leave Leave) engine.Part {
	return engine.Part{Name: "background",
		Open: func(context.Context, *engine.Conv) (*engine.Live, error) { return nil, nil },
		Commands: []engine.Command{{Name: "background", Also: []string{"bg", "detach"}, Hint: "[MESSAGE]", Anytime: true,
			Description: "leave, and let the session go on in the background",
			Run: func(_ context.Context, s *engine.Session, args string) (engine.Reply, error) {
				return command(s, strings.TrimSpace(args), leave)
			}}}}
}

func command(s *engine.Session, message string, leave Leave) (engine.Reply, error) {
	if leave == nil {
		return engine.Reply{}, &engine.Error{Err: errors.New("only a conversation at a terminal goes to the background"),
			Hint: "knack --bg -r " + s.Log().ID() + " 'your prompt'"}
	}
	if !s.Recorded() {
		return engine.Reply{}, errors.New("a session that is not recorded ends with its terminal")
	}
	var messages []Message
	st := s.Status()
	if interrupts(s.Log()) {
		messages = append(messages, Message{})
	}
	for _, m := range st.Queue {
		if !strings.HasPrefix(m.Text, "/") { // a command of the program belongs to its front end
			messages = append(messages, Message{m.Text, m.Typed == m.Text})
		}
	}
	if message != "" {
		messages = append(messages, Message{Text: message}) // a part of it may be pasted
	}
	if len(messages) == 0 {
		return engine.Reply{}, &engine.Error{Err: errors.New("nothing runs that could go on in the background"),
			Hint: "/background MESSAGE"}
	}
	if err := leave(s, messages); err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Quit: true}, nil
}

// interrupts reports whether the front end of a session, when it quits, interrupts a turn. That something runs does not
// say so: it may be this command alone.
func interrupts(log *session.Log) bool {
	for e := range log.Backward() {
		switch {
		case e.TurnEnd != nil:
			return false
		case e.User != nil, e.Activation != nil && e.Activation.Call == "":
			return true
		}
	}
	return false
}
