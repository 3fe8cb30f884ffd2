package tui

import (
	"context"
	"slices"

	"github.com/knack-agent/knack/engine"
)

// A question is a question that the run is waiting on.
type question struct {
	dialog *dialog
	reply  chan engine.Answer
}

// person asks questions on the screen.
type person struct{ a *app }

func (p person) Ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	a := p.a
	question := &question{dialog: newDialog(q), reply: make(chan engine.Answer, 1)}
	a.post(func() {
		question.dialog.locked = decides(q) && a.prompt.Text() != ""
		a.questions = append(a.questions, question)
		a.notify("Knack is waiting for your answer")
	})
	select {
	case answer := <-question.reply:
		return answer, nil
	case <-ctx.Done():
		a.post(func() { a.withdraw(question) })
		return engine.Answer{}, context.Cause(ctx)
	case <-a.ctx.Done():
		return engine.Answer{}, engine.ErrCannot
	}
}

func (a *app) withdraw(q *question) {
	a.questions = slices.DeleteFunc(a.questions, func(o *question) bool { return o == q })
}
