package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/mcp"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/workspace"
)

// A turn is the snapshot that one turn of a session works with: the project as it was when the turn
// began, and the gate and agent made from it. Only the mode, the answers and the catalogue of skills
// change while it runs.
type turn struct {
	session *Session
	project *Project
	host    Host
	paths   permission.PathContext
	gate    *gate.Gate
	hooks   *hookSet // nil: there are none
	agent   *agent.Agent
	answers map[string]bool // the user's answers to acceptRules; guarded by session.mu
}

// newTurn makes the snapshot for a turn, or for a command or hook beside one: it changes nothing. Its agent has the
// model of the previous turn, if any; useModel selects the model of this one.
func (s *Session) newTurn() *turn {
	p := s.engine.Project()
	t := &turn{session: s, project: p, host: s.Host(), paths: s.engine.pathContext(p)}
	t.gate = s.gate.Replace(p.config.Rules, t.paths)
	if s.hooks != nil {
		_, local := s.ws.(*workspace.Local)
		t.hooks = &hookSet{project: p, skills: s.engine.Catalog, pinned: &s.engine.pinned, dir: s.ws.Dir(),
			localWorkspace: local,
			hostHooks:      t.host.Hooks, runner: s.hooks}
	}
	t.agent = t.newAgent()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.agent.Model = s.lastModel // for events outside requests
	return t
}

// newAgent makes the turn's agent.
func (t *turn) newAgent() *agent.Agent {
	s, p := t.session, t.project
	set := &p.config.Settings
	system, _ := s.systemText()
	a := &agent.Agent{
		Effort: set.Effort, System: system,
		Tools:        slices.Concat(s.active, t.host.Tools, s.unlisted, s.withoutRemoved(mcp.WaitTool(s.clients()...))),
		DynamicTools: s.dynamicTools, Aliases: t.host.Aliases,
		Skills: agent.Skills{
			Catalog: s.Catalog, View: s.viewOf(p), Finder: s.engine.finder, Suggest: suggestLimit(set.Skills.Suggest),
			Commands: func() []knack.SlashCommand { return p.commands(t.host.Commands, s.promptCommands()...) },
			Touched:  s.addNested,
			Vars:     map[string]string{"CLAUDE_PROJECT_DIR": p.root},
		},
		Policy: agent.Policy{Gate: t.gateFor(t.gate), Typed: t.checkTyped, Verify: p.verify, Ignored: t.whyIneffective,
			Accept: t.acceptRules},
		Roster: agent.Roster{
			Agents: slices.Concat(t.host.Agents, p.agents), Fork: t.newForkFunc(t.gate), Background: s.background,
			Forked: func(id string) (*session.Log, error) {
				return p.options.Env.AgentSessions(p.dir, s.log.ID()).Read(id)
			},
		},
		Without: s.removedTools, Steer: s.steer, Debug: p.options.Debug,
		// Programs that start take the processors from everything else.
		Sent: func() { go s.startServers() },
		Limits: agent.Limits{
			Requests: set.Limits.Turns, Tokens: set.Limits.Tokens, Cost: set.Limits.Cost,
			Time: time.Duration(set.Limits.Minutes * float64(time.Minute)),
		},
	}
	a.Resolve = func(name string) (llm.Model, error) {
		if a.Model == nil {
			return nil, errors.New("there is no model")
		}
		m, err := s.engine.Models().Named(context.Background(), name, a.Model.Info().ID)
		if err != nil {
			return nil, err
		}
		return m, s.checkPrice(m)
	}
	a.Release, _ = agent.ParseRelease(set.Skills.Release) // checked by useModel
	if !set.Skills.DisableShell {
		a.Skills.Shell = agent.ShellIn(s.ws, a.Policy.Gate, s.coding.TempDir)
	}
	if t.hooks != nil {
		a.Policy.Hooks = t.hooks.of
	}
	if a.Limits.Requests == 0 {
		a.Limits.Requests = s.options.Requests
	}
	return a
}

// useModel selects the model. Only a turn with requests needs it.
func (t *turn) useModel(ctx context.Context) (err error) {
	if t.agent.Release, err = agent.ParseRelease(t.project.config.Settings.Skills.Release); err != nil {
		return err
	}
	if t.agent.Model, err = t.session.Model(ctx); err != nil {
		return err
	}
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	t.session.lastModel = t.agent.Model
	return nil
}

// gateFor returns the function that makes the Gate of an agent whose calls pass g.
func (t *turn) gateFor(g *gate.Gate) func(agent.Scopes) tool.Gate {
	ceiling := gate.Ceiling(t.project.config.Settings.Skills.EnforceAllowedTools)
	return func(sc agent.Scopes) tool.Gate { return g.With(sc.Overlay(ceiling, t.skillRules)) }
}

// newGate makes the session's gate, with the answers given so far.
func (s *Session) newGate(p *Project) (*gate.Gate, error) {
	set := &p.config.Settings
	o := gate.Options{
		Rules: p.config.Rules, Mode: set.Permissions.DefaultMode, Ceiling: gate.Ceiling(set.Skills.EnforceAllowedTools),
		Paths:  s.engine.pathContext(p),
		Keeper: p.trust,
		Audit:  p.audit(s.log),
	}
	if s.person != nil {
		o.Approver = gate.ApproverFunc(s.approve)
	}
	return gate.New(o)
}

// audit returns a function that writes decisions to a log. If writing fails, the run stops at the next
// call.
func (p *Project) audit(log *session.Log) func(gate.Record) {
	return func(r gate.Record) {
		if d := p.options.Debug; d != nil {
			d.Debug("decision", "topic", "permission", "tool", r.Tool, "call", r.Call, "verdict", r.Decision.Verdict,
				"rule", r.Decision.Rule, "origin", r.Decision.Origin, "asked", r.Asked, "hook", r.Hook)
		}
		log.Append(session.Entry{Type: session.TypeDecision, Decision: &session.Decision{
			Call: r.Call, Tool: r.Tool, Asked: r.Asked, Answer: answerText(r), Hook: r.Hook, By: r.Decision,
		}})
	}
}

// skillRules returns what the gate needs to know about a skill in use.
func (t *turn) skillRules(name string, own *knack.Restrictions) gate.SkillRules {
	g := gate.SkillRules{Foreign: true, Limits: t.limits(name, own)}
	if skill := t.session.Catalog().Skill(name); skill != nil {
		g.Foreign, g.Dir = isForeign(skill.Origin.Kind), skill.Dir
		if skill.Origin.Kind == knack.Project || skill.Origin.Kind == knack.Legacy {
			g.Approved = t.project.trust.CheckIn(skill.Dir)
		}
	}
	return g
}

// whyIneffective explains why a rule that a skill grants is not in effect; "": it is in effect.
func (t *turn) whyIneffective(k *knack.Skill, text string) string {
	r, err := permission.ParseRule(text, permission.Origin("skill:"+k.Name))
	if err != nil {
		return err.Error()
	}
	if t.gate.Ineffective(gate.SkillRules{Skill: k.Name, Foreign: isForeign(k.Origin.Kind)}, r) {
		return broadRule(k)
	}
	return ""
}

// broadRule explains why a rule that covers everything is not in effect.
func broadRule(k *knack.Skill) string {
	return fmt.Sprintf("it covers everything, and the skill is not your own; accept it when Knack asks on a terminal, "+
		"or with the rule Skill(%s) in your settings", plain.Line(k.Name))
}

// isForeign reports whether skills of this kind are written by someone other than the user.
func isForeign(k knack.SourceKind) bool {
	switch k {
	case knack.Project, knack.Legacy, knack.Additional, knack.Plugin, knack.MCP:
		return true
	}
	return false
}

// checkTyped checks a skill that the user typed against deny rules.
func (t *turn) checkTyped(_ context.Context, k *knack.Skill) error {
	d := t.gate.Decide(nil, permission.Subject{Kind: permission.KindSkill, Text: k.Name, Default: permission.Allow},
		permission.Subject{Kind: permission.KindSkill, Text: k.RuleName(), Default: permission.Allow})
	if d.Verdict == permission.Deny || d.Verdict == permission.Ask && d.Origin == permission.Managed {
		return &knack.Refusal{Code: knack.RefusedByRule, Message: fmt.Sprintf("the rule %s (%s) refuses the skill %s", d.Rule,
			d.Origin, k.Name)}
	}
	return nil
}

// VerifySkill compares a project's skill with what was approved. The error is a *[knack.Refusal].
func (p *Project) VerifySkill(k *knack.Skill) error { return p.verify(k) }

// verify compares the whole folder of a project's skill with what was approved. It runs at every
// activation.
func (p *Project) verify(k *knack.Skill) error {
	if err := p.trust.VerifySkill(k); err != nil {
		return &knack.Refusal{Code: knack.RefusedChanged,
			Message: fmt.Sprintf("%s: %v. The user can look at it with: knack trust --show", k.Name, err)}
	}
	return nil
}

// suggestLimit converts the setting skills.suggest to the value of agent.Agent.
func suggestLimit(setting string) int {
	switch setting {
	case "", "auto":
		return 0
	case "off", "0":
		return -1
	}
	n, err := strconv.Atoi(setting)
	if err != nil { // a problem reports it
		return 0
	}
	return n
}
