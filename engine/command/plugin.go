package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func pluginEffect(_ permission.Mode, args string) engine.Effect {
	switch f := strings.Fields(args); {
	case len(f) == 0:
		return engine.Shows
	case f[0] == "add": // the page of what it brings asks
		return engine.Changes
	}
	return engine.Stores
}

// plugins lists the plugins, adds one, or switches one on or off for all later sessions.
func plugins(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	p := s.Engine().Project().Plugins()
	if f := strings.Fields(args); len(f) > 0 {
		if source, ok := strings.CutPrefix(strings.TrimSpace(args), "add "); ok {
			return addPlugin(ctx, s, strings.TrimSpace(source))
		}
		if len(f) != 2 || f[1] != "on" && f[1] != "off" {
			return engine.Reply{}, engine.Usagef("", "/plugin, /plugin add SOURCE, or /plugin NAME@MARKETPLACE on or off")
		}
		set, err := p.Enable(f[0], f[1] == "on")
		if err != nil {
			return engine.Reply{}, err
		}
		if _, err := s.Engine().Reload(ctx); err != nil {
			return engine.Reply{}, fmt.Errorf("the setting was stored, but settings cannot be read again: %w", err)
		}
		return engine.Reply{Text: plain.Line(f[0]) + " is " + f[1], Value: set}, nil
	}
	all, err := p.List()
	if err != nil {
		return engine.Reply{}, err
	}
	t := engine.Table{Rows: [][]string{{"PLUGIN", "STATE", "BRINGS", "DESCRIPTION"}}}
	q := &engine.Question{Title: "Plugins (enter switches)"}
	for _, x := range all {
		state, other := "off", "on"
		switch {
		case x.Used:
			state, other = "on", "off"
		case x.Enabled:
			state, other = "not used: knack skill verify", "off"
		}
		t.Rows = append(t.Rows, []string{plain.Line(x.ID), state, x.Brings, plain.Line(x.Description)})
		choose(q, "/plugin "+x.ID+" "+other, plain.Line(x.ID)+" ("+state+")", strings.Trim(x.Brings+": "+plain.Line(
			x.Description), ": "))
	}
	return engine.Reply{Table: &t, Value: all, Choices: q}, nil
}

// addPlugin installs a plugin after a question that shows what it brings, and loads the project again.
func addPlugin(ctx context.Context, s *engine.Session, source string) (engine.Reply, error) {
	p := s.Engine().Project()
	x, err := installer.New(p, installer.AskPerson(s.Ask))
	if err != nil {
		return engine.Reply{}, err
	}
	var told []string
	x.Tell = func(line string) { told = append(told, line) }
	id, err := x.Plugin(ctx, source, installer.UserScope(p.Env()))
	if err != nil || id == "" {
		return engine.Reply{Text: "Nothing was installed."}, err
	}
	if _, err := s.Engine().Reload(ctx); err != nil {
		return engine.Reply{}, fmt.Errorf("%s is installed, but settings cannot be read again: %w", plain.Line(id), err)
	}
	return engine.Reply{Text: strings.Join(append(told, plain.Line(id)+" is installed, and on"), "\n"), Value: id}, nil
}
