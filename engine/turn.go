package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A Turn is the snapshot that one turn of a session works with: the project as it was when the turn
// began, and the gate and agent made from it. [Session.Now] returns what a turn would work with now. Only the mode, the
// answers and the catalogue of skills change while it runs. Its methods may be called from any goroutine.
type Turn struct {
	session *Session
	project *Project
	host    Host
	gate    *gate.Gate
	hooks   *hookSet // nil: there are none
	agent   *agent.Agent
	remote  remoteSkills
	answers map[string]bool // the user's answers to acceptRules; guarded by session.mu
}

// Now returns the snapshot for a turn, or for a command, a hook or a front end beside one. It takes about 15 µs and
// changes nothing.
func (s *Session) Now() *Turn {
	p := s.engine.Project()
	t := &Turn{session: s, project: p, host: s.Host()}
	t.gate = s.gate.Replace(gateOptions(s, p, s.place.now()))
	if s.hooks != nil {
		_, local := s.ws.(*workspace.Local)
		t.hooks = &hookSet{project: p, skills: s.engine.Catalog, pinned: &s.engine.pinned, dir: s.ws.Dir(),
			localWorkspace: local,
			hostHooks:      slices.Concat(t.host.Hooks, s.parts.hooks(p.config)), runner: s.hooks.Runner}
	}
	t.remote = remoteSkills{trust: p.trust, describe: t.describeSkill, warn: s.engine.notices.add,
		ask: func(ctx context.Context, q Question) (Answer, error) {
			if !asksAboutSkills(s.Mode()) {
				return Answer{}, ErrCannot
			}
			return s.ask(ctx, hook.NoticePermission, q.Title, q)
		}}
	t.agent = t.newAgent()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.agent.Model = s.lastModel // for events outside requests; useModel selects that of the turn
	return t
}

// View returns which skills the model is shown, and how.
func (t *Turn) View() knack.View { return t.agent.Skills.View }

// Effort is the effort that the turn begins with; "": the model's default.
func (t *Turn) Effort() string {
	return cmp.Or(t.session.log.State().Effort, t.project.config.Settings.Effort)
}

// Rules returns the permission rules that apply to the whole session: those of the settings and of the
// user's answers. Skills in use add theirs.
func (t *Turn) Rules() permission.Rules {
	r := t.project.config.Rules
	r.Allow = slices.Concat(r.Allow, t.session.gate.KeptRules(), t.session.gate.SessionRules())
	r.Deny, r.Ask = slices.Concat(r.Deny, t.host.Rules.Deny), slices.Concat(r.Ask, t.host.Rules.Ask)
	return r
}

// Tools returns the names of the model's tools, without Skill, which depends on the skills.
func (t *Turn) Tools() []string {
	names := slices.Concat(t.session.chosen.listed(), t.host.Tools, t.host.Own).Names()
	if !slices.Contains(t.session.removedTools, "Agent") {
		names = append(names, "Agent")
	}
	return names
}

// IsRemoved reports whether Skill or Agent, which the agent would add, is left out.
func (t *Turn) IsRemoved(tool string) bool { return slices.Contains(t.session.removedTools, tool) }

// newAgent makes the turn's agent.
func (t *Turn) newAgent() *agent.Agent {
	s, p := t.session, t.project
	set := &p.config.Settings
	system, _ := s.systemText()
	a := &agent.Agent{
		Effort: set.Effort, System: system, Reserve: set.Compaction.Reserve, Keep: set.Compaction.Keep,
		NoCompact: set.Compaction.Auto != nil && !*set.Compaction.Auto,
		Tools:     t.tools(),
		Rules:     s.matchingRules,
		Notice:    t.notice,
		GoOn:      s.parts.goOn,
		Project:   s.parts.messages(),
		LeftOut:   leftOut(s.engine.notices.addOnce),
		Whole: func(reason string) {
			s.engine.notices.addOnce(knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Info,
				Message: "messageThreads has no effect: " + reason + ", so that each request is sent whole"})
		},
		DynamicTools: s.servers.Tools, MoreTools: s.servers.Incomplete, Aliases: t.host.Aliases,
		SkillTools: skillTools{s.parts, s.place.now, s.coding, s.Catalog, s.options.Tools, p.withholds}.of,
		Missing:    s.servers.Missing,
		Skills: agent.Skills{
			Catalog: s.Catalog, View: p.viewOf(s.options.Skills), Finder: s.engine.finder,
			Suggest:  suggestLimit(set.Skills.Suggest),
			Reserved: p.reserved(t.host.Commands),
			Refresh: func(ctx context.Context, name string) {
				s.servers.AwaitSkill(ctx, name)
				s.engine.library.Reload(ctx)
			},
			Touched: t.addNested,
			Session: func(k *knack.Snapshot) { describe(s, k) },
			Check:   func(k *knack.Skill) []knack.Problem { return SkillProblems(k, p.options.Parts...) },
			Vars:    map[string]string{"CLAUDE_PROJECT_DIR": p.root},
		},
		Policy: agent.Policy{Gate: t.gate.With, Review: t.review, Verify: p.verify, Admit: t.admit},
		Roster: agent.Roster{
			Agents: slices.Concat(t.host.Agents, p.agents), New: t.newAgentFunc(t.gate, Place{}), Background: s.background,
			Interrupted: func(id string) (*session.Log, error) {
				return p.options.Env.AgentSessions(p.dir, s.log.ID()).Read(id)
			},
		},
		Without: s.removedTools, Steer: t.steer, Debug: p.options.Debug, Observe: s.parts.observer(),
		// Programs that start take the processors from everything else.
		Sent: func() { go s.servers.Start() },
		Limits: agent.Limits{
			Requests: set.Limits.Turns, Tokens: set.Limits.Tokens, Cost: set.Limits.Cost,
			Time: time.Duration(set.Limits.Minutes * float64(time.Minute)),
		},
	}
	a.Resolve = func(name string) (llm.Model, error) {
		if a.Model == nil {
			return nil, errors.New("there is no model")
		}
		m, err := s.engine.Models().Tried(context.Background(), name, a.Model.Info().ID)
		if name == "fast" && errors.Is(err, errModelRefused) {
			return a.Model, s.engine.checkPrice(a.Model)
		}
		if err != nil {
			return nil, err
		}
		if id := m.Info().ID; s.missing.has(id) || slices.Contains(s.log.State().Missing, id) {
			return nil, fmt.Errorf("its provider does not have the model %s", id)
		}
		return s.parts.model(m), s.engine.checkPrice(m)
	}
	a.NoModel, a.Switch = s.missing.add, s.hooks.guardModels(s.log, s.Ask)
	a.Release, _ = agent.ParseRelease(set.Skills.Release) // checked by useModel
	a.Skills.File = func(sc agent.Scopes) knack.File { return agent.FilesIn(s.place.ws(), s.files, a.Policy.Gate)(sc) }
	if !set.Skills.DisableShell {
		a.Skills.Shell = func(sc agent.Scopes) knack.Shell {
			return agent.ShellIn(s.place.ws(), a.Policy.Gate, s.coding)(sc)
		}
	}
	if t.hooks != nil {
		a.Policy.Hooks, a.Roster.Hooks = t.hooks.always(), t.hooks.ofAgent
	}
	if a.Limits.Requests == 0 {
		a.Limits.Requests = s.options.Requests
	}
	if s.lead != nil && s.lead.MaxTurns > 0 && (a.Limits.Requests == 0 || s.lead.MaxTurns < a.Limits.Requests) {
		a.Limits.Requests = s.lead.MaxTurns
	}
	return a
}

// tools returns the tools that the model has throughout the turn.
func (t *Turn) tools() tool.Set {
	s := t.session
	active, unlisted := s.chosen.now(t.host)
	return slices.Concat(active, t.host.Tools, t.host.Own, unlisted, s.servers.WaitTool())
}

// notice returns what the model is told before a request by the parts, by servers that were connected meanwhile about
// their tools, and about what happened in the background.
func (t *Turn) notice(state session.State) *session.Note {
	s := t.session
	return joinNotes(joinNotes(s.parts.note(Asking{Mode: s.Mode()}, state), s.servers.Instructions(state)), s.jobs.news())
}

// AwaitServers waits for what the first request of a session waits for: servers whose tools are not known yet, if the
// session's options ask for it, as long as mcp.firstWait says. Afterwards it returns at once. The error is that of ctx.
func AwaitServers(ctx context.Context, s *Session) error {
	if s.options.Waiting == nil || s.log.State().Requests > 0 {
		return nil
	}
	return s.servers.AwaitNew(ctx, s.options.Waiting)
}

// useModel selects the model. Only a turn with requests needs it.
func (t *Turn) useModel(ctx context.Context) (err error) {
	if t.agent.Release, err = agent.ParseRelease(t.project.config.Settings.Skills.Release); err != nil {
		return err
	}
	if t.agent.Model, err = t.session.Model(ctx); err != nil {
		return err
	}
	t.agent.Model = t.session.parts.model(t.agent.Model)
	fallback := t.session.options.Fallback
	if len(fallback) == 0 {
		fallback = t.project.config.Settings.Models.Fallback
	}
	for _, name := range fallback {
		m, err := t.session.engine.Models().Named(ctx, name, t.agent.Model.Info().ID)
		if err == nil {
			err = t.session.engine.checkPrice(m)
		}
		if err != nil {
			return fmt.Errorf("the fallback model: %w", err)
		}
		t.agent.Fallback = append(t.agent.Fallback, t.session.parts.model(m))
	}
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	t.session.lastModel = t.agent.Model
	return nil
}

// newGate makes the session's gate, with the answers given so far.
func (s *Session) newGate(p *Project) (*gate.Gate, error) {
	o := s.engine.gateOptions(p)
	s.scratch.paths(&o.Paths)
	o.Mode, o.Audit = p.config.Settings.Permissions.DefaultMode, gateAudit(s, p, s.log)
	o.Require = func(r gate.Record) error { return s.parts.require(r) } // they are opened later
	if !o.OnlyManaged {
		o.Keeper = p.trust
	}
	if s.person != nil {
		o.Approver = gate.ApproverFunc(s.approve)
	}
	return gate.New(o)
}

// gateOptions returns what the settings of a project say about permissions.
func (e *Engine) gateOptions(p *Project) gate.Options {
	return gate.Options{Rules: p.config.Rules, Paths: e.pathContext(p), Network: networkOf(p.config),
		Ceiling: gate.Ceiling(p.config.Settings.Skills.EnforceAllowedTools), OnlyManaged: p.config.OnlyManagedRules(),
		Most: p.config.Most(), Nested: permission.Limits{Sandbox: cmp.Or(p.config.Settings.Sandbox.Mode, "auto"),
			Policy: p.options.Policy},
		Denied: func() []permission.Rule { return e.Project().config.Rules.Deny }}
}

// gateAudit returns the Audit func of a gate. It writes each decision to the log and passes it to the parts.
func gateAudit(s *Session, p *Project, log *session.Log) func(gate.Record) {
	write := p.audit(log)
	return func(r gate.Record) {
		write(r)
		s.parts.audit(r)
	}
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

// review returns what is known about the call of a skill, see [agent.Policy].
func (t *Turn) review(c agent.SkillCall) agent.Review {
	k := c.Skill
	facts := gate.SkillFacts{Foreign: isForeign(k.Origin.Kind),
		Vouched: k.Origin.Kind == knack.Managed || k.Origin.Kind == knack.Bundled, Dir: cmp.Or(k.Dir, c.Dir),
		Limits: t.limits(k.Name, c.Asks.Sandbox), Secrets: t.session.parts.secrets(k)}
	if isProjects(k) {
		facts.Approved = trustOf(t.project, k.Dir).CheckIn(k.Dir)
	}
	r := agent.Review{Facts: facts, Ineffective: t.ineffective(k, c.Asks.Grants), Allowed: t.allowed(k, c.Asks.Grants)}
	r.TextOnly = t.session.person == nil && t.session.Mode() != permission.Bypass && t.project.options.Trust &&
		t.session.engine.isNew(k)
	r.Unseen = t.remote.unseen(c)
	if t.hooks != nil && c.Asks.Hooks != nil {
		r.Hooks = t.hooks.ofSkill(k, c.Asks.Hooks, c.Dir)
	}
	if c.Typed != "" {
		r.Refusal = t.checkTyped(k, c.Typed)
	}
	return r
}

// ineffective returns those of a skill's rules that have no effect unless the user accepts them, and why.
func (t *Turn) ineffective(k *knack.Skill, rules []string) map[string]string {
	all := map[string]string{}
	for _, text := range rules {
		r, err := permission.ParseRule(text, permission.Origin("skill:"+k.Name))
		switch {
		case err != nil:
			all[text] = err.Error()
		case t.gate.Ineffective(k.Name, isForeign(k.Origin.Kind), r):
			all[text] = broadRule(k)
		}
	}
	return all
}

// ofProgram are the beginnings of rules of bundled skills that reach nothing but what comes with the program.
var ofProgram = [...]string{"Read(/${CLAUDE_SKILL_DIR}/", "Bash(sh ${CLAUDE_SKILL_DIR}/scripts/", "Agent(knack-guide)",
	"Bash(knack help ", "Bash(knack settings show:", "Bash(knack settings diff:", "Bash(knack settings check:"}

// allowed returns those of a skill's rules that the rules of the settings and of the command line cover, and of a
// bundled skill those about what comes with the program: its folder and scripts, and what only shows help or settings.
func (t *Turn) allowed(k *knack.Skill, rules []string) (all []string) {
	ctx := context.Background() // commands without files are looked at
	for _, text := range rules {
		r, err := permission.ParseRule(text, "")
		if err == nil && (t.project.config.Rules.Covers(ctx, r) ||
			k.Origin.Kind == knack.Bundled && slices.ContainsFunc(ofProgram[:], func(start string) bool {
				return strings.HasPrefix(text, start)
			})) {
			all = append(all, text)
		}
	}
	return all
}

// broadRule explains why a rule that covers everything is not in effect.
func broadRule(k *knack.Skill) string {
	return fmt.Sprintf("it covers everything, and the skill is not your own; accept it when Knack asks on a terminal, "+
		"or with the rule Skill(%s) in your settings", plain.Line(k.Name))
}

// isProjects reports whether the files of a skill need approval: those of the project and of added directories.
func isProjects(k *knack.Skill) bool {
	switch k.Origin.Kind {
	case knack.Project, knack.Legacy, knack.Additional:
		return true
	}
	return false
}

// isForeign reports whether skills of this kind are written by someone other than the user.
func isForeign(k knack.SourceKind) bool {
	switch k {
	case knack.Project, knack.Legacy, knack.Additional, knack.Plugin, knack.MCP:
		return true
	}
	return false
}

// checkTyped checks a skill that the user typed against deny rules, also under the name that was typed.
func (t *Turn) checkTyped(k *knack.Skill, typed string) error {
	typedSkill := *k
	typedSkill.Name = typed
	ctx := context.Background() // names are compared, nothing is looked up
	for _, k := range []*knack.Skill{k, &typedSkill} {
		d := t.gate.Decide(ctx, permission.Subject{Kind: permission.KindSkill, Text: k.Name, Default: permission.Allow},
			permission.Subject{Kind: permission.KindSkill, Text: k.RuleName(), Default: permission.Allow})
		if d.Verdict == permission.Deny || d.Verdict == permission.Ask && d.Origin == permission.Managed {
			return &knack.Refusal{Code: knack.RefusedByRule,
				Message: fmt.Sprintf("the rule %s (%s) refuses the skill %s", d.Rule, d.Origin, k.Name)}
		}
	}
	return nil
}

// VerifySkill compares a project's skill with what was approved. The error is a *[knack.Refusal].
func (p *Project) VerifySkill(k *knack.Skill) error { return p.verify(k) }

// verify compares the whole folder of a project's skill with what was approved. It runs at every
// activation.
func (p *Project) verify(k *knack.Skill) error {
	if k.Origin.Kind == knack.Plugin {
		if err := p.plugins.verify(k.Origin.Label, k.Name); err != nil {
			return &knack.Refusal{Code: knack.RefusedChanged, Message: fmt.Sprintf("%s: %v", k.Name, err),
				Hint: pluginHint(k)}
		}
	}
	if err := trustOf(p, k.Path).VerifySkill(k); err != nil {
		return &knack.Refusal{Code: knack.RefusedChanged,
			Message: fmt.Sprintf("%s: %v. The user can look at it with /trust, or in a shell with: knack trust --show",
				k.Name, err),
			Hint: "/trust, or knack trust in a shell: it shows the difference and asks"}
	}
	return nil
}

// pluginHint says how to look at the changed files of an installed plugin or skill, and to use them.
func pluginHint(k *knack.Skill) string {
	name := plain.Line(cmp.Or(k.Origin.Label, k.Name))
	return "knack skill diff " + name + "; then knack skill accept " + name
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
