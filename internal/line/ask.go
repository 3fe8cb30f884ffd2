package line

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/permission"
)

// Ask puts a question to the user. It is the Person of the session.
func (f *Front) Ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	if q.URL != "" {
		return engine.Answer{}, engine.ErrCannot
	}
	if !f.there(ctx) {
		return engine.Answer{}, context.Cause(ctx)
	}
	defer f.screen.Unlock()
	f.fresh()
	switch {
	case q.Call != nil:
		return f.approve(ctx, q)
	case len(q.Fields) > 0:
		return f.fill(q)
	}
	f.title(q.Text, q.Title)
	s, err := f.pick(q.Options)
	return engine.Answer{Option: s, Declined: s == ""}, err
}

func (f *Front) title(text, title string) {
	if text != "" {
		fmt.Fprintln(f.Out, wrap(plain.Text(text), f.width()))
	}
	fmt.Fprintf(f.Out, "%s %s\n", f.paint(yellow, "?"), plain.Text(title))
}

// pick lets the user choose an option by its number, its label or its ID. ""
// means that what they typed is none.
func (f *Front) pick(options []engine.Option) (id string, err error) {
	for i, o := range options {
		fmt.Fprintf(f.Out, "  %s %s\n", f.paint(bold, fmt.Sprint(i+1)), plain.Line(o.Label))
	}
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
	return "", nil
}

// fill asks for one field after the other.
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
			value = json.RawMessage(text)
		}
		a.Values[field.Name] = value
	}
	return a, nil
}

func (f *Front) field(q engine.Field) (string, error) {
	if q.Type == engine.FieldSecret {
		return f.read.secret(plain.Line(q.Label) + ": ")
	}
	f.title(q.Help, q.Label)
	for i, o := range q.Options {
		fmt.Fprintf(f.Out, "  %s %s\n", f.paint(bold, fmt.Sprint(i+1)), plain.Line(o.Label))
	}
	s, err := f.answer("  : ")
	if err != nil {
		return "", err
	}
	s = strings.TrimSpace(s)
	for i, o := range q.Options {
		if s == fmt.Sprint(i+1) {
			return o.ID, nil
		}
	}
	if s == "" {
		return q.Default, nil
	}
	return s, nil
}

// approve asks whether a call may run.
func (f *Front) approve(ctx context.Context, q engine.Question) (engine.Answer, error) {
	r := q.Call
	who := r.Tool
	if r.Agent != "" {
		who += ", agent " + r.Agent
	}
	fmt.Fprintf(f.Out, "%s %s\n", f.paint(yellow, "May this run?"), f.paint(bold, plain.Line(who)))
	for _, s := range r.Decision.Subjects {
		mark := "  "
		if s.Verdict != permission.Allow {
			mark = f.paint(yellow, "? ")
		}
		why := cmp.Or(s.Reason, s.Rule)
		fmt.Fprintf(f.Out, "  %s%s %s", mark, s.Kind, plain.Line(clip(s.Text, 300)))
		if why != "" && s.Verdict != permission.Allow {
			fmt.Fprintf(f.Out, "  %s", f.paint(dim, plain.Line(why)))
		}
		io.WriteString(f.Out, "\n")
	}
	if why := r.Decision.Reason; why != "" && !slices.ContainsFunc(r.Decision.Subjects, func(s permission.Judged) bool { return s.Reason == why }) {
		fmt.Fprintf(f.Out, "  %s\n", f.paint(dim, plain.Line(clip(why, 300)))) // a hook's, or a changed file's
	}
	for _, file := range r.Files {
		what := "would run"
		if file.Changed {
			what = "has changed since it was allowed"
		}
		fmt.Fprintf(f.Out, "  %s %s\n", plain.Line(file.Path), f.paint(dim, what))
	}
	rules := plain.Line(strings.Join(r.Rules, ", "))
	letters := map[string]string{}
	for _, o := range q.Options {
		switch o.Lasts {
		case gate.Once:
			letters["y"] = o.ID
			fmt.Fprintf(f.Out, "  %s yes, this once\n", f.paint(bold, "y"))
		case gate.Session:
			letters["s"] = o.ID
			fmt.Fprintf(f.Out, "  %s yes, in this session: %s\n", f.paint(bold, "s"), rules)
		case gate.Always:
			letters["a"] = o.ID
			fmt.Fprintf(f.Out, "  %s always: %s\n", f.paint(bold, "a"), rules)
		}
	}
	fmt.Fprintf(f.Out, "  %s no    %s no, because …\n", f.paint(bold, "n"), f.paint(bold, "n why"))
	for {
		if ctx.Err() != nil {
			return engine.Answer{}, context.Cause(ctx)
		}
		s, err := f.answer("  ? ")
		if err != nil {
			return engine.Answer{}, err
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
		if word == "n" || word == "no" {
			return engine.Answer{Declined: true, Reason: strings.TrimSpace(rest)}, nil
		}
		if c, ok := letters[word]; ok && rest == "" {
			return engine.Answer{Option: c}, nil
		}
		fmt.Fprintln(f.Out, "  Please type one of the letters above.")
	}
}
