package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A sub-agent is the same loop on an empty log: a run with a parent. What it spends also counts for
// its parents, its events are passed on to them, and the parent's log names the sub-agent's log.

// subAgents start agents, do their work and record how they end. They need the whole run, because a sub-agent is one.
type subAgents struct {
	*run
	made    *tool.Tool // the Agent tool; nil: not made yet
	pending *task      // a typed skill that runs in a sub-agent
}

// An origin is what the run of a sub-agent knows about its start. The zero origin is that of a run
// that the user started.
type origin struct {
	parent    *run
	subRecord session.Agent // what the parent records about it
	def       *Definition
	bounds    []gate.Bound
	guards    []hook.Hook // the hooks of its definition and of the skills that restrict it
}

// maxDepth is how deeply sub-agents may be nested.
const maxDepth = 4

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

// runs reports whether a skill runs in a sub-agent here.
func (r *subAgents) runs(s *knack.Skill) bool { return s.Fork && r.Roster.New != nil }

// mayStart returns an error if a sub-agent would be nested too deeply, or would run a skill that one
// of the agents above it is already running. skill is "" if no skill is run.
func (r *subAgents) mayStart(skill string) error {
	for x := r.run; x.parent != nil && skill != ""; x = x.parent {
		if x.subRecord.Skill == skill {
			return &knack.Refusal{Code: knack.RefusedRunning, Message: skill +
				" is already running: this agent was started to do it"}
		}
	}
	if r.depth() >= maxDepth {
		return &knack.Refusal{Code: knack.RefusedRunning,
			Message: fmt.Sprintf("agents start others at most %d deep: do it here", maxDepth)}
	}
	return nil
}

// ask asks the gate whether the agent that a skill names may be started, because a rule against
// the agent applies whether a model or a skill starts it.
func (r *subAgents) ask(ctx context.Context, call string, d *Definition) error {
	t := r.tool()
	if _, err := r.askGate(ctx, &t, call, agentInput{Agent: d.Name}); err != nil {
		return &knack.Refusal{Code: knack.RefusedByRule, Message: err.Error()}
	}
	return nil
}

// of returns the agent in which a skill runs. If the skill names one that does not exist, the
// activation gets a Problem.
func (r *subAgents) of(act *knack.Activation) (d *Definition, problem string) {
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

// delegate runs a task in a sub-agent and returns how it ended. For a background task it returns at
// once, and Reason is empty.
func (r *subAgents) delegate(ctx context.Context, t task) (session.Agent, error) {
	skill := ""
	if t.act != nil {
		skill = t.act.Skill.Name
	}
	if err := r.mayStart(skill); err != nil {
		return session.Agent{}, err
	}
	if err := t.def.usable(); err != nil {
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
	child, log, err := r.Roster.New(ctx, t.def)
	if err != nil {
		return session.Agent{}, fmt.Errorf("the agent %s cannot be started: %w", t.def.Name, err)
	}
	what := session.Agent{Name: t.def.Name, Log: log.ID(), Call: t.call, Skill: skill, Task: t.description,
		Background: t.background && r.Roster.Background != nil}
	if t.act != nil {
		what.Args = t.act.Args
	}
	r.configure(ctx, child, t.def)
	sub := newRun(child, log)
	sub.origin = origin{parent: r.run, subRecord: what, def: t.def}
	sub.bounds, sub.guards = r.boundsOf(t.def, child.Servers.Rules)
	sub.ledger.parent = r.ledger
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
	err = r.recordEntry(what)
	if err == nil {
		err = r.log.Sync()
	}
	if err != nil {
		if child.Ended != nil {
			child.Ended(context.WithoutCancel(ctx))
		}
		log.Close()
		return session.Agent{}, fmt.Errorf("the agent was not started, because the session cannot be written: %w", err)
	}
	if what.Background {
		sub.emit = func(Event) {} // its events are emitted when it has ended, see finished
		return what, r.Roster.Background.start(ctx, r.log, sub, t)
	}
	end := sub.agents.work(ctx, t)
	return end, r.recordEntry(end)
}

// work does the task of a sub-agent, closes its log and returns how it ended.
func (r *subAgents) work(ctx context.Context, t task) session.Agent {
	defer r.log.Close()
	if r.Servers.Start != nil {
		defer r.Servers.Start(ctx)()
	}
	a := r.subRecord
	err := r.recordTask(ctx, t)
	end := &End{Reason: session.EndCancelled}
	if err == nil {
		end, err = r.runTurn(ctx)
	}
	switch {
	case err == nil:
		a.Reason, a.Result = end.Reason, end.Text
		if end.Reason == session.EndStopped {
			r.parent.hooks.answers.End(hook.End{Why: end.Why, ByUser: end.ByUser})
		}
	case ctx.Err() != nil:
		a.Reason = session.EndCancelled
	default:
		a.Reason, a.Error = session.EndError, err.Error()
	}
	state := r.log.State()
	a.Requests, _, _ = r.ledger.total()
	a.Usage, a.Cost, a.Denials = state.Usage, state.Cost, state.Denials
	if r.Ended != nil {
		if text := r.Ended(context.WithoutCancel(ctx)); text != "" {
			a.Result = strings.TrimPrefix(a.Result+"\n\n"+text, "\n\n")
		}
	}
	return a
}

// recordTask records a task as the first entries of an empty log.
func (r *subAgents) recordTask(ctx context.Context, t task) error {
	if err := r.listing.showListing(); err != nil {
		return err
	}
	var err error
	if t.act != nil {
		r.lastTyped = t.in.Typed
		err = r.activate(ctx, t.act, session.ByTask, t.call, t.in)
	} else {
		err = r.recordUser(Text(t.prompt), "", false)
	}
	if err == nil {
		_, err = r.hooks.fire(ctx, hook.Input{Event: hook.SubagentStart})
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
// model, but the skill is loaded into this conversation even if it has context: fork.
func (r *subAgents) preload(ctx context.Context, name string) error {
	name = tool.SkillName(name)
	inv := knack.Invocation{Name: name, By: knack.ByModel}
	var unseen *knack.Problem
	if s := r.Skills.Catalog().Skill(name); s != nil {
		var err error
		if inv.Hash, err = r.askSkill(ctx, s, name, "preload", inv.By); err != nil {
			return err
		}
		if r.Policy.Admit != nil {
			if _, err := r.Policy.Admit(ctx, SkillCall{Skill: s, By: inv.By}); err != nil { // nobody is asked about its rules
				return err
			}
		}
		asks, err := s.Asks(ctx)
		if err != nil {
			return err
		}
		unseen = seen(r.review, s, asks, &inv)
	}
	act, err := r.Skills.Catalog().Invoke(ctx, r.fillInvocation(inv))
	if err != nil {
		return err
	}
	if unseen != nil {
		act.Problems = append(act.Problems, *unseen)
	}
	return r.activate(ctx, act, session.ByAgent, "", Input{})
}

// recordEntry records that a sub-agent started or ended. It may be called from any goroutine.
func (r *subAgents) recordEntry(a session.Agent) error {
	_, err := r.log.Append(session.Entry{Type: session.TypeAgent, Agent: &a})
	if r.calls != nil {
		r.calls <- Event{}
	} else {
		r.emitRecorded()
	}
	return err
}

// forward emits an event of a sub-agent. While calls run, it goes through the goroutine that emits.
func (r *subAgents) forward(e Event) {
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

// input calls a typed skill that runs in a sub-agent: the typed line begins the turn, and the
// agent's answer becomes the result of the turn.
func (r *subAgents) input(ctx context.Context, act *knack.Activation, in Input, steering bool) (func() error, error) {
	def, problem := r.of(act)
	if err := r.ask(ctx, "", def); err != nil {
		return nil, err
	}
	if err := r.hooks.onCommand(ctx, in.Text, steering, nil); err != nil {
		return nil, err
	}
	t := task{def: def, act: act, in: in, description: act.Notice, background: act.Skill.Background}
	return func() error {
		// Attachments go to the sub-agent.
		if err := r.recordUser(Input{Text: in.Text, Typed: in.Typed}, "", steering); err != nil {
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
func (r *subAgents) typedTask(ctx context.Context) (reason session.EndReason, err error) {
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
