package agent

import (
	"context"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// An Observer is called when a step begins, by any goroutine. What happens in the step gets the context that it
// returns, also the steps inside it; ended, which may be nil, is called once, when the step has ended. It must not
// block: the run waits for it.
type Observer func(ctx context.Context, s Step) (_ context.Context, ended func(Outcome))

// A Step is a part of a run that takes time: a turn, a call, or a question to the user. Requests are not among them,
// because an [llm.Model] can be wrapped.
type Step struct {
	Log   *session.Log // of the conversation; nil for a question
	Agent *Sub         // the sub-agent whose turn or call it is; nil: that of the run itself
	Skill string       // of a turn: the skill that is a sub-agent's task; "": none is

	Call *llm.ToolCall // the model's call, from before it is decided until it has ended; nil: it is none
	Tool *tool.Tool    // the tool that runs; nil: there is no such tool, and the call has failed

	Asks string // of a question: what it is about, "permission" or "question"; "": it is none
}

// An Outcome is how a step ended.
type Outcome struct {
	Err    error        // why a turn or a question failed; nil: it did not
	End    *End         // of a turn; nil: it failed
	Result *tool.Result // of a call
	No     bool         // of a question: the user declined
}

// Begin begins a step. o may be nil; ended is never nil.
func (o Observer) Begin(ctx context.Context, s Step) (_ context.Context, ended func(Outcome)) {
	if o != nil {
		ctx, ended = o(ctx, s)
	}
	if ended == nil {
		ended = func(Outcome) {}
	}
	return ctx, ended
}

// subOf describes a sub-agent; nil: a is zero, because the user started the run.
func subOf(a session.Agent, depth int) *Sub {
	if a.Log == "" {
		return nil
	}
	return &Sub{Name: a.Name, Log: a.Log, Call: a.Call, Depth: depth}
}

// observedCalls are the calls of one answer, as an Observer sees them; nil: nobody does.
type observedCalls struct {
	observer Observer
	step     Step // without the call
	calls    []llm.ToolCall
	tools    []*tool.Tool
	ended    []func(Outcome)
}

// observedCalls returns the calls of an answer, for which aliased has the names of the tools that run.
func (r *turn) observedCalls(of *Sub, calls, aliased []llm.ToolCall, tools tool.Set) *observedCalls {
	if r.Observe == nil {
		return nil
	}
	all := &observedCalls{observer: r.Observe, step: Step{Log: r.log, Agent: of}, calls: calls,
		tools: make([]*tool.Tool, len(calls)), ended: make([]func(Outcome), len(calls))}
	for i := range calls {
		all.tools[i], _ = tools.Find(aliased[i].Name)
	}
	return all
}

// begin returns the context of a call.
func (o *observedCalls) begin(ctx context.Context, i int) context.Context {
	if o == nil {
		return ctx
	}
	s := o.step
	s.Call, s.Tool = &o.calls[i], o.tools[i]
	ctx, o.ended[i] = o.observer.Begin(ctx, s)
	return ctx
}

func (o *observedCalls) end(i int, r tool.Result) {
	if o != nil {
		o.ended[i](Outcome{Result: &r})
	}
}
