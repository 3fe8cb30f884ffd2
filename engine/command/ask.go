package command

import (
	"context"
	"errors"

	"github.com/knack-agent/knack/engine"
)

// An asker asks the user: a session, or the conversation of a part.
type asker interface {
	Ask(context.Context, engine.Question) (engine.Answer, error)
}

// Confirm asks whether to do something. text is shown before the question; yes is the label of the affirmative option.
func Confirm(ctx context.Context, s asker, question, text, yes string) (bool, error) {
	a, err := s.Ask(ctx, engine.Question{Title: question, Text: text, Asker: engine.AskerCommand,
		Options: []engine.Option{{ID: engine.OptionYes, Label: yes, Allow: true}, {ID: engine.OptionNo, Label: "no"}}})
	return a.Option == engine.OptionYes && !a.Declined, err
}

// askSecret asks for a text that must not be visible.
func askSecret(ctx context.Context, s *engine.Session, label, help string) (string, error) {
	a, err := s.Ask(ctx, engine.Question{Title: label, Asker: engine.AskerCommand,
		Fields: []engine.Field{{Name: "secret", Label: label, Help: help, Type: engine.FieldSecret, Required: true}}})
	if err == nil && a.Declined {
		err = errors.New("nothing was entered")
	}
	return a.Text("secret"), err
}
