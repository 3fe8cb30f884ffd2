package work

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/engine"
)

// QuestionOf returns what a run waits for.
func QuestionOf(r batch.Run) (q Question) {
	if json.Unmarshal(r.Question, &q) != nil {
		q.Title = "a question of another version of the program"
	}
	return q
}

// Choices are the answers to choose from.
func (q Question) Choices() []Option {
	if len(q.Options) == 0 && len(q.Fields) == 1 {
		return q.Fields[0].Options
	}
	return q.Options
}

// AnswerTo returns the answer that a text means: the name or the number of a choice, yes or no, or the text itself
// where that is asked for.
func (q Question) AnswerTo(text string) (batch.Answer, error) {
	options := q.Choices()
	i := slices.IndexFunc(options, func(o Option) bool {
		return strings.EqualFold(o.ID, text) || strings.EqualFold(o.Label, text)
	})
	if n, err := strconv.Atoi(text); i < 0 && err == nil && n >= 1 && n <= len(options) {
		i = n - 1
	}
	if i < 0 && len(q.Options) > 0 {
		yes := strings.EqualFold(text, "yes") || strings.EqualFold(text, "y")
		no := strings.EqualFold(text, "no") || strings.EqualFold(text, "n")
		i = slices.IndexFunc(options, func(o Option) bool { return yes && o.Allow || no && !o.Allow })
	}
	var a Answer
	switch {
	case len(q.Options) > 0 && i < 0:
		var names []string
		for _, o := range options {
			names = append(names, o.ID)
		}
		return batch.Answer{}, engine.Usagef("knack batch answer RUN "+names[0], "%q is none of %s", text,
			strings.Join(names, ", "))
	case len(q.Options) > 0:
		a.Option = options[i].ID
		if !options[i].Allow && q.Asker != string(engine.AskerPlan) {
			return batch.Answer{No: true}, nil
		}
	case len(q.Fields) == 0:
		return batch.Answer{}, errors.New("this question cannot be answered here")
	default:
		if i >= 0 {
			text = options[i].ID
		}
		value, err := json.Marshal(text)
		if err != nil {
			return batch.Answer{}, err
		}
		a.Values = map[string]json.RawMessage{}
		for _, f := range q.Fields {
			a.Values[f.Name] = value
		}
	}
	data, err := json.Marshal(a)
	return batch.Answer{Value: data}, err
}
