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
	q.close()
	return q
}

// What a message to the model after an answer consists of.
const (
	youAsked     = "You asked the user: "
	theyAnswered = "\nThe user has answered"
)

// short returns the option that was chosen, in quotation marks; "": the answer is something else.
func (q Question) short(a Answer) string {
	for _, o := range q.Choices() {
		if o.ID == a.Option && o.ID != "" {
			return " “" + o.Label + "”"
		}
	}
	return ""
}

// Answered returns what people are shown in place of a message that told the model of an answer; "": text is none.
func Answered(text string) string {
	_, asked, ok := strings.Cut(text, youAsked)
	at := strings.LastIndex(asked, theyAnswered)
	if !ok || at < 0 {
		return ""
	}
	if _, rest, ok := strings.Cut(asked[at:], "“"); ok {
		if said, _, ok := strings.Cut(rest, "”, and the run goes on"); ok {
			return "Answered: " + said
		}
	}
	return "Answered."
}

// Waits is the result of a call whose question is open.
const Waits = "waits for an answer"

// Choices are the answers to choose from.
func (q Question) Choices() []Option {
	if len(q.Options) == 0 && len(q.Fields) == 1 {
		return q.Fields[0].Options
	}
	return q.Options
}

// AnswerTo returns the answer that a text means: the name or the number of a choice, yes or no, or the text itself
// where that is asked for. No to a call ends the run.
func (q Question) AnswerTo(text string) (batch.Answer, error) {
	a, no, err := q.reply(text)
	if no && q.Asker != string(engine.AskerPlan) && !q.Secret() {
		return batch.Answer{No: true}, nil
	}
	return a, err
}

// Reply is AnswerTo where no ends nothing: the run goes on, and the model learns of it. A reason may follow no after a
// comma.
func (q Question) Reply(text string) (batch.Answer, error) {
	a, _, err := q.reply(text)
	return a, err
}

// reply returns the answer that a text means, and whether it refuses.
func (q Question) reply(text string) (answer batch.Answer, no bool, err error) {
	options := q.Choices()
	text = strings.TrimSpace(text)
	i, reason := q.choice(text), ""
	if first, rest, ok := strings.Cut(text, ","); ok && i < 0 && len(q.Options) > 0 {
		if i = q.choice(strings.TrimSpace(first)); i >= 0 && options[i].Allow { // "yes, but …" is no yes
			i = -1
		}
		reason = strings.TrimSpace(rest)
	}
	var a Answer
	switch {
	case q.Secret() && (i < 0 || reason != ""): // what it is must not be shown, nor kept
		return answer, false, engine.Usagef(q.Command, "an answer to this question may not contain a secret: it is one "+
			"of yes, no")
	case len(q.Options) > 0 && i < 0:
		var names []string
		for _, o := range options {
			names = append(names, o.ID)
		}
		return answer, false, engine.Usagef("knack batch answer RUN "+names[0], "%q is none of %s", text,
			strings.Join(names, ", "))
	case len(q.Options) > 0:
		a.Option, a.Reason, no = options[i].ID, reason, !options[i].Allow
	case len(q.Fields) == 0:
		return answer, false, errors.New("this question cannot be answered here")
	default:
		if i >= 0 {
			text = options[i].ID
		}
		value, err := json.Marshal(text)
		if err != nil {
			return answer, false, err
		}
		a.Values = map[string]json.RawMessage{}
		for _, f := range q.Fields {
			a.Values[f.Name] = value
		}
	}
	data, err := json.Marshal(a)
	return batch.Answer{Value: data}, no, err
}

// choice returns the index of the choice that a text means; -1: none.
func (q Question) choice(text string) int {
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
	return i
}
