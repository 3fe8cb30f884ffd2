// Package kits is the part with the command /kit, which lists kits and uses one: see [engine.Kit].
package kits

import (
	"cmp"
	"context"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
)

// Part is the command /kit.
func Part() engine.Part {
	return engine.Part{Name: "kits", Open: func(context.Context, *engine.Conv) (*engine.Live, error) { return nil, nil },
		Commands: []engine.Command{{Name: "kit", Hint: "[NAME]", Description: "list kits, use one, or none: off",
			Run: command, Effect: engine.WithoutArguments(engine.Changes)}}}
}

// off is what stands for no kit.
const off = "off"

// listed is what /kit shows, as data.
type listed struct {
	Kits []engine.Kit `json:"kits"`
	Used string       `json:"used,omitempty"`
	// Problems are about kits that cannot be used.
	Problems []string `json:"problems,omitempty"`
}

func command(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	name := strings.TrimSpace(args)
	if name == "" {
		return list(s.Engine().Project()), nil
	}
	if name == off {
		name = ""
	}
	c, err := engine.UseKit(ctx, s.Engine(), name)
	if err != nil {
		return engine.Reply{}, err
	}
	k := c.New.Brought.Kit
	if k == nil {
		return engine.Reply{Text: "No kit is used: all skills and servers are there again."}, nil
	}
	if k.Model != "" || k.Effort != "" {
		if err := s.Set(ctx, session.Setting{Model: k.Model, Effort: k.Effort}); err != nil {
			return engine.Reply{}, err
		}
	}
	text := "From the next turn on, the kit " + k.Name + " is used: " + describe(k) + "."
	for _, x := range c.New.Problems(s.Catalog()) {
		if x.Path == k.Path {
			text += "\n" + plain.Line(c.New.ShortProblem(x))
		}
	}
	return engine.Reply{Text: text, Value: k}, nil
}

func list(p *engine.Project) engine.Reply {
	all, problems := engine.Kits(p.Brought)
	l := listed{Kits: append([]engine.Kit{}, all...)}
	q := &engine.Question{Title: "Use which kit?"}
	if k := p.Brought.Kit; k != nil {
		l.Used = k.Name
		q.Options = append(q.Options, engine.Option{ID: "/kit " + off, Label: off, Help: "all skills and servers"})
	}
	var lines []string
	for i, k := range all {
		mark := "  "
		if k.Name == l.Used {
			mark = "* "
		}
		help := plain.Line(cmp.Or(k.Description, describe(&all[i])))
		lines = append(lines, mark+k.Name+" ("+plain.Line(k.From)+"): "+help)
		q.Options = append(q.Options, engine.Option{ID: "/kit " + k.Name, Label: k.Name, Help: help})
	}
	if lines == nil && problems != nil {
		lines = append(lines, "No kit can be used.")
	} else if lines == nil {
		lines = append(lines, "There are no kits. One is a file kits/NAME.json in your configuration, in .knack of the "+
			"project, or of a plugin: knack help skills")
	}
	untrusted := false
	for _, x := range problems {
		text := plain.Line(p.ShortProblem(x))
		l.Problems, lines = append(l.Problems, text), append(lines, text)
		untrusted = untrusted || x.Code == knack.CodeUntrusted || x.Code == knack.CodeChanged
	}
	if untrusted {
		lines = append(lines, "/trust shows what is not trusted, and asks. If you have trusted it elsewhere, type /reload.")
	}
	r := engine.Reply{Text: strings.Join(lines, "\n"), Value: l}
	if len(q.Options) > 0 {
		q.Text, r.Choices = r.Text, q
	}
	return r
}

// describe says in a few words what a kit has.
func describe(k *engine.Kit) string {
	var parts []string
	add := func(what string, names []string) {
		switch {
		case names == nil:
		case len(names) == 0:
			parts = append(parts, "no "+what)
		default:
			parts = append(parts, what+" "+plain.List(names, 5))
		}
	}
	add("skills", k.Skills)
	add("servers", k.Servers)
	if k.Model != "" {
		parts = append(parts, "model "+k.Model)
	}
	if k.Effort != "" {
		parts = append(parts, "effort "+k.Effort)
	}
	if n := len(k.Rules.Ask) + len(k.Rules.Deny); n > 0 {
		parts = append(parts, plain.Count(n, "rule"))
	}
	return plain.Line(cmp.Or(strings.Join(parts, ", "), "everything"))
}
