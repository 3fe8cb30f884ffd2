package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// leading returns the definition, of the host or the project, of the agent that leads a session, by its options or the
// settings, and changes the options accordingly. A definition that restricts in a way which a session cannot is an
// error. nil: none leads.
func leading(p *Project, o *SessionOptions) (*agent.Definition, error) {
	set := o.Agent == ""
	if o.Agent = cmp.Or(o.Agent, p.config.Settings.Agent); o.Agent == "" || o.Agent == "none" {
		o.Agent = ""
		return nil, nil
	}
	all := slices.Concat(o.Host.Agents, p.agents)
	i := slices.IndexFunc(all, func(d agent.Definition) bool { return d.Name == o.Agent })
	if i < 0 {
		var names []string
		for _, d := range all {
			names = append(names, d.Name)
		}
		hint := "knack help agents"
		if near := similar.Names(o.Agent, names); len(near) > 0 {
			hint = "--agent " + near[0]
		}
		if set {
			return nil, Usagef(hint+"\n--agent none, to begin without it", "there is no agent %q, which the setting agent names",
				o.Agent)
		}
		return nil, Usagef(hint, "there is no agent %q", o.Agent)
	}
	d := &all[i]
	if d.Unclear != "" {
		return nil, Usagef("knack help agents", "the agent %s cannot lead a session: a restriction in its definition cannot "+
			"be understood (%s)", d.Name, d.Unclear)
	}
	pattern := func(rules []string) bool {
		return slices.ContainsFunc(rules, func(rule string) bool { return strings.Contains(rule, "(") })
	}
	for what, has := range map[string]bool{"isolation": d.Isolated, "hooks": d.Hooks != nil,
		"mcpServers of its own": d.MCPServers != nil,
		"tools with patterns":   pattern(d.Tools) || pattern(d.DisallowedTools)} {
		if has {
			return nil, Usagef("knack help agents", "the agent %s cannot lead a session: it has %s", d.Name, what)
		}
	}
	o.Tools = leadTools(p, d, o.Tools)
	if o.System == "" {
		o.System = d.Prompt
	} else {
		o.Append = append(slices.Clone(o.Append), d.Prompt)
	}
	return d, nil
}

// leadTools returns the tools of a session that an agent leads, for SessionOptions.Tools. given are those that the
// session has without the agent.
func leadTools(p *Project, d *agent.Definition, given string) string {
	var terms []string
	term := func(sign, rule string) {
		terms = append(terms, sign+rule)
		if strings.HasPrefix(rule, "mcp__") && strings.Count(rule, "__") == 1 {
			terms = append(terms, sign+rule+"__*")
		}
	}
	switch {
	case d.Tools == nil:
		terms = append(terms, given)
	default:
		may, _ := tool.Select(p.known().tools, p.known().defaults, coding.Choice(given, p.known().defaults))
		for _, name := range d.Tools {
			t, known := p.known().tools.Find(name)
			if _, ok := may.Find(name); given == "" || !known || ok || t.Name == "Skill" {
				term("", name)
			}
		}
		if terms == nil {
			terms = []string{"none"}
		}
		if !slices.Contains(terms, "Skill") {
			term("-", "Skill")
		}
		for _, server := range d.UsesServers {
			term("", "mcp__"+server)
		}
	}
	for _, rule := range d.DisallowedTools {
		term("-", rule)
	}
	return strings.Trim(strings.Join(terms, ","), ",")
}

// follow applies what the agent that leads the session says about the model, the effort and the mode. What the command
// line says has precedence; a mode only makes the session stricter.
func follow(ctx context.Context, s *Session, d *agent.Definition) error {
	if d == nil {
		return nil
	}
	s.lead = d
	if d.Mode != "" {
		s.gate.SetMode(permission.Stricter(s.gate.Mode(), d.Mode))
	}
	if len(d.Skills) > 0 {
		s.problems = append(s.problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn, Path: d.Path,
			Message: "the skills of the agent " + d.Name + ", which leads the session, are not loaded before they are called"})
	}
	was := s.log.State()
	to := session.Setting{Effort: cmp.Or(s.options.Effort, d.Effort)}
	if s.options.Model == "" && d.Model != "" {
		m, err := s.engine.Models().Default(ctx, d.Model)
		if err == nil {
			err = s.hooks.resumed(ctx, s.log, m.Info(), d.Model)
		}
		if err != nil {
			return fmt.Errorf("agent %s: %w", d.Name, err)
		}
		to.Model = m.Info().ID
	}
	if to.Effort == was.Effort {
		to.Effort = ""
	}
	if to.Model == was.Model {
		to.Model = ""
	}
	if to == (session.Setting{}) {
		return nil
	}
	_, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &to})
	return err
}
