package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm/models"
)

// choose adds an option whose ID is a line to type. If the line ends in a blank, the user still has to
// type the rest.
func choose(q *engine.Question, line, label, help string) {
	q.Options = append(q.Options, engine.Option{ID: line, Label: label, Help: help})
}

// windowSize writes the size of a context window in tokens, such as 200k or 1M.
func windowSize(tokens int) string {
	if tokens >= 1e6 {
		return fmt.Sprintf("%.3gM", float64(tokens)/1e6)
	}
	return plain.Number(tokens/1000) + "k"
}

// Models returns the models of all usable providers, and the current one if it is none of them: the ID of each option
// is its name. It contacts no provider.
func Models(s *engine.Session, now string) (all []engine.Option) {
	m := s.Engine().Models()
	table := models.Known(m.Tables...)
	for _, server := range m.Servers() {
		p, _ := table.Provider(server.Provider)
		for _, name := range table.Names(p) {
			var help []string
			if known, ok := table.Model(p, strings.TrimPrefix(name, p.Name+"/")); ok {
				if known.Window > 0 {
					help = append(help, windowSize(known.Window)+" window")
				}
				if known.Input > 0 {
					help = append(help, fmt.Sprintf("$%g in, $%g out per million tokens", known.Input, known.Output))
				}
			}
			all = append(all, engine.Option{ID: name, Label: name, Help: strings.Join(help, ", ")})
		}
	}
	if !slices.ContainsFunc(all, func(o engine.Option) bool { return o.ID == now }) {
		all = slices.Insert(all, 0, engine.Option{ID: now, Label: now})
	}
	return all
}

// Efforts returns the levels of how hard a model thinks.
func Efforts() (all []engine.Option) {
	for _, level := range []string{"low", "medium", "high", "xhigh", "max"} {
		all = append(all, engine.Option{ID: level, Label: level})
	}
	return all
}

// Modes returns the permission modes that a conversation can change to.
func Modes() (all []engine.Option) {
	for _, m := range []struct {
		mode permission.Mode
		help string
	}{
		{permission.Default, "calls that no rule allows need your approval"},
		{permission.AcceptEdits, "edits in the workspace need no approval"},
		{permission.Plan, "nothing is changed: the model reads and plans"},
		{permission.DontAsk, "what would need approval is refused"},
	} {
		all = append(all, engine.Option{ID: string(m.mode), Label: string(m.mode), Help: m.help})
	}
	return all
}

// typed makes a question of options whose IDs are what is typed after a command.
func typed(title, command, now string, options []engine.Option) *engine.Question {
	q := &engine.Question{Title: title, Current: command + now}
	for _, o := range options {
		choose(q, command+o.ID, o.Label, o.Help)
	}
	return q
}

// modelChoices offers the models of all usable providers.
func modelChoices(s *engine.Session, now string) *engine.Question {
	return typed("Which model?", "/model ", now, Models(s, now))
}

func effortChoices(now string) *engine.Question {
	return typed("How hard should the model think?", "/effort ", now, Efforts())
}

// modeChoices offers the permission modes that a command can set.
func modeChoices(now permission.Mode) *engine.Question {
	return typed("Which permission mode?", "/permissions ", string(now), Modes())
}

// settingChoices offers every setting, with its value if it is set.
func settingChoices(p *engine.Project) *engine.Question {
	set := map[string]string{}
	for _, v := range p.Values() {
		set[v.Key] = string(v.Value)
	}
	q := &engine.Question{Title: "Which setting?"}
	for _, k := range config.Keys() {
		label := k.Name
		if v, ok := set[k.Name]; ok {
			label += " = " + engine.Clip(v, 30)
		}
		if k.Values == nil {
			choose(q, "/settings "+k.Name+" ", label, k.Doc)
			continue
		}
		choose(q, "/settings "+k.Name, label, k.Doc)
	}
	return q
}

// valueChoices offers the values of a setting that allows only a fixed few. It returns nil for other
// settings.
func valueChoices(p *engine.Project, key string) *engine.Question {
	i := slices.IndexFunc(config.Keys(), func(k config.Key) bool { return k.Name == key && k.Values != nil })
	if i < 0 {
		return nil
	}
	q := &engine.Question{Title: key, Text: config.Keys()[i].Doc}
	for _, v := range p.Values() {
		if v.Key == key {
			q.Current = "/settings " + key + " " + strings.Trim(string(v.Value), `"`)
		}
	}
	for _, v := range config.Keys()[i].Values {
		choose(q, "/settings "+key+" "+v, v, "")
	}
	return q
}

// switchSkill returns the command that turns a skill off, or on if it is off; "": no setting can.
func switchSkill(name string, state knack.SkillState) string {
	to := "off"
	switch state {
	case knack.Active, knack.Pinned, knack.NameOnly, knack.UserOnly:
	case knack.Off:
		to = "on"
	default:
		return ""
	}
	return "/settings skills.overrides." + name + " " + to
}

// skillHelp is the row about a skill in a list, in columns: source, state, tokens, description.
func skillHelp(e knack.Candidate, state knack.SkillState) string {
	if state == knack.FeatureOff {
		state = knack.Off
	}
	tokens, summary := "", ""
	if e.Skill != nil {
		tokens, summary = plain.Number(e.Skill.Tokens().Body), e.Skill.Summary()
	}
	tick := " "
	if state == knack.Active || state == knack.Pinned {
		tick = "✓"
	}
	return fmt.Sprintf("%-8s  %s %-8s  %6s tokens  %s", e.Origin.Kind, tick, state, tokens, summary)
}

// showSkill shows a skill and offers the actions for it.
func showSkill(ctx context.Context, s *engine.Session, name string) (engine.Reply, error) {
	if name == "" && s.Interactive() {
		return listSkills(ctx, s, "")
	}
	if name == "" {
		return engine.Reply{}, &engine.Error{Err: errors.New("/skill needs the name of a skill"),
			Hint: "/skills lists them",
			Exit: engine.ExitUsage}
	}
	p, cat := s.Engine().Project(), s.Catalog()
	i := slices.IndexFunc(cat.Candidates(), func(e knack.Candidate) bool { return e.Name() == name })
	if i < 0 {
		err := &engine.Error{Err: fmt.Errorf("there is no skill %q", plain.Line(name)), Hint: "/skills lists them"}
		var names []string
		for _, k := range cat.Skills() {
			names = append(names, k.Name)
		}
		if near := knack.Near(name, names); len(near) > 0 {
			err.Hint = "/skill " + near[0]
		}
		return engine.Reply{}, err
	}
	e := cat.Candidates()[i]
	state := cat.State(e, p.View())
	var b textLines
	b.add("%s: %s", plain.Line(name), plain.Line(skillHelp(e, state)))
	if e.Path != "" {
		b.add("%s", plain.Line(p.Short(e.Path)))
	}
	q := &engine.Question{Title: name, Text: b.text()}
	if e.Skill != nil {
		choose(q, "/"+name+" ", "use it", "puts its name into the prompt")
	}
	choose(q, "/why "+name, "explain it", "why it was or was not loaded, and what it may do")
	override := "/settings skills.overrides." + name + " "
	for _, o := range []struct {
		state       knack.SkillState
		label, help string
	}{
		{knack.Active, "turn it on", "the model may call it"},
		{knack.Pinned, "pin it", "its description is never cut"},
		{knack.NameOnly, "list its name only", "saves the tokens of its description"},
		{knack.UserOnly, "make it user-only", "only you can call it"},
		{knack.Off, "turn it off", "nobody can call it"},
	} {
		value := string(o.state)
		if o.state == knack.Active {
			value = "on"
		}
		if o.state != state {
			choose(q, override+value, o.label, o.help)
		}
	}
	for _, t := range s.Log().State().Texts {
		if t.Skill == name {
			choose(q, "/release "+name, "release its text", plain.Number(t.Tokens)+" tokens of the conversation")
			break
		}
	}
	return engine.Reply{Text: b.text(), Choices: q, Value: skillValue{Name: name, Kind: e.Origin.Kind, State: state,
		Path: e.Path}}, nil
}

// agentChoices offers the agents that a prompt can name.
func agentChoices(all []agentValue, describe map[string]string) *engine.Question {
	q := &engine.Question{Title: "Which agent should work?"}
	for _, a := range all {
		if !a.Shadowed {
			choose(q, engine.MentionPrefix+a.Name+" ", a.Name, cmp.Or(describe[a.Name], string(a.Kind)))
		}
	}
	return q
}
