package cli

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/internal/instructions"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/tool/coding"
)

//go:embed knack-guide.md
var guideText []byte

// guide is the built-in agent that knows our help.
func guide() agent.Definition {
	d, problems, ok := agent.ParseDefinition("knack-guide.md", guideText, knack.Bundled, engine.KnownTools().AllNames()...)
	if !ok || len(problems) > 0 {
		panic(fmt.Sprint("cli: knack-guide.md: ", problems)) // it is a file of ours
	}
	d.Path = ""
	var b strings.Builder
	b.WriteString(d.Prompt)
	for _, t := range topics {
		text, err := helpTexts.ReadFile("help/" + t.name + ".md")
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "\n\n<help topic=\"%s\">\n%s\n</help>", t.name, strings.TrimSpace(string(text)))
	}
	d.Prompt = b.String()
	return d
}

// definitions are the agents that can be started here: the first of a name
// wins, and files beat what is built in.
func (f *resourceFlags) definitions(o instructions.Options) ([]agent.Definition, []knack.Problem, error) {
	var given []agent.Definition
	var problems []knack.Problem
	if f.agents != "" {
		var err error
		if given, problems, err = agent.ParseDefinitions(f.agents, knack.Explicit, o.Tools...); err != nil {
			return nil, nil, engine.Usagef(`--agents '{"reviewer": {"description": "Reviews code", "prompt": "You review code."}}'`, "--agents: %w", err)
		}
	}
	defs, more := instructions.Agents(o, given)
	return append(defs, agent.GeneralPurpose(), guide()), slices.Concat(problems, more), nil
}

// forker makes the Fork of an agent whose calls pass a gate.
func (s *sessionRun) forker(from func() *gate.Gate) func(context.Context, *agent.Definition) (*agent.Agent, *session.Log, error) {
	return func(_ context.Context, d *agent.Definition) (*agent.Agent, *session.Log, error) {
		log, err := s.agentLog()
		if err != nil {
			return nil, nil, err
		}
		parent := from()
		g := parent.Fork(d.Name, s.modeOf(parent.Mode(), d), audit(log))
		o := s.coding
		o.State = s.read.Fork()
		a := *s.agent
		p := agent.Prompt{Custom: cmp.Or(d.Prompt, "You are "+d.Name+"."), Context: s.context, Date: time.Now(), Dir: s.ws.Dir()}
		if s.view.Index && (d.Tools == nil || slices.Contains(d.Tools, "Skill")) {
			p.Index = s.index()
		}
		a.System = p.String()
		a.Tools = coding.Tools(s.ws, o)
		if s.chosen { // what the person took away no definition brings back
			a.Tools, _ = tool.Select(a.Tools, "", strings.Join(s.agent.Tools.Names(), ","))
		}
		a.Gate = func(sc agent.Scope) tool.Gate {
			return g.With(s.scoped(sc))
		}
		own := func() *gate.Gate { return g }
		if a.Shell != nil {
			a.Shell = s.shell(own)
		}
		a.Fork = s.forker(own)
		return &a, log, nil
	}
}

// outer makes rules of what bounds a sub-agent.
func (s *sessionRun) outer(o agent.Outer) gate.Scope {
	g := gate.Scope{Skill: o.Skill, Bound: gate.Ceiling(s.settings.Settings.Skills.EnforceAllowedTools)}
	origin := permission.Origin("skill:" + o.Skill)
	if o.Agent != "" {
		g.Skill, g.Bound, origin = "agent "+o.Agent, gate.CeilingOn, permission.Origin("agent "+o.Agent)
	}
	if g.Bound == "" {
		g.Bound = gate.CeilingOff
	}
	g.Allow, g.Deny = rulesOf(o.Names, origin), rulesOf(o.Denies, origin)
	if o.Skill != "" {
		g.Limits = s.limits(o.Skill, o.Sandbox)
	}
	return g
}

// modeOf is the mode of an agent that is started in a mode. That of a project's
// or a plugin's definition only makes it stricter; a person's own may loosen it,
// but never what plan promises.
func (s *sessionRun) modeOf(m permission.Mode, d *agent.Definition) permission.Mode {
	switch {
	case d.Mode == "" || m == permission.Plan:
		return m
	case d.Mode == permission.Bypass && s.settings.Settings.Permissions.DisableBypass == "disable":
		return m
	case d.Loosens():
		return d.Mode
	}
	return gate.Stricter(m, d.Mode)
}

// audit writes decisions into a log. One that cannot be written stops the run
// at the next call.
func audit(log *session.Log) func(gate.Record) {
	return func(r gate.Record) {
		log.Append(session.Entry{Type: session.TypeDecision, Decision: &session.Decision{
			Call: r.Call, Tool: r.Tool, Asked: r.Asked, Told: told(r), Hook: r.Hook, By: r.Decision,
		}})
	}
}

// agentLog begins the session of a sub-agent, in a folder beside that of the
// conversation.
func (s *sessionRun) agentLog() (*session.Log, error) {
	h := session.Header{ID: session.NewID(time.Now()), Dir: s.dir, Of: s.log.ID()}
	if s.forgets {
		return session.New(h), nil
	}
	return engine.Env(nil).AgentSessions(s.dir, s.log.ID()).Create(h)
}

// slashAgents shows which agents there are, and which work.
func (s *sessionRun) slashAgents(_ context.Context, _ string, say func(string)) (string, error) {
	rows := [][]string{{"NAME", "SOURCE", "MODEL", "TOOLS", "STATE", "FILE"}}
	seen := map[string]bool{}
	working := map[string]int{}
	for _, a := range s.agent.Background.Unheard(s.log) {
		if a.Reason == "" {
			working[a.Name]++
		}
	}
	for _, d := range s.agent.Agents {
		state := "active"
		switch n := working[d.Name]; {
		case seen[d.Name]:
			state = "shadowed"
		case n > 0:
			state = fmt.Sprintf("%d working", n)
		}
		seen[d.Name] = true
		tools := "all"
		if d.Tools != nil {
			tools = cmp.Or(strings.Join(d.Tools, ", "), "none")
		}
		if len(d.DisallowedTools) > 0 {
			tools += " but " + strings.Join(d.DisallowedTools, ", ")
		}
		rows = append(rows, []string{plain.Line(d.Name), string(d.Origin), plain.Line(cmp.Or(d.Model, "inherit")), oneLine(tools, 60), state, plain.Line(shown(d.Path))})
	}
	var b strings.Builder
	writeTable(&b, rows)
	say(strings.TrimRight(b.String(), "\n"))
	return "", nil
}

// withAgent are tools and the one that the agent adds, for Select.
func withAgent(files tool.Set) tool.Set {
	own, _ := tool.Select(agent.Tools(), "", "Agent")
	return slices.Concat(files, own)
}
