package agent

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// A sub-agent is the same loop on an empty log: a run with a parent. What it spends also counts for
// its parents, its events are passed on to them, and the parent's log names the sub-agent's log.

// maxForks is how deeply sub-agents may be nested.
const maxForks = 4

const (
	agentTool    = "Agent"
	defaultAgent = "general-purpose"
)

var (
	//go:embed prompts/general-purpose.md
	generalText string
	//go:embed prompts/explore.md
	exploreText string
	//go:embed prompts/plan.md
	planText string
	//go:embed prompts/subagent.md
	subText string
)

// GeneralPurpose returns the agent for skills that name none. It has the tools of the agent that
// starts it.
func GeneralPurpose() Definition {
	return Definition{
		Name: defaultAgent,
		Description: "Researches, searches and carries out tasks of several steps on its own. Use it for work whose steps " +
			"need not be seen here.",
		Prompt: strings.TrimSpace(generalText), Origin: knack.Bundled,
	}
}

// BuiltIn returns the agents that always exist: GeneralPurpose, Explore and Plan.
func BuiltIn() []Definition {
	return []Definition{GeneralPurpose(), {
		Name: "Explore",
		Description: "Searches and reads widely, changes nothing, and reports briefly what it found, with paths and lines. " +
			"Use it to find out where and how something is done.",
		Prompt: strings.TrimSpace(exploreText), Tools: readingTools(), Mode: permission.Plan, Origin: knack.Bundled,
	}, {
		Name: "Plan",
		Description: "Reads what a task touches, changes nothing, and ends with a plan of steps. Use it before a change " +
			"that spans several files.",
		Prompt: strings.TrimSpace(planText), Tools: readingTools(), Mode: permission.Plan, Origin: knack.Bundled,
	}}
}

// readingTools returns the names of the tools that change nothing.
func readingTools() []string { return []string{"read", "grep", "find", "ls"} }

// A task is the work for a sub-agent.
type task struct {
	def         *Definition
	call        string            // the model's call; "": the user typed the skill
	act         *knack.Activation // the skill to run; nil: prompt is the task
	in          Input             // the user's input: attachments and typed words
	prompt      string
	description string // a short description for the user
	background  bool
}

// A ledger is what a run and its sub-agents have spent.
type ledger struct {
	mu       sync.Mutex
	requests int
	usage    llm.Usage
	cost     float64
}

func (l *ledger) total() (requests int, u llm.Usage, cost float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests, l.usage, l.cost
}

// spend adds to what this run and all of its parents have spent.
func (r *run) spend(requests int, u llm.Usage, cost float64) {
	for x := r; x != nil; x = x.parent {
		x.ledger.mu.Lock()
		x.ledger.requests += requests
		x.ledger.usage.Add(u)
		x.ledger.cost += cost
		x.ledger.mu.Unlock()
	}
}

// root returns the run that the user started.
func (r *run) root() *run {
	for r.parent != nil {
		r = r.parent
	}
	return r
}

// depth returns the number of parents: 0 for the run that the user started.
func (r *run) depth() (n int) {
	for ; r.parent != nil; r = r.parent {
		n++
	}
	return n
}

// startsFork reports whether a skill runs in a sub-agent here.
func (r *run) startsFork(s *knack.Skill) bool { return s.Fork && r.Roster.Fork != nil }

// mayFork returns an error if a sub-agent would be nested too deeply, or would run a skill that one
// of the agents above it is already running. skill is "" if no skill is run.
func (r *run) mayFork(skill string) error {
	for x := r; x.parent != nil && skill != ""; x = x.parent {
		if x.subRecord.Skill == skill {
			return &knack.Refusal{Code: knack.RefusedRunning, Message: skill +
				" is already running: this agent was started to do it"}
		}
	}
	if r.depth() >= maxForks {
		return &knack.Refusal{Code: knack.RefusedRunning,
			Message: fmt.Sprintf("agents start others at most %d deep: do it here", maxForks)}
	}
	return nil
}

// definition returns the agent with a name; "" is the default. If there is none, it returns a
// general one with few tools (tools, which a skill asks for, or else those of Explore), and a
// problem that explains this.
func (r *run) definition(name string, tools []string) (d *Definition, problem string) {
	name = cmp.Or(strings.TrimSpace(name), defaultAgent)
	if d := findDefinition(r.Roster.Agents, name); d != nil {
		return r.restricted(d), ""
	}
	fallback := GeneralPurpose()
	fallback.Tools = tools
	if len(tools) == 0 {
		fallback.Tools = readingTools()
	}
	var names []string
	for _, d := range r.Roster.Agents {
		if !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return &fallback, fmt.Sprintf("there is no agent %.100q: %s is used instead, with the tools %s; the agents are %s",
		name, fallback.Name, strings.Join(fallback.Tools, ", "), strings.Join(names, ", "))
}

// restricted restricts a definition of a project or a plugin to the mode and tools of the built-in
// agent with the same name.
func (r *run) restricted(d *Definition) *Definition {
	i := slices.IndexFunc(r.Roster.Agents, func(b Definition) bool {
		return b.Origin == knack.Bundled && strings.EqualFold(b.Name, d.Name)
	})
	if d.Loosens() || d.Origin == knack.Bundled || i < 0 {
		return d
	}
	own, limit := *d, &r.Roster.Agents[i]
	own.Mode = gate.Stricter(limit.Mode, own.Mode)
	own.within = limit.Tools
	return &own
}

func findDefinition(defs []Definition, name string) *Definition {
	for _, same := range []func(string) bool{
		func(s string) bool { return s == name },
		func(s string) bool { return strings.EqualFold(s, name) },
		func(s string) bool { return s == defaultAgent && strings.EqualFold(name, "general") },
	} {
		if i := slices.IndexFunc(defs, func(d Definition) bool { return same(d.Name) }); i >= 0 {
			return &defs[i]
		}
	}
	return nil
}

// askAgent asks the gate whether the agent that a skill names may be started, because a rule against
// the agent applies whether a model or a skill starts it.
func (r *run) askAgent(ctx context.Context, call string, d *Definition) error {
	t := r.agentTool()
	if _, err := r.askGate(ctx, &t, call, agentInput{Agent: d.Name}); err != nil {
		return &knack.Refusal{Code: knack.RefusedByRule, Message: err.Error()}
	}
	return nil
}

// agentOf returns the agent in which a skill runs. If the skill names one that does not exist, the
// activation gets a Problem.
func (r *run) agentOf(act *knack.Activation) (d *Definition, problem string) {
	var tools []string
	for _, rule := range act.Grants {
		name, _, _ := strings.Cut(rule, "(")
		if name = strings.TrimSpace(name); !slices.Contains(tools, name) {
			tools = append(tools, name)
		}
	}
	d, problem = r.definition(act.Skill.Agent, tools)
	if problem != "" {
		act.Problems = append(act.Problems, knack.Problem{Code: knack.CodeAgentUnknown, Severity: knack.Warn,
			Path: act.Skill.Path, Message: problem})
	}
	return d, problem
}

// askGate asks the Gate about a call that the model did not make. The input must not be changed: if
// a hook changes it, the call is refused.
func (r *run) askGate(ctx context.Context, t *tool.Tool, call string, in any) (tool.Permit, error) {
	input, err := json.Marshal(in)
	if err != nil {
		return tool.Permit{}, err
	}
	var g tool.Gate
	if r.Policy.Gate != nil {
		g = r.Policy.Gate(r.scopes(r.log.State()))
	}
	permit, err := t.Propose(call, input).Decide(ctx, g)
	if err == nil && !bytes.Equal(permit.Input, input) {
		err = fmt.Errorf("a hook changed the input of %s, which may only run unchanged", t.Name)
	}
	return permit, err
}

// askSkill asks the Gate about a skill that the program itself loads, as if the model had called it.
// It returns the hash of the content that the decision is about.
func (r *run) askSkill(ctx context.Context, s *knack.Skill, name, call string) (hash string, err error) {
	t := tool.Skill("", r.skillSubjects, nil)
	permit, err := r.askGate(ctx, &t, call, tool.SkillInput{Skill: name})
	if err != nil {
		return "", &knack.Refusal{Code: knack.RefusedByRule, Message: err.Error()}
	}
	return r.approved(ctx, permit.Subjects, s)
}

// delegate runs a task in a sub-agent and returns how it ended. For a background task it returns at
// once, and Reason is empty.
func (r *run) delegate(ctx context.Context, t task) (session.Agent, error) {
	skill := ""
	if t.act != nil {
		skill = t.act.Skill.Name
	}
	if err := r.mayFork(skill); err != nil {
		return session.Agent{}, err
	}
	if t.act != nil {
		// The text of an untrusted skill must not run in the looser mode that the user's own
		// definition sets.
		def := *t.def
		if def.Origin = t.act.Skill.Origin.Kind; !def.Loosens() {
			t.def = &def
		}
	}
	child, log, err := r.Roster.Fork(ctx, t.def)
	if err != nil {
		return session.Agent{}, fmt.Errorf("the agent %s cannot be started: %w", t.def.Name, err)
	}
	what := session.Agent{Name: t.def.Name, Log: log.ID(), Call: t.call, Skill: skill, Task: t.description,
		Background: t.background && r.Roster.Background != nil}
	if t.act != nil {
		what.Args = t.act.Args
	}
	r.configureChild(child, t.def)
	sub := &run{Agent: child, log: log, start: time.Now(), parent: r, subRecord: what, def: t.def}
	sub.restrictions, sub.guards = r.bounds(t.def, child.Servers.Rules)
	sub.emit = func(e Event) {
		if e.End != nil {
			return // the entry that records its end says more
		}
		if e.Agent == nil {
			e.Agent = &Sub{Name: what.Name, Log: what.Log, Call: what.Call, Depth: sub.depth()}
		}
		r.forward(e)
	}
	// A call whose start is not on disk could be repeated after a crash, so the start is written
	// first.
	err = r.agentEntry(what)
	if err == nil {
		err = r.log.Sync()
	}
	if err != nil {
		log.Close()
		return session.Agent{}, fmt.Errorf("the agent was not started, because the session cannot be written: %w", err)
	}
	if what.Background {
		sub.emit = func(Event) {} // its events are emitted when it has ended, see finishedAgents
		return what, r.Roster.Background.start(ctx, r.log, sub, t)
	}
	end := sub.work(ctx, t)
	return end, r.agentEntry(end)
}

// work does the task of a sub-agent, closes its log and returns how it ended.
func (r *run) work(ctx context.Context, t task) session.Agent {
	defer r.log.Close()
	if r.Servers.Start != nil {
		defer r.Servers.Start(ctx)()
	}
	a := r.subRecord
	err := r.recordTask(ctx, t)
	end := &End{Reason: session.EndCancelled}
	if err == nil {
		end, err = r.turn(ctx)
	}
	switch {
	case err == nil:
		a.Reason, a.Result = end.Reason, end.Text
		if end.Reason == session.EndStopped {
			r.parent.stop(end.Why)
		}
	case ctx.Err() != nil:
		a.Reason = session.EndCancelled
	default:
		a.Reason, a.Error = session.EndError, err.Error()
	}
	state := r.log.State()
	a.Requests, _, _ = r.ledger.total()
	a.Usage, a.Cost, a.Denials = state.Usage, state.Cost, state.Denials
	return a
}

// recordTask records a task as the first entries of an empty log.
func (r *run) recordTask(ctx context.Context, t task) error {
	if err := r.showListing(); err != nil {
		return err
	}
	var err error
	if t.act != nil {
		r.lastTyped = t.in.Typed
		err = r.activate(ctx, t.act, session.ByFork, t.call, t.in)
	} else {
		err = r.recordUser(Text(t.prompt), "", false)
	}
	if err == nil {
		_, err = r.hook(ctx, hook.Input{Event: hook.SubagentStart})
	}
	if err != nil || r.Skills.Catalog == nil {
		return err
	}
	for _, name := range t.def.Skills {
		if err := r.preload(ctx, name); err != nil {
			if ctx.Err() != nil {
				return err
			}
			if err := r.note("", fmt.Sprintf("the skill %s is not loaded: %v", name, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// preload loads a skill that a definition names. It needs the same permission as a call by the
// model, but the skill is loaded into this conversation even if it would normally fork.
func (r *run) preload(ctx context.Context, name string) error {
	name = tool.SkillName(name)
	inv := knack.Invocation{Name: name, By: knack.ByModel}
	if s := r.Skills.Catalog().Skill(name); s != nil {
		var err error
		if inv.Hash, err = r.askSkill(ctx, s, name, "preload"); err != nil {
			return err
		}
		if r.Policy.Admit != nil {
			if _, err := r.Policy.Admit(ctx, SkillCall{Skill: s, By: inv.By}); err != nil { // nobody is asked about its rules
				return err
			}
		}
	}
	act, err := r.Skills.Catalog().Invoke(ctx, r.fillInvocation(inv))
	if err != nil {
		return err
	}
	return r.activate(ctx, act, session.ByAgent, "", Input{})
}

// configureChild sets the model, tools, limits and other fields of child as its definition d says, limited to
// what the run itself has.
func (r *run) configureChild(child *Agent, d *Definition) {
	state := r.log.State()
	child.Tools = slices.Clone(child.Tools)
	child.Roster.Agents, child.Roster.Background = r.Roster.Agents, r.Roster.Background
	child.Steer = nil
	child.System = strings.TrimSpace(child.System) + "\n\n" + subText
	child.Release = ReleasePolicy{kind: releaseNever} // its conversation is not continued after the task
	child.Limits = Limits{Requests: d.MaxTurns}
	child.Model, child.Effort = r.Model, cmp.Or(d.Effort, state.Effort, r.Effort)
	if name := cmp.Or(d.Model, state.Model); name != "" && r.Resolve != nil {
		if m, err := r.Resolve(name); err == nil {
			child.Model = m
		} else {
			r.debug("model", "the model of an agent was not found", "agent", d.Name, "name", name, "error", err)
		}
	}

	if d.Tools == nil {
		own := r.Tools.Names()
		child.Tools = slices.DeleteFunc(child.Tools, func(t tool.Tool) bool { return !slices.Contains(own, t.Name) })
		child.Without = slices.Clone(r.Without)
		child.DynamicTools = r.DynamicTools
	} else {
		own := Tools()
		var names []string
		for _, rule := range d.Tools {
			name, _, _ := strings.Cut(rule, "(")
			names = append(names, strings.TrimSpace(name))
			if strings.HasPrefix(name, "mcp__") && strings.Count(name, "__") == 1 {
				names = append(names, name+"__*") // all tools of the server
			}
		}
		spec := cmp.Or(strings.Join(names, ","), "-*")
		dynamic := slices.Clone(names)
		for _, rule := range child.Servers.Rules {
			dynamic = append(dynamic, rule+"__*")
		}
		child.DynamicTools = selectTools(r.DynamicTools, cmp.Or(strings.Join(dynamic, ","), "-*"))
		child.Tools, _ = tool.Select(child.Tools, "", spec) // the loader has already reported names that were not found
		child.Without = slices.Clone(r.Without)
		if r.startsAny() {
			child.Without = slices.Clone(r.root().Without) // a definition cannot bring back tools that the user removed
		} else if r.parent != nil { // a sub-agent never has more tools than its parent
			own := r.Tools.Names()
			child.Tools = slices.DeleteFunc(child.Tools, func(t tool.Tool) bool { return !slices.Contains(own, t.Name) })
		}
		chosen, _ := tool.Select(own, "", spec)
		for _, t := range own {
			if _, ok := chosen.Find(t.Name); !ok {
				child.Without = append(child.Without, t.Name)
			}
		}
	}
	if child.Servers.Tools != nil {
		child.DynamicTools = mergeTools(child.Servers.Tools, child.DynamicTools)
	}
	if d.within != nil {
		child.DynamicTools = selectTools(child.DynamicTools, strings.Join(d.within, ","))
		child.Tools, _ = tool.Select(child.Tools, "", strings.Join(d.within, ","))
	}
	for _, rule := range d.DisallowedTools {
		if strings.Contains(rule, "(") {
			continue // it does not remove the tool; see bounds
		}
		if strings.HasPrefix(rule, "mcp__") {
			child.DynamicTools = selectTools(child.DynamicTools, "*,-"+rule+",-"+rule+"__*")
		}
		if t, ok := child.Tools.Find(rule); ok {
			name := t.Name
			child.Tools = slices.DeleteFunc(child.Tools, func(t tool.Tool) bool { return t.Name == name })
		}
		if t, ok := Tools().Find(rule); ok {
			child.Without = append(child.Without, t.Name)
		}
	}
}

// selectTools restricts dynamic tools to those that spec selects.
func selectTools(tools func() tool.Set, spec string) func() tool.Set {
	if tools == nil {
		return nil
	}
	return func() tool.Set {
		chosen, _ := tool.Select(tools(), "", spec)
		return chosen
	}
}

// mergeTools returns the tools of both sets. If both have a name, the tool of own is used.
func mergeTools(own, other func() tool.Set) func() tool.Set {
	if other == nil {
		return own
	}
	return func() tool.Set {
		set := slices.Clone(own())
		for _, t := range other() {
			if indexOf(set, t.Name) < 0 {
				set = append(set, t)
			}
		}
		return set
	}
}

// startsAny reports whether the agents that this one starts may have tools that it does not have
// itself: its definition must ask for that, and come from the user or the administrator.
func (r *run) startsAny() bool {
	return r.def != nil && r.def.StartsAny && r.def.Loosens()
}

// bounds returns the restrictions on an agent started with definition d: what the skills in use
// here deny, and what the definition denies. If the definition lists patterns, only those tools and
// the tools of its servers may run. What skills grant is not passed on to sub-agents.
//
// The hooks of these skills and of the definition guard the agent's calls, but cannot allow any.
func (r *run) bounds(d *Definition, servers []string) (all []gate.Bound, guards []hook.Hook) {
	all, guards = slices.Clone(r.restrictions), slices.Clone(r.guards)
	for _, s := range r.log.State().Scopes {
		review := r.reviewOf(s)
		all = append(all, gate.Bound{Skill: s.Skill, Denies: s.Denies, Names: s.Grants, Limits: review.Facts.Limits})
		guards = append(guards, review.Hooks...)
	}
	own := gate.Bound{Agent: d.Name, Denies: d.DisallowedTools}
	if slices.ContainsFunc(d.Tools, func(rule string) bool { return strings.Contains(rule, "(") }) {
		own.Names = slices.Concat(d.Tools, servers)
	}
	if r.Roster.Hooks != nil {
		guards = append(guards, r.Roster.Hooks(d)...)
	}
	for i := range guards {
		guards[i].Mute = true
	}
	return append(all, own), guards
}

// agentEntry records that a sub-agent started or ended. It may be called from any goroutine.
func (r *run) agentEntry(a session.Agent) error {
	_, err := r.log.Append(session.Entry{Type: session.TypeAgent, Agent: &a})
	if r.calls != nil {
		r.calls <- Event{}
	} else {
		r.emitRecorded()
	}
	return err
}

// forward emits an event of a sub-agent. While calls run, it goes through the goroutine that emits.
func (r *run) forward(e Event) {
	if r.calls != nil {
		r.calls <- e
		return
	}
	r.emit(e)
}

// reportOf returns the result of the call that started a sub-agent.
func reportOf(ctx context.Context, a session.Agent) (string, error) {
	switch a.Reason {
	case "": // in the background
		return fmt.Sprintf("The agent %s works on it in the background (%s). A message will report its end: continue with "+
			"something else, and do not poll for it.", a.Name, a.Log), nil
	case session.EndError:
		return "", fmt.Errorf("the agent %s failed: %s", a.Name, a.Error)
	case session.EndCancelled:
		return a.Result, cmp.Or(context.Cause(ctx), context.Canceled)
	}
	return a.Report(), nil
}

// forkInput calls a typed skill that runs in a sub-agent: the typed line begins the turn, and the
// agent's answer becomes the result of the turn.
func (r *run) forkInput(ctx context.Context, act *knack.Activation, in Input, steering bool) (func() error, error) {
	def, problem := r.agentOf(act)
	if err := r.askAgent(ctx, "", def); err != nil {
		return nil, err
	}
	if err := r.submitHooks(ctx, in.Text, steering, nil); err != nil {
		return nil, err
	}
	t := task{def: def, act: act, in: in, description: act.Notice, background: act.Skill.Background}
	return func() error {
		if err := r.recordUser(Text(in.Text), "", steering); err != nil { // attachments go to the sub-agent
			return err
		}
		if problem != "" {
			if err := r.note("", problem); err != nil {
				return err
			}
		}
		if !steering {
			r.pending = &t
			return nil
		}
		_, err := r.delegate(ctx, t) // the recorded end informs the model of the result
		return err
	}, nil
}

// typedTask runs a user turn whose work is done by a sub-agent.
func (r *run) typedTask(ctx context.Context) (reason session.EndReason, err error) {
	end, err := r.delegate(ctx, *r.pending)
	if err != nil {
		return "", err
	}
	switch end.Reason {
	case "": // in the background
		more, err := r.await(ctx)
		if err != nil || !more {
			return session.EndDone, err
		}
		return r.loop(ctx)
	case session.EndError, session.EndCancelled:
		_, err := reportOf(ctx, end)
		return "", err
	}
	r.end.Text = end.Report()
	return end.Reason, nil
}

//go:embed prompts/agent.md
var agentText string

type agentInput struct {
	Agent       string `json:"agent,omitempty" jsonschema:"the agent; general-purpose if left out"`
	Prompt      string `json:"prompt" jsonschema:"the whole task: the agent knows nothing of this conversation"`
	Description string `json:"description,omitempty" jsonschema:"the task in three to five words, for the user"`
	Background  bool   `json:"background,omitempty" jsonschema:"do not wait: a message reports its end"`
}

// agentTool makes the Agent tool. Several calls in one answer run at the same time.
func (r *run) agentTool() tool.Tool {
	text := strings.Replace(strings.TrimSpace(agentText), "{{agents}}", r.agentList(), 1)
	t := tool.New(agentTool, text, func(ctx context.Context, in agentInput, call tool.Input) (tool.Result, error) {
		d, problem := r.definition(in.Agent, nil)
		if strings.TrimSpace(in.Prompt) == "" {
			return tool.Result{}, errors.New("prompt is empty: describe the task of the agent")
		}
		end, err := r.delegate(ctx, task{def: d, call: call.ID, prompt: in.Prompt,
			description: cmp.Or(in.Description, in.Prompt), background: in.Background})
		if err != nil {
			return tool.Result{}, err
		}
		report, err := reportOf(ctx, end)
		res := tool.Result{Details: end}
		if problem != "" {
			res.Parts = append(res.Parts, llm.Text("["+problem+"]"))
		}
		if report != "" {
			res.Parts = append(res.Parts, llm.Text(report))
		}
		return res, err
	})
	describeAgentTool(&t)
	t.Subjects = tool.SubjectsOf(r.agentSubjects)
	return t
}

// describeAgentTool sets the parts of the Agent tool that do not depend on a run.
func describeAgentTool(t *tool.Tool) {
	t.Effect, t.Aliases = tool.Runs, []string{"Agent", "Task"}
	t.Fields = []tool.Field{
		{Name: "agent", Other: []string{"subagent_type", "agent_type"}, Hooks: "subagent_type"},
		{Name: "background", Other: []string{"run_in_background"}, Hooks: "run_in_background"},
	}
	t.Summary = tool.SummaryOf(func(in agentInput) string {
		return cmp.Or(in.Agent, defaultAgent) + ": " + cmp.Or(in.Description, in.Prompt)
	})
}

// Tools returns the tools that an agent adds by itself, Skill and Agent, as rules, hooks and front
// ends need them. They cannot be called; a run makes its own.
func Tools() tool.Set {
	skill := tool.Skill("", func(_ context.Context, name string) []permission.Subject {
		return []permission.Subject{{Kind: permission.KindSkill, Text: name}}
	}, nil)
	agent := tool.New(agentTool, "", func(context.Context, agentInput, tool.Input) (tool.Result, error) {
		return tool.Result{}, nil
	})
	describeAgentTool(&agent)
	agent.Subjects = tool.SubjectsOf(func(_ context.Context, in agentInput) []permission.Subject {
		return []permission.Subject{{Kind: agentTool, Text: cmp.Or(strings.TrimSpace(in.Agent), defaultAgent)}}
	})
	return tool.Set{agent, skill}
}

// agentSubjects returns the permission subject of an Agent call: the agent. What the agent does is
// decided when it does it.
func (r *run) agentSubjects(_ context.Context, in agentInput) []permission.Subject {
	name := cmp.Or(strings.TrimSpace(in.Agent), defaultAgent)
	if d := findDefinition(r.Roster.Agents, name); d != nil {
		name = d.Name
	}
	return []permission.Subject{{Kind: agentTool, Text: name, Default: permission.Allow}}
}

// agentList lists the agents for the model, one per line.
func (r *run) agentList() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, d := range r.Roster.Agents {
		if seen[d.Name] {
			continue
		}
		seen[d.Name] = true
		b.WriteString("- " + d.Name)
		if text := oneLine(d.Description); text != "" {
			b.WriteString(": " + text)
		}
		if d.Tools != nil {
			b.WriteString(" (tools: " + cmp.Or(oneLine(strings.Join(d.Tools, ", ")), "none") + ")")
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}

// maxDescribed limits the description of an agent that a model sees, in characters.
const maxDescribed = 1536

// oneLine makes an untrusted description safe to show on one line of a list.
func oneLine(s string) string {
	s = plain.Line(strings.Join(strings.Fields(s), " "))
	s = strings.ReplaceAll(strings.ReplaceAll(s, "<", "&lt;"), ">", "&gt;")
	if rs := []rune(s); len(rs) > maxDescribed {
		s = string(rs[:maxDescribed-1]) + "…"
	}
	return s
}
