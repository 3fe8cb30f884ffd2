package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/tool/coding"
)

// forker makes the Fork of an agent whose calls pass the gate parent.
func (t *turn) forker(parent *gate.Gate) func(context.Context, *agent.Definition) (*agent.Agent, *session.Log, error) {
	s, p := t.session, t.project
	return func(_ context.Context, d *agent.Definition) (*agent.Agent, *session.Log, error) {
		log, err := s.agentLog(p)
		if err != nil {
			return nil, nil, err
		}
		mode := func(m permission.Mode) permission.Mode { return p.modeOf(m, d) }
		g := parent.Fork(d.Name, mode, p.audit(log))
		o := s.coding
		o.State = s.read.Fork()
		a := *t.agent
		prompt := agent.Prompt{Custom: cmp.Or(d.Prompt, "You are "+d.Name+"."), Context: s.context, Date: time.Now(),
			Dir: s.ws.Dir()}
		if p.view.Index && (d.Tools == nil || names(d.Tools, "Skill")) && reads(t.agent.Tools, d) {
			prompt.Index = s.engine.index(s.viewOf(p))
		}
		a.System = prompt.String()
		a.Tools = slices.Concat(coding.Tools(s.ws, o), t.given.Tools)
		if s.options.Tools != "" { // what the user took away no definition brings back
			a.Tools, _ = tool.Select(a.Tools, "", strings.Join(t.agent.Tools.Names(), ","))
		}
		a.Policy.Gate = t.gateFor(g)
		if a.Skills.Shell != nil {
			a.Skills.Shell = agent.ShellIn(s.ws, a.Policy.Gate, s.coding.TempDir)
		}
		a.Roster.Fork = t.forker(g)
		return &a, log, nil
	}
}

// reads reports whether an agent of a definition has the read tool, which the
// list of skills in its system prompt is for; tools are those of the session.
func reads(tools tool.Set, d *agent.Definition) bool {
	_, there := tools.Find("read")
	denied := slices.ContainsFunc(d.DisallowedTools, func(rule string) bool {
		return !strings.Contains(rule, "(") && names([]string{rule}, "read")
	})
	return there && !denied && (d.Tools == nil || names(d.Tools, "read"))
}

// names reports whether rules name a tool.
func names(rules []string, name string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool {
		word, _, _ := strings.Cut(rule, "(")
		t, ok := KnownTools().Find(strings.TrimSpace(word))
		return ok && t.Name == name
	})
}

// modeOf is the mode of an agent that is started in a mode. That of a project's
// or a plugin's definition only makes it stricter; the user's own may loosen it,
// but never what plan promises.
func (p *Project) modeOf(m permission.Mode, d *agent.Definition) permission.Mode {
	switch {
	case d.Mode == "" || m == permission.Plan:
		return m
	case d.Mode == permission.Bypass && p.config.Settings.Permissions.DisableBypass == "disable":
		return m
	case d.Loosens():
		return d.Mode
	}
	return gate.Stricter(m, d.Mode)
}

// agentLog begins the session of a sub-agent, in a folder beside that of the
// conversation.
func (s *Session) agentLog(p *Project) (*session.Log, error) {
	h := session.Header{ID: session.NewID(time.Now()), Dir: p.dir, Of: s.log.ID()}
	if !s.Recorded() {
		return session.New(h), nil
	}
	return p.options.Env.AgentSessions(p.dir, s.log.ID()).Create(h)
}
