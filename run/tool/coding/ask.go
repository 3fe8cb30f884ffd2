package coding

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/run/tool"
)

//go:embed ask.md
var askText string

//go:embed ask.json
var askSchema []byte

// maxQuestions limits the questions of one call.
const maxQuestions = 4

// A Question is shown to the user. With Options, the answer is one of their labels or
// free text; with Multi, the user may choose any number of options.
type Question struct {
	Question string   `json:"question" jsonschema:"one question"`
	Header   string   `json:"header,omitempty" jsonschema:"one or two words that name the question"`
	Options  []Option `json:"options,omitempty" jsonschema:"answers to choose from; the user may give another"`
	Multi    bool     `json:"multiSelect,omitempty" jsonschema:"several options may be chosen"`
}

// An Option is an answer that the user can choose.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty" jsonschema:"what it means"`
}

// AskDetails has the questions and the user's answers, for programs.
type AskDetails struct {
	Questions []Question        `json:"questions"`
	Answers   map[string]string `json:"answers"` // by question
}

type askInput struct {
	Question  string     `json:"question,omitempty" jsonschema:"one question"`
	Options   []string   `json:"options,omitempty" jsonschema:"answers to choose from; the user may give another"`
	Questions []Question `json:"questions,omitempty" jsonschema:"instead of question: up to 4 that are answered together"`
}

// all returns the questions, whichever form the input has.
func (in askInput) all() []Question {
	if len(in.Questions) > 0 {
		return in.Questions
	}
	q := Question{Question: in.Question}
	for _, o := range in.Options {
		q.Options = append(q.Options, Option{Label: o})
	}
	return []Question{q}
}

func (in askInput) check() error {
	if len(in.Questions) > maxQuestions {
		return fmt.Errorf("%d questions: at most %d can be asked at once", len(in.Questions), maxQuestions)
	}
	if len(in.Questions) > 0 && strings.TrimSpace(in.Question) != "" {
		return errors.New("question and questions are both set: use one of them")
	}
	for _, q := range in.all() {
		if strings.TrimSpace(q.Question) == "" {
			return errors.New("question is empty")
		}
	}
	return nil
}

func askTool(ask func(context.Context, []Question) ([]string, error)) tool.Tool {
	t := tool.Define("ask", strings.TrimSpace(askText), askSchema,
		func(ctx context.Context, in askInput, _ tool.Input) (tool.Result,
			error) {
			if err := in.check(); err != nil {
				return tool.Result{}, err
			}
			if ask == nil {
				return tool.Result{}, errors.New("there is no user to ask: this run has no terminal. " +
					"Decide from what you know and state your assumptions, or end with the question")
			}
			questions := in.all()
			answers, err := ask(ctx, questions)
			if err != nil {
				return tool.Result{}, err
			}
			if len(answers) != len(questions) {
				return tool.Result{}, fmt.Errorf("%d answers to %d questions", len(answers), len(questions))
			}
			lines := make([]string, len(answers))
			details := AskDetails{Questions: questions, Answers: map[string]string{}}
			for i, a := range answers {
				details.Answers[questions[i].Question] = a
				if strings.TrimSpace(a) == "" {
					a = "(the user gave no answer)"
				}
				if len(in.Questions) > 0 {
					a = questions[i].Question + "\n" + a
				}
				lines[i] = a
			}
			res := tool.Text(strings.Join(lines, "\n\n"))
			res.Details = details
			return res, nil
		})
	t.Effect, t.Aliases = tool.Asks, []string{"AskUserQuestion"}
	t.Guidelines = guidelines("Ask the user only what you cannot find out, and only when the answer changes what you do.")
	t.Ordered = true // one call at a time
	t.Convert = convertAsk
	t.Summary = tool.SummaryOf(func(in askInput) string {
		var all []string
		for _, q := range in.all() {
			all = append(all, q.Question)
		}
		return strings.Join(all, " · ")
	})
	t.Subjects = toolSubject("ask")
	return t
}

// convertAsk accepts options as texts and as objects, in both forms of the input.
func convertAsk(in tool.Object) {
	var options []json.RawMessage
	if json.Unmarshal(in["options"], &options) == nil && options != nil {
		for i := range options {
			var o tool.Object
			if json.Unmarshal(options[i], &o) == nil && o.Has("label") {
				options[i] = o["label"]
			}
		}
		in.Set("options", options)
	}
	questions := in.Objects("questions")
	if questions == nil {
		return
	}
	for _, q := range questions {
		var options []json.RawMessage
		if json.Unmarshal(q["options"], &options) != nil || options == nil {
			continue
		}
		for i := range options {
			if bytes.HasPrefix(options[i], []byte(`"`)) {
				o := tool.Object{"label": options[i]}
				options[i], _ = json.Marshal(o)
			}
		}
		q.Set("options", options)
	}
	in.Set("questions", questions)
}
