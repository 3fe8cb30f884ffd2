package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/project/config"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
)

func setModel(ctx context.Context, s *Session, name string) (Reply, error) {
	if name != "" {
		if err := s.set(ctx, session.Setting{Model: name}); err != nil {
			return Reply{}, err
		}
	}
	m, err := s.Model(ctx)
	if err != nil {
		return Reply{}, err
	}
	now := cmp.Or(s.log.State().Model, m.Info().ID)
	r := Reply{Text: plain.Line(now), Value: map[string]string{"model": now}}
	if name == "" {
		r.Choices = s.modelChoices(now)
	}
	return r, nil
}

func checkEffort(level string) error {
	if level == session.DefaultEffort {
		return nil
	}
	value, err := json.Marshal(level)
	if err != nil {
		return err
	}
	return config.Check("effort", value)
}

func setEffort(ctx context.Context, s *Session, level string) (Reply, error) {
	if level != "" {
		if err := s.Set(ctx, session.Setting{Effort: level}); err != nil {
			return Reply{}, err
		}
	}
	now := s.effort()
	var choices *Question
	if level == "" {
		choices = effortChoices(now)
	}
	return Reply{Choices: choices, Text: cmp.Or(now, "the model's own; low, medium, high, xhigh, max or a number of "+
		"thinking tokens"),
		Value: map[string]string{"effort": now}}, nil
}

// settingValue is a setting with the places that set it.
type settingValue struct {
	Key       string            `json:"key"`
	Value     json.RawMessage   `json:"value"`
	Positions []config.Position `json:"places"`
}

func settings(ctx context.Context, s *Session, args string) (Reply, error) {
	p := s.engine.Project()
	key, value, _ := strings.Cut(args, " ")
	if value = strings.TrimSpace(value); value != "" {
		if key == "model" {
			if _, err := s.resolve(ctx, strings.Trim(value, `"`)); err != nil {
				return Reply{}, err
			}
		}
		r, err := p.Set(key, value)
		if err != nil {
			return r, err
		}
		if _, err := s.engine.Reload(ctx); err != nil {
			return r, fmt.Errorf("the setting was stored, but settings cannot be read again: %w", err)
		}
		return r, nil
	}
	var b textLines
	found := []settingValue{}
	for _, v := range p.config.Values() {
		if key != "" && v.Key != key && !strings.HasPrefix(v.Key, key+".") {
			continue
		}
		found = append(found, settingValue{v.Key, v.JSON, v.Positions})
		b.add("%s", p.formatSetting(v))
	}
	switch {
	case len(found) > 0:
	case key == "":
		b.add("no setting is set; knack help settings lists them all")
	default:
		if err := config.Known(key); err != nil {
			return Reply{}, &Error{Err: err, Hint: "knack help settings"}
		}
		b.add("%s is not set", plain.Line(key))
	}
	r := Reply{Text: b.text(), Value: found}
	if r.Choices = p.valueChoices(key); key == "" {
		r.Choices = p.settingChoices()
	}
	return r, nil
}

// Set writes a setting into the user's own file; [Engine.Reload] reads it.
func (p *Project) Set(key, value string) (Reply, error) {
	data := json.RawMessage(value)
	if !json.Valid(data) { // quote a plain word
		data, _ = json.Marshal(value)
	}
	if err := config.Check(key, data); err != nil {
		return Reply{}, &Error{Err: err, Hint: "knack help settings", Exit: ExitUsage}
	}
	if p.options.Env.ConfigDir() == "" {
		return Reply{}, ErrNoState("the setting was not stored")
	}
	path := filepath.Join(p.options.Env.ConfigDir(), "settings.json")
	if err := config.Set(path, key, data); err != nil {
		return Reply{}, err
	}
	return Reply{Text: fmt.Sprintf("%s = %s\n    in %s; settings of workspace, sandbox and tools take effect at the "+
		"next start, all others now", plain.Line(key), plain.Line(string(data)), plain.Line(p.Short(path))),
		Value: settingValue{Key: key, Value: data, Positions: []config.Position{{Origin: permission.User, Path: path}}}}, nil
}

// formatSetting describes a setting and the places that set it.
func (p *Project) formatSetting(v config.Value) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %s", v.Key, plain.Line(string(v.JSON)))
	var values []string
	for _, x := range v.Positions {
		if at := "\n    " + p.formatPosition(x); !slices.Contains(values, at) {
			values = append(values, at)
			b.WriteString(at)
		}
	}
	return b.String()
}

// formatPosition describes where the value of a setting comes from.
func (p *Project) formatPosition(x config.Position) string {
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

func permissions(ctx context.Context, s *Session, mode string) (Reply, error) {
	if mode != "" {
		if err := s.set(ctx, session.Setting{Mode: permission.Mode(mode)}); err != nil {
			return Reply{}, err
		}
		return Reply{Text: "mode: " + string(s.gate.Mode()), Value: permissionsValue{Mode: s.gate.Mode(),
			Rules: []ruleValue{}}}, nil
	}
	p := s.engine.Project()
	v := permissionsValue{Mode: s.gate.Mode(), Ceiling: string(p.config.Settings.Skills.EnforceAllowedTools),
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
	for _, kind := range []struct {
		name  string
		rules []permission.Rule
	}{{"deny", p.config.Rules.Deny}, {"ask", p.config.Rules.Ask}, {"allow", p.config.Rules.Allow}} {
		places := p.config.Where("permissions." + kind.name)
		for i, r := range kind.rules {
			from := ""
			if i < len(places) {
				from = p.formatPosition(places[i])
			}
			add(kind.name, r.String(), from, "%-5s %s")
		}
	}
	for _, r := range s.gate.KeptRules() {
		add("allow", r.String(), "answered always", "%s %s")
	}
	for _, r := range s.gate.SessionRules() {
		add("allow", r.String(), "answered for this session", "%s %s")
	}
	for _, k := range s.log.State().Scopes {
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
	return Reply{Text: b.text(), Value: v, Choices: choices}, nil
}

// reload implements /reload: it reads everything again. On an error nothing changes.
func reload(ctx context.Context, s *Session, _ string) (Reply, error) {
	c, err := s.engine.Reload(ctx)
	if err != nil {
		return Reply{}, fmt.Errorf("nothing was changed: %w", err)
	}
	_, was := s.systemText()
	problems := len(s.Problems())
	s.setSystem(c.New)
	_, now := s.systemText()
	r := s.reloadReply(c)
	name := func(d agent.Document) (string, string) { return c.New.Short(d.Path), d.Text }
	r.Text += "\ncontext files: " + difference(was, now, name)
	for _, x := range s.Problems()[problems:] {
		r.Text += fmt.Sprintf("\n%s: %s", x.Severity, c.New.ShortProblem(x))
	}
	return r, nil
}

// reloadReply describes the changes of a reload.
func (s *Session) reloadReply(c Reloaded) Reply {
	was, now := c.Old, c.New
	var b textLines
	b.add("skills: %s", difference(c.OldSkills, c.NewSkills, func(k *knack.Skill) (string, string) {
		return k.Name,
			k.ID + "\x00" + k.Summary()
	}))
	b.add("templates: %s", difference(was.templates, now.templates, func(c knack.SlashCommand) (string, string) {
		return c.Name, c.Source + "\x00" + c.Description + "\x00" + c.Hint
	}))
	b.add("agents: %s", difference(was.agents, now.agents, func(d agent.Definition) (string, string) {
		text, _ := json.Marshal(d)
		return d.Name, string(text)
	}))
	b.add("settings: %s; changes to workspace, sandbox and tools take effect at the next start, all others now",
		difference(was.config.Values(), now.config.Values(), func(v config.Value) (string, string) {
			return v.Key,
				string(v.JSON)
		}))
	bad := slices.DeleteFunc(now.Problems(s.Catalog()),
		func(p knack.Problem) bool { return p.Severity == knack.Info })
	for i, x := range bad {
		if i == 5 {
			b.add("and %s: knack skill list --all", plain.Count(len(bad)-i, "more problem"))
			break
		}
		b.add("%s: %s", x.Severity, now.ShortProblem(x))
	}
	return Reply{Text: b.text(), Value: map[string]any{"skills": len(c.NewSkills), "templates": len(now.templates),
		"agents": len(now.agents), "problems": bad}}
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
