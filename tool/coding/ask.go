package coding

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"github.com/knack-agent/knack/tool"
)

//go:embed ask.md
var askText string

// A Question is put to the person. With Options, the answer is one of them or
// the person's own words.
type Question struct {
	Question string   `json:"question" jsonschema:"one question"`
	Options  []string `json:"options,omitempty" jsonschema:"answers to choose from; the person may give another"`
}

func askTool(ask func(context.Context, Question) (string, error)) tool.Tool {
	t := tool.New("ask", strings.TrimSpace(askText), func(ctx context.Context, q Question, _ tool.Input) (tool.Result, error) {
		if strings.TrimSpace(q.Question) == "" {
			return tool.Result{}, errors.New("question is empty")
		}
		if ask == nil {
			return tool.Result{}, errors.New("nobody can be asked: this run has no person at a terminal. Decide by what you know and say what you assumed, or end with the question")
		}
		answer, err := ask(ctx, q)
		if err != nil {
			return tool.Result{}, err
		}
		if strings.TrimSpace(answer) == "" {
			answer = "(the person gave no answer)"
		}
		return tool.Text(answer), nil
	})
	t.Effect, t.Aliases = tool.Asks, []string{"AskUserQuestion"}
	t.Ordered = true // one question at a time
	t.Summary = tool.SummaryOf(func(q Question) string { return q.Question })
	t.Subjects = harmless("ask")
	return t
}
