package line

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// Ask asks the user a question. It implements [engine.Person].
func (f *Front) Ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	if !f.lockScreen(ctx) {
		return engine.Answer{}, context.Cause(ctx)
	}
	defer f.screen.Unlock()
	f.open()
	f.endAnswer()
	f.read.until = ctx.Done()
	defer func() { f.read.until = nil }()
	a, err := f.question(ctx, q)
	if errors.Is(err, errCancelled) {
		err = context.Cause(ctx)
	}
	return a, err
}

func (f *Front) question(ctx context.Context, q engine.Question) (engine.Answer, error) {
	f.read.discard()
	if q.Call != nil {
		return f.approve(ctx, q)
	}
	_, server := q.Asker.Server()
	if server {
		f.serverAsks(q)
	} else if q.Asker == engine.AskerPlan {
		f.print(markdown.Render(q.Text, f.columns())...)
		f.title("", q.Title)
	} else if q.URL != "" || len(q.Fields) == 0 || q.Asker == engine.AskerSecrets {
		f.title(q.Text, q.Title)
	}
	for _, d := range q.Documents {
		fmt.Fprintf(f.Out, "    %s\n", strings.TrimSuffix(plain.Line(d.Title)+": "+plain.Line(d.Help), ": "))
		for _, l := range wrap(d.Text, max(f.columns()-6, 20)) {
			f.print(append(styled.S(styled.Text, "      "), l...))
		}
	}
	if q.URL != "" { // in one piece, so that the terminal can open it
		fmt.Fprintf(f.Out, "    %s\n", plain.Line(q.URL))
	}
	if len(q.Fields) > 0 {
		return f.fill(q)
	}
	s, err := f.pick(q.Options)
	a := engine.Answer{Option: s, Declined: s == ""}
	for _, o := range q.Options {
		if err == nil && o.ID == s && o.Ask != "" {
			a.Reason, err = f.answer("  " + plain.Line(o.Ask) + " ")
		}
	}
	return a, err
}

// serverAsks names the MCP server that asks, and shows its text indented, so that it does not
// look like a question from Knack.
func (f *Front) serverAsks(q engine.Question) {
	fmt.Fprintf(f.Out, "%s %s %s\n", f.paint(yellow, "?"), plain.Line(q.Title), f.paint(dim, "(Ctrl-D: no answer)"))
	for _, l := range wrap(strings.TrimSpace(q.Text), max(f.columns()-4, 20)) {
		f.print(append(styled.S(styled.Text, "    "), l...))
	}
}

func (f *Front) title(text, title string) {
	if text != "" {
		f.text(text)
	}
	fmt.Fprintf(f.Out, "%s %s\n", f.paint(yellow, "?"), plain.Text(title))
}

// pick lets the user choose an option by its number, its label, its ID or the first letter of
// its ID. It asks again for other text, and returns "" for an empty line.
func (f *Front) pick(options []engine.Option) (id string, err error) {
	for i, o := range options {
		help := ""
		if o.Help != "" {
			help = f.paint(dim, "  "+plain.Line(o.Help))
		}
		fmt.Fprintf(f.Out, "  %s %s%s\n", f.paint(bold, fmt.Sprint(i+1)), plain.Line(o.Label), help)
	}
	for {
		s, err := f.answer("  : ")
		if err != nil {
			return "", err
		}
		s = strings.TrimSpace(s)
		for i, o := range options {
			if s == fmt.Sprint(i+1) || s == o.ID || s == o.Label || s != "" && s == o.ID[:1] {
				return o.ID, nil
			}
		}
		if s == "" {
			return "", nil
		}
		fmt.Fprintf(f.Out, "  Type a number from 1 to %d.\n", len(options))
	}
}

// fill asks for the fields one after the other.
func (f *Front) fill(q engine.Question) (engine.Answer, error) {
	a := engine.Answer{Values: map[string]json.RawMessage{}}
	for _, field := range q.Fields {
		text, err := f.field(field)
		if err != nil {
			return engine.Answer{}, err
		}
		value, err := json.Marshal(text)
		if err != nil {
			return engine.Answer{}, err
		}
		if field.Type == engine.FieldNumber || field.Type == engine.FieldBool {
			if value = json.RawMessage(text); text == "" { // skipped
				continue
			}
		}
		if field.Many {
			value, err = json.Marshal(several(field, text))
			if err != nil {
				return engine.Answer{}, err
			}
		}
		a.Values[field.Name] = value
	}
	return a, nil
}

// several splits an answer such as "1, 3" into the options that it picks; other text is a
// value of its own.
func several(q engine.Field, text string) []string {
	var all []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		if i, err := strconv.Atoi(word); err == nil && i >= 1 && i <= len(q.Options) {
			word = q.Options[i-1].ID
		}
		all = append(all, word)
	}
	return all
}

func (f *Front) field(q engine.Field) (string, error) {
	f.read.discard()
	if q.Type == engine.FieldSecret {
		if q.Help != "" {
			f.text("  " + q.Help)
		}
		return f.read.secret(plain.Line(q.Label) + ": ")
	}
	f.title(q.Help, q.Label)
	if q.Type == engine.FieldBool {
		q.Options = []engine.Option{{ID: "true", Label: "yes"}, {ID: "false", Label: "no"}}
	}
	for i, o := range q.Options {
		help := ""
		if o.Help != "" {
			help = f.paint(dim, "  "+plain.Line(o.Help))
		}
		fmt.Fprintf(f.Out, "  %s %s%s\n", f.paint(bold, fmt.Sprint(i+1)), plain.Line(o.Label), help)
	}
	if q.Other {
		how := cmp.Or(q.OtherHelp, "type it")
		fmt.Fprintf(f.Out, "  %s %s  %s\n", f.paint(bold, "…"), plain.Line(strings.TrimSuffix(cmp.Or(q.OtherLabel, "something else"),
			" …")), f.paint(dim, plain.Line(how)))
	}
	if q.Default != "" {
		fmt.Fprintf(f.Out, "  Enter: %s\n", plain.Line(q.Default))
	}
	for {
		s, err := f.answer("  : ")
		if err != nil {
			return "", err
		}
		value, problem := valueOf(q, s)
		if problem == "" {
			return value, nil
		}
		fmt.Fprintf(f.Out, "  %s\n", problem)
	}
}

// valueOf returns the value that a typed line means for a field, or why it means none.
func valueOf(q engine.Field, s string) (value, problem string) {
	s = cmp.Or(strings.TrimSpace(s), q.Default)
	if s == "" || q.Many {
		return s, ""
	}
	for i, o := range q.Options {
		if s == fmt.Sprint(i+1) || s == o.ID || strings.EqualFold(s, o.Label) ||
			q.Type == engine.FieldBool && strings.EqualFold(s, o.Label[:1]) {
			return o.ID, ""
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case len(q.Options) > 0 && !q.Other:
		return "", fmt.Sprintf("Type a number from 1 to %d.", len(q.Options))
	case q.Type != engine.FieldNumber:
		return s, ""
	case err != nil || !json.Valid([]byte(s)): // such as 0x1p-2
		return "", "Type a number."
	case q.Min != nil && n < *q.Min, q.Max != nil && n > *q.Max:
		return "", "The number is out of range."
	}
	return s, ""
}
