package session

import (
	"encoding/json"
	"slices"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/mask"
	"github.com/knack-agent/knack/run/llm"
)

// Hide masks secrets in the text of all entries that are appended from now on, wherever it comes from: a call, a hook,
// an agent, the user, a model. values returns them; it is called for each entry, without a lock of the log. Calls,
// thinking and what a provider signed stay as they are.
func (l *Log) Hide(values func() []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values = values
}

// hidden returns an entry without the secrets of [Log.Hide].
func (l *Log) hidden(e Entry) Entry {
	l.mu.Lock()
	values := l.values
	l.mu.Unlock()
	if values == nil {
		return e
	}
	if m := mask.New(values()); !m.Empty() {
		e.hide(m)
	}
	return e
}

// hide masks secrets in all texts of an entry. It changes nothing that the entry shares with others.
func (e *Entry) hide(m mask.Mask) {
	switch {
	case e.User != nil:
		x := own(&e.User)
		x.Parts = hideParts(m, x.Parts)
		hide(m, &x.Typed, &x.Words)
	case e.Answer != nil:
		x := own(&e.Answer)
		x.Message.Parts = hideParts(m, x.Message.Parts)
	case e.Result != nil:
		own(&e.Result).hide(m)
	case e.Decision != nil:
		own(&e.Decision).hide(m)
	case e.Activation != nil:
		x := own(&e.Activation)
		x.Parts, x.Images = hideParts(m, x.Parts), hideParts(m, x.Images)
		hide(m, &x.Args, &x.Notice, &x.Prompt)
		x.Problems = hideProblems(m, x.Problems)
	case e.Note != nil:
		x := own(&e.Note)
		hide(m, &x.Model, &x.People, &x.Failed)
		x.Todos = hideJSON(m, x.Todos)
		x.Problems = hideProblems(m, x.Problems)
	case e.TurnEnd != nil:
		hide(m, &own(&e.TurnEnd).Error)
	case e.Release != nil:
		x := own(&e.Release)
		hide(m, &x.Reason, &x.Summary)
	case e.Setting != nil:
		x := own(&e.Setting)
		hide(m, &x.Title, &x.Run)
		if x.Label != nil {
			hide(m, &own(&x.Label).Text)
		}
	case e.Listing != nil:
		hide(m, &own(&e.Listing).Text)
	case e.Compaction != nil:
		x := own(&e.Compaction)
		hide(m, &x.Instructions, &x.Summary, &x.Request)
		x.Typed = slices.Clone(x.Typed)
		for i := range x.Typed {
			hide(m, &x.Typed[i])
		}
	case e.Agent != nil:
		x := own(&e.Agent)
		hide(m, &x.Args, &x.Task, &x.Error, &x.Result)
	case e.Goal != nil:
		x := own(&e.Goal)
		hide(m, &x.Text, &x.Check, &x.Reason)
	}
}

func (r *Result) hide(m mask.Mask) {
	r.Parts = hideParts(m, r.Parts)
	hide(m, &r.People)
	r.Details = hideJSON(m, r.Details)
	if r.Original != nil {
		x := own(&r.Original)
		x.Parts, x.Details = hideParts(m, x.Parts), hideJSON(m, x.Details)
	}
}

func (d *Decision) hide(m mask.Mask) {
	hide(m, &d.Answer, &d.By.Reason)
	d.By.Subjects = slices.Clone(d.By.Subjects)
	for i := range d.By.Subjects {
		hide(m, &d.By.Subjects[i].Text, &d.By.Subjects[i].Reason)
	}
	d.By.Suggest = slices.Clone(d.By.Suggest)
	for i := range d.By.Suggest {
		hide(m, &d.By.Suggest[i])
	}
}

// HideIn returns messages without secrets, as [Log.Hide] masks them. It changes nothing that it gets.
func HideIn(messages []llm.Message, values []string) []llm.Message {
	m := mask.New(values)
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].Parts = hideParts(m, messages[i].Parts)
	}
	return messages
}

// hideParts returns parts without secrets: the same slice, if they have none. Calls and thinking stay as they are.
func hideParts(m mask.Mask, parts []llm.Part) []llm.Part {
	changed := false
	for i, p := range parts {
		if p.Result != nil {
			r := *p.Result
			if r.Parts = hideParts(m, r.Parts); len(r.Parts) > 0 && &r.Parts[0] != &p.Result.Parts[0] {
				p.Result = &r
			}
		}
		if p.Opaque == "" { // otherwise the provider gets it back as it was
			p.Text = m.Text(p.Text)
		}
		if p.Text == parts[i].Text && p.Result == parts[i].Result {
			continue
		}
		if !changed {
			parts, changed = slices.Clone(parts), true
		}
		parts[i] = p
	}
	return parts
}

func hideProblems(m mask.Mask, problems []knack.Problem) []knack.Problem {
	problems = slices.Clone(problems)
	for i := range problems {
		hide(m, &problems[i].Message, &problems[i].Hint)
	}
	return problems
}

// own makes what p points to a copy of its own.
func own[T any](p **T) *T {
	x := **p
	*p = &x
	return &x
}

func hide(m mask.Mask, texts ...*string) {
	for _, t := range texts {
		*t = m.Text(*t)
	}
}

// hideJSON masks secrets in a JSON value; nil: what is left would be no JSON.
func hideJSON(m mask.Mask, data json.RawMessage) json.RawMessage {
	if len(data) == 0 || !m.In(string(data)) {
		return data
	}
	if data = json.RawMessage(m.Text(string(data))); !json.Valid(data) {
		return nil
	}
	return data
}
