package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Question is a question of a program to the user: to pick one of Options, or, if there are none, to type a text.
type Question struct {
	Title   string   `json:"title"` // one line
	Text    string   `json:"text"`
	Options []Option `json:"options"`
}

// An Option is one of the choices of a Question. In JSON it is an object, or a text that is both the ID and the label.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Help  string `json:"help"`
}

// UnmarshalJSON accepts a text or an object.
func (o *Option) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &o.ID) == nil {
		o.Label = o.ID
		return nil
	}
	type plain Option
	if err := json.Unmarshal(data, (*plain)(o)); err != nil {
		return err
	}
	if o.Label == "" {
		o.Label = o.ID
	}
	if o.ID == "" {
		o.ID = o.Label
	}
	return nil
}

const (
	maxOptions   = 100 // of a question
	maxQuestions = 50  // of one hook about one event
)

// Check returns what is wrong with a question; nil: it can be asked.
func (q *Question) Check() error {
	var ids []string
	for _, o := range q.Options {
		if o.ID == "" || slices.Contains(ids, o.ID) {
			return errors.New("two options of its question have the same ID, or one has none")
		}
		ids = append(ids, o.ID)
	}
	if strings.TrimSpace(q.Title) == "" || len(ids) > maxOptions {
		return fmt.Errorf("its question needs a title, and at most %d options", maxOptions)
	}
	return nil
}

// converse runs a hook, and once more with the answers each time that it asks the user something.
func (r *Runner) converse(ctx context.Context, h *Hook, text []byte) (reply, error) {
	answers := []string{}
	for range maxQuestions {
		answer, err := r.once(ctx, h, withAnswers(text, answers))
		if err != nil || answer.ask == nil {
			return answer, err
		}
		switch {
		case h.Async:
			return reply{}, errors.New("it asks a question, but it is asynchronous: nobody waits for it")
		case h.Event == Notification || h.Event == SessionEnd:
			return reply{}, fmt.Errorf("it asks a question, which a %s hook cannot", h.Event)
		case r.Ask == nil:
			return reply{}, fmt.Errorf("it asks %.100q, and there is nobody to ask", answer.ask.Title)
		}
		said, err := r.Ask(ctx, h, *answer.ask)
		if err != nil {
			return reply{}, fmt.Errorf("it asks %.100q: %w", answer.ask.Title, err)
		}
		answers = append(answers, said)
	}
	return reply{}, fmt.Errorf("it has asked %d questions", maxQuestions)
}

// withAnswers adds what the user has answered to the input of a hook, which is one JSON object.
func withAnswers(input []byte, answers []string) []byte {
	object, ok := bytes.CutSuffix(bytes.TrimSpace(input), []byte("}"))
	if len(answers) == 0 || !ok {
		return input
	}
	list, err := json.Marshal(answers)
	if err != nil { // strings are always valid
		return input
	}
	return slices.Concat(object, []byte(`,"answers":`), list, []byte("}\n"))
}
