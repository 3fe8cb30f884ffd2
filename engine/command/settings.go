package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

func setModel(ctx context.Context, s *engine.Session, name string) (engine.Reply, error) {
	if name != "" {
		if err := s.SetTyped(ctx, session.Setting{Model: name}); err != nil {
			return engine.Reply{}, err
		}
	}
	m, err := s.Model(ctx)
	if err != nil {
		return engine.Reply{}, err
	}
	now := cmp.Or(s.Log().State().Model, m.Info().ID)
	r := engine.Reply{Text: plain.Line(now), Value: map[string]string{"model": now}}
	if name == "" {
		r.Choices = modelChoices(s, now)
	}
	return r, nil
}

func setEffort(ctx context.Context, s *engine.Session, level string) (engine.Reply, error) {
	if level != "" {
		if err := s.Set(ctx, session.Setting{Effort: level}); err != nil {
			return engine.Reply{}, err
		}
	}
	now := s.Now().Effort()
	var choices *engine.Question
	if level == "" {
		choices = effortChoices(now)
	}
	return engine.Reply{Choices: choices, Text: cmp.Or(now,
		"the model's own; low, medium, high, xhigh, max or a number of "+
			"thinking tokens"),
		Value: map[string]string{"effort": now}}, nil
}

func settingsEffect(_ permission.Mode, args string) engine.Effect {
	if _, value, _ := strings.Cut(args, " "); strings.TrimSpace(value) != "" {
		return engine.Stores
	}
	return engine.Shows
}

// Settings is the reply of /settings. args is a key and a value to set, a key or the beginning of keys to show, or "".
func Settings(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	p := s.Engine().Project()
	key, value, _ := strings.Cut(args, " ")
	if value = strings.TrimSpace(value); value != "" {
		if key == "model" {
			if _, err := s.FindModel(ctx, strings.Trim(value, `"`)); err != nil {
				return engine.Reply{}, err
			}
		}
		stored, err := p.Set(key, value)
		if err != nil {
			return engine.Reply{}, err
		}
		if _, err := s.Engine().Reload(ctx); err != nil {
			return engine.Reply{}, fmt.Errorf("the setting was stored, but settings cannot be read again: %w", err)
		}
		return engine.Reply{Text: storedText(p, stored), Value: stored}, nil
	}
	var b textLines
	found := []engine.Setting{}
	for _, v := range p.Values() {
		if key != "" && v.Key != key && !strings.HasPrefix(v.Key, key+".") {
			continue
		}
		found = append(found, v)
		b.add("%s", formatSetting(p, v))
	}
	switch {
	case len(found) > 0:
	case key == "":
		b.add("No setting is set. knack help settings lists them.")
	default:
		if err := config.Known(key); err != nil {
			return engine.Reply{}, &engine.Error{Err: err, Hint: "knack help settings"}
		}
		b.add("%s is not set", plain.Line(key))
	}
	r := engine.Reply{Text: b.text(), Value: found}
	if r.Choices = valueChoices(p, key); key == "" {
		r.Choices = settingChoices(p)
	}
	return r, nil
}

// storedText says where a setting was stored, and from when it counts.
func storedText(p *engine.Project, v engine.Setting) string {
	return fmt.Sprintf("%s = %s\n    in %s; settings of workspace, sandbox and tools take effect at the next start, all "+
		"others now", plain.Line(v.Key), plain.Line(string(v.Value)), plain.Line(p.Short(v.Positions[0].Path)))
}

// formatSetting describes a setting and the places that set it.
func formatSetting(p *engine.Project, v engine.Setting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %s", v.Key, plain.Line(string(v.Value)))
	var values []string
	for _, x := range v.Positions {
		if at := "\n    " + formatPosition(p, x); !slices.Contains(values, at) {
			values = append(values, at)
			b.WriteString(at)
		}
	}
	return b.String()
}

// formatPosition describes where the value of a setting comes from.
func formatPosition(p *engine.Project, x engine.SettingPosition) string {
	if x.Path == "command line" {
		return x.Path
	}
	at := plain.Line(p.Short(x.Path))
	if x.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, x.Line)
	}
	return string(x.Origin) + ", " + at
}

// permissionsValue is the JSON form of what decides on tool calls.
type permissionsValue struct {
	Mode    permission.Mode `json:"mode"`
	Ceiling string          `json:"enforceAllowedTools,omitempty"`
	Rules   []ruleValue     `json:"rules"`
}

type ruleValue struct {
	Verdict string `json:"verdict"`
	Rule    string `json:"rule"`
	From    string `json:"from,omitempty"`
}

func modeEffect(now permission.Mode, mode string) engine.Effect {
	if mode == "" {
		return engine.Shows
	}
	return engine.ModeEffect(now, permission.Mode(mode))
}

func permissions(ctx context.Context, s *engine.Session, mode string) (engine.Reply, error) {
	if mode != "" {
		if err := s.SetTyped(ctx, session.Setting{Mode: permission.Mode(mode)}); err != nil {
			return engine.Reply{}, err
		}
		return engine.Reply{Text: "mode: " + string(s.Mode()), Value: permissionsValue{Mode: s.Mode(),
			Rules: []ruleValue{}}}, nil
	}
	p := s.Engine().Project()
	v := permissionsValue{Mode: s.Mode(), Ceiling: p.Settings().EnforceAllowedTools,
		Rules: []ruleValue{}}
	var b textLines
	b.add("mode: %s", v.Mode)
	if v.Ceiling != "" {
		b.add("skills.enforceAllowedTools: %s", v.Ceiling)
	}
	add := func(verdict, rule, from, format string) {
		v.Rules = append(v.Rules, ruleValue{verdict, rule, from})
		text := fmt.Sprintf(format, verdict, plain.Line(rule))
		if from != "" {
			text += "  (" + from + ")"
		}
		b.add("%s", text)
	}
	rules := p.Rules()
	for _, kind := range []struct {
		name  string
		rules []permission.Rule
	}{{"deny", rules.Deny}, {"ask", rules.Ask}, {"allow", rules.Allow}} {
		places := p.Where("permissions." + kind.name)
		for i, r := range kind.rules {
			from := ""
			if i < len(places) {
				from = formatPosition(p, places[i])
			}
			add(kind.name, r.String(), from, "%-5s %s")
		}
	}
	kept, answered := s.Answers()
	for _, r := range kept {
		add("allow", r.String(), "answered always", "%s %s")
	}
	for _, r := range answered {
		add("allow", r.String(), "answered for this session", "%s %s")
	}
	for _, k := range s.Log().State().Scopes {
		for _, r := range k.Grants {
			if slices.Contains(k.Ignored, r) {
				continue
			}
			add("allow", r, fmt.Sprintf("skill %s, this turn", plain.Line(k.Skill)), "%s %s")
		}
	}
	b.add("Secrets and protected paths also need approval; reading files here needs no rule: knack help permissions.")
	choices := modeChoices(v.Mode)
	choices.Text = b.text()
	return engine.Reply{Text: b.text(), Value: v, Choices: choices}, nil
}

// reload implements /reload: it reads everything again. On an error nothing changes.
func reload(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	c, err := s.Reload(ctx)
	if err != nil {
		return engine.Reply{}, fmt.Errorf("nothing was changed: %w", err)
	}
	r := reloadReply(s, c)
	name := func(d agent.Document) (string, string) { return c.New.Short(d.Path), d.Text }
	r.Text += "\ncontext files: " + difference(c.OldContext, c.NewContext, name)
	for _, x := range c.Problems {
		r.Text += fmt.Sprintf("\n%s: %s", x.Severity, c.New.ShortProblem(x))
	}
	return r, nil
}

// reloadReply describes the changes of a reload.
func reloadReply(s *engine.Session, c engine.Reloaded) engine.Reply {
	was, now := c.Old, c.New
	var b textLines
	b.add("skills: %s", difference(c.OldSkills, c.NewSkills, func(k *knack.Skill) (string, string) {
		return k.Name,
			k.ID + "\x00" + k.Summary()
	}))
	b.add("templates: %s", difference(was.Templates(), now.Templates(), func(c knack.SlashCommand) (string, string) {
		return c.Name, c.Source + "\x00" + c.Description + "\x00" + c.Hint
	}))
	b.add("agents: %s", difference(was.Agents(), now.Agents(), func(d agent.Definition) (string, string) {
		text, _ := json.Marshal(d)
		return d.Name, string(text)
	}))
	beside := func(what string, was, now [][2]string) {
		text := difference(was, now, func(v [2]string) (string, string) { return v[0], v[1] })
		if _, changes, _ := strings.Cut(text, ", "); changes != "" {
			b.add("%s: %s", what, changes)
		}
	}
	beside("tools", toolTexts(c.Tools.Old), toolTexts(c.Tools.New))
	beside("commands", commandTexts(was), commandTexts(now))
	settings := difference(was.Values(), now.Values(), func(v engine.Setting) (string, string) {
		return v.Key, string(v.Value)
	})
	if strings.Contains(settings, ",") { // tools of the project work at once, so nothing is said where nothing changed
		settings += "; settings of workspace, sandbox and built-in tools take effect at the next start, all others now"
	}
	b.add("settings: %s", settings)
	bad := slices.DeleteFunc(now.Problems(s.Catalog()),
		func(p knack.Problem) bool { return p.Severity == knack.Info })
	for i, x := range bad {
		if i == 5 {
			b.add("and %s: knack skill list --all", plain.Count(len(bad)-i, "more problem"))
			break
		}
		b.add("%s: %s", x.Severity, now.ShortProblem(x))
	}
	return engine.Reply{Text: b.text(), Value: map[string]any{"skills": len(c.NewSkills),
		"templates": len(now.Templates()),
		"agents":    len(now.Agents()), "problems": bad}}
}

// toolTexts returns the names of tools, each with what its user can see of it.
func toolTexts(set []tool.Tool) (all [][2]string) {
	for _, t := range set {
		all = append(all, [2]string{t.Name, t.Description + "\x00" + string(t.Schema)})
	}
	return all
}

// commandTexts returns the names of a project's commands, each with its description.
func commandTexts(p *engine.Project) (all [][2]string) {
	for _, c := range p.Commands() {
		all = append(all, [2]string{c.Name, c.Description})
	}
	return all
}

// difference describes how many items there are now, and which were added, changed or removed.
func difference[T any](was, now []T, of func(T) (name, text string)) string {
	before := map[string]string{}
	for _, v := range was {
		name, text := of(v)
		before[name] = text
	}
	out := fmt.Sprint(len(now))
	for _, v := range now {
		name, text := of(v)
		old, ok := before[name]
		delete(before, name)
		switch {
		case !ok:
			out += ", new " + plain.Line(name)
		case old != text:
			out += ", changed " + plain.Line(name)
		}
	}
	for _, v := range was {
		if name, _ := of(v); before[name] != "" {
			out += ", removed " + plain.Line(name)
		}
	}
	return out
}
