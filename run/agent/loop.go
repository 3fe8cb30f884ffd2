package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A run is the state of one user turn: a loop of requests and calls, with steps before, between and after them.
type run struct {
	*turn
	start     time.Time
	lastTyped string // what the user typed last; only these words may call a skill that models may not call
	end       End
	fallbacks fallbacks
	repeats   repeats
	continued continuation
	abandoned bool         // the caller has stopped iterating
	calls     chan<- Event // while calls run: leads to the goroutine that emits

	listing     *announcements
	dynamic     *dynamicTools
	releases    *releases
	compactions *compactions
	agents      *subAgents
	hooks       *runHooks
	before      []step // in order, before each request
	goOn        []more // in order, after an answer without calls: the first that says so makes the run go on

	fixedSet tool.Set       // the fixed tools, with the Skill tool; nil: not made yet
	reviews  map[int]Review // of the skills in use, by the entry of their activation; changes only between calls

	indexing context.CancelFunc // stops building the index for suggestions; nil: not running
	indexed  sync.WaitGroup

	origin
}

// A step is what a run does before a request. Its error ends the run.
type step func(context.Context) error

// more reports whether a run goes on after an answer without calls.
type more func(context.Context, *llm.Response) (bool, error)

// newRun returns a run that emits nothing.
func newRun(a *Agent, log *session.Log) *run {
	t := &turn{Agent: a, log: log, ledger: &ledger{before: log.Paid()}, emit: func(Event) {},
		lastEmitted: log.Last()}
	r := &run{turn: t, start: time.Now(), fallbacks: fallbacks{models: a.Fallback}}
	r.listing, r.dynamic, r.agents = &announcements{turn: t}, &dynamicTools{turn: t}, &subAgents{run: r}
	r.hooks = &runHooks{turn: t, origin: &r.origin, inUse: r.reviewOf}
	r.releases = &releases{t, r.hooks, r.overhead}
	r.compactions = &compactions{turn: t, hooks: r.hooks, overhead: r.overhead, cut: r.listing.forget}
	// What they record is part of the prompt: another order would lose the provider's cache.
	r.before = []step{r.releases.expired, r.compactions.ifNearLimit, r.listing.announce, t.addRules, r.dynamic.announce,
		t.addNotice, func(context.Context) error { _, err := r.hooks.late(); return err }}
	r.goOn = []more{
		r.unfinished,
		func(ctx context.Context, _ *llm.Response) (bool, error) { return r.steer(ctx) },
		func(context.Context, *llm.Response) (bool, error) { return r.hooks.late() },
		func(ctx context.Context, _ *llm.Response) (bool, error) { return r.agents.await(ctx) },
		r.hooks.onStop,
		r.onEnd,
	}
	return r
}

func (r *run) do(ctx context.Context, in Input) (*End, error) {
	if r.Model == nil {
		return nil, errors.New("the agent has no model")
	}
	r.lastEmitted = r.log.Last()
	r.end.Denials = -r.log.State().Denials
	started, err := r.begin(ctx, in)
	switch {
	case err != nil && ctx.Err() != nil: // before the turn began: nothing is recorded
		return &End{Reason: session.EndCancelled}, nil
	case err != nil:
		return nil, err
	case started:
		return r.runTurn(ctx)
	}
	return &End{Reason: session.EndDone}, nil // a template whose text is empty
}

// runTurn runs a user turn, whose first message is already recorded, and records its end.
func (r *run) runTurn(ctx context.Context) (end *End, err error) {
	ctx, ended := r.Observe.Begin(ctx, Step{Log: r.log, Agent: subOf(r.subRecord, r.depth()), Skill: r.subRecord.Skill})
	defer func() { ended(Outcome{Err: err, End: end}) }()
	defer r.stopIndexing()
	var reason session.EndReason
	if r.agents.pending != nil {
		reason, err = r.agents.typedTask(ctx)
	} else {
		reason, err = r.loop(ctx)
	}
	var timeout *timeLimit
	switch {
	case err == nil || ctx.Err() == nil:
	case errors.As(context.Cause(ctx), &timeout):
		reason, err = session.EndLimit, r.recordLimit(LimitTime, timeout.Error())
	default:
		reason, err = session.EndCancelled, nil
	}
	if err != nil {
		r.hooks.failed(ctx, err)
	}
	if e := r.agents.stopBackground(reason == session.EndCancelled || timeout != nil); e != nil {
		return nil, errors.Join(err, e)
	}
	r.end.Reason = reason
	what := session.TurnEnd{Reason: reason}
	if err != nil {
		what.Reason, what.Error = session.EndError, err.Error()
	}
	if _, e := r.record(session.Entry{Type: session.TypeTurnEnd, TurnEnd: &what}); e != nil {
		return nil, errors.Join(err, e)
	}
	if e := errors.Join(r.releases.ended(ctx), r.log.Sync()); e != nil {
		return nil, errors.Join(err, e)
	}
	if err != nil {
		return nil, err
	}
	r.end.Denials += r.log.State().Denials
	r.end.Requests, r.end.Usage, r.end.Cost = r.ledger.total()
	return &r.end, nil
}

// loop sends requests and runs calls until the model makes no more calls. Keep it short enough to
// read at once.
func (r *run) loop(ctx context.Context) (reason session.EndReason, err error) {
	for {
		if end := r.hooks.answers.Ended(); end != nil {
			if end.Program {
				return session.EndLimit, r.recordLimit(LimitAudit, end.Why)
			}
			r.end.Why, r.end.ByUser = end.Why, end.ByUser
			return session.EndStopped, nil
		}
		if limit, why := r.reachedLimit(); why != "" {
			return session.EndLimit, r.recordLimit(limit, why)
		}
		for _, step := range r.before {
			if err := step(ctx); err != nil {
				return "", err
			}
		}
		answer, err := r.ask(ctx)
		if err != nil {
			return "", err
		}
		calls := callsOf(answer.Message)
		if len(calls) == 0 {
			if on, err := r.goesOn(ctx, answer); err != nil {
				return "", err
			} else if on {
				continue
			}
			if why := r.ledger.overspent(r.Limits.Cost); why != "" {
				return session.EndLimit, r.recordLimit(LimitCost, why)
			}
			return session.EndDone, nil
		}
		r.continued, r.end.Unfinished = continuation{}, ""
		results := r.call(ctx, calls, answer.Stop == llm.MaxTokens)
		if err := r.recordResults(ctx, calls, results); err != nil {
			return "", err
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if tool.Terminates(results) {
			for _, res := range results {
				r.end.Text = cmp.Or(res.Answer, r.end.Text)
			}
			return session.EndTerminated, nil
		}
		if r.repeats.n >= stopAfter {
			return session.EndLimit, r.recordLimit(LimitRepeated,
				fmt.Sprintf("the same call gave the same result %d times in a row", r.repeats.n))
		}
		if _, err := r.steer(ctx); err != nil {
			return "", err
		}
		if _, _, err := r.agents.finished(); err != nil {
			return "", err
		}
	}
}

// onEnd asks [Agent.GoOn] whether the turn may end.
func (t *turn) onEnd(ctx context.Context, _ *llm.Response) (bool, error) {
	if t.GoOn == nil {
		return false, nil
	}
	note, err := t.GoOn(ctx)
	if note == nil || err != nil {
		return false, err
	}
	_, err = t.record(session.Entry{Type: session.TypeNote, Note: note})
	return note.Model != "", err
}

// goesOn reports whether the run goes on after an answer without calls.
func (r *run) goesOn(ctx context.Context, answer *llm.Response) (bool, error) {
	for _, more := range r.goOn {
		if on, err := more(ctx, answer); on || err != nil {
			return on, err
		}
	}
	return false, nil
}

// unfinished asks the model to go on with an answer that is not whole, and reports whether it did.
func (r *run) unfinished(_ context.Context, answer *llm.Response) (bool, error) {
	model, people := r.continued.next(answer, &r.end)
	if model == "" {
		if name := writtenCall(answer, r.tools(r.log.State())); name != "" {
			return false, r.noteWritten(name)
		}
		return false, nil
	}
	return true, r.note(model, people)
}

// ask sends one request, repeats it after temporary failures, and records the answer.
func (r *run) ask(ctx context.Context) (*llm.Response, error) {
	state := r.log.State()
	model, effort := r.effectiveModel(state)
	if other := r.fallbacks.of(model); other != nil {
		model = other
	}
	compacted := false
	var left withheld
	var partial *llm.Response // of the last attempt that received text
	for attempt := 0; ; attempt++ {
		req := &llm.Request{
			System: r.System, Tools: r.tools(state).Specs(), Messages: withhold(r.messages(), left.hashes),
			Effort: effort, Session: r.log.ID(), Memo: r.log.Memo(), LeftOut: r.LeftOut,
			Whole: r.Whole,
		}
		r.emit(Event{Request: &Request{Model: model.Info().ID, Effort: effort, Attempt: attempt}})
		done := r.debugRequest(model, req)
		answer, err := r.stream(ctx, model, req)
		done(answer, err)
		if err == nil {
			if err := r.recordWithheld(&left); err != nil {
				return nil, err
			}
			cost := model.Info().Price.Cost(answer.Usage)
			r.ledger.spend(1, answer.Usage, cost)
			if t := llm.TextOf(answer.Message.Parts); t != "" {
				r.end.Text = *cmp.Or(r.shown, &t)
			}
			_, err := r.record(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{
				Message: answer.Message, Stop: answer.Stop, Usage: answer.Usage, Cost: cost, Model: model.Info().ID,
			}})
			if err != nil {
				return nil, err
			}
			return answer, r.log.Sync()
		}
		if answer != nil {
			partial = answer
		}
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), r.recordPartial(partial, model))
		}
		if left.more(err, req.Messages) {
			attempt--
			continue
		}
		if !r.NoCompact && r.compactions.tooLong(err, attempt) {
			if err := r.compactions.overflow(ctx, err, compacted); err != nil {
				return nil, err
			}
			if err := r.listing.announce(ctx); err != nil {
				return nil, err
			}
			compacted = true
			attempt--
			continue
		}
		next, failed := r.fallBack(ctx, model, attempt, err)
		if failed != nil {
			return nil, failed
		}
		if next != nil {
			model, attempt = next, -1
			continue
		}
		if err := r.retry(ctx, attempt, err); err != nil {
			return nil, errors.Join(err, r.recordPartial(partial, model))
		}
	}
}

// recordPartial records what was received of an answer that did not end; nil: nothing was. Its calls never ran.
func (r *run) recordPartial(answer *llm.Response, model llm.Model) error {
	if answer == nil {
		return nil
	}
	t := llm.TextOf(answer.Message.Parts)
	r.end.Text = *cmp.Or(r.shown, &t)
	_, err := r.record(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{
		Message: answer.Message, Model: model.Info().ID, Partial: true,
	}})
	return err
}

// stream reads one answer. If it fails, it returns the text received before the error.
func (r *run) stream(ctx context.Context, m llm.Model, req *llm.Request) (*llm.Response, error) {
	var partial strings.Builder
	underway := make(chan struct{})
	sent := sync.OnceFunc(func() {
		close(underway)
		r.sent()
	})
	defer sent()
	r.startIndexing(ctx, underway)
	var set *hook.Set
	if r.depth() == 0 { // what agents write is not shown as an answer
		set = r.hooks.inEffect(r.log.State().Scopes)
	}
	shown := newDisplay(r.emit, set)
	for ev, err := range m.Stream(llm.OnSent(ctx, sent), req) {
		sent() // not every model calls it
		if err != nil {
			return part(partial.String()), err
		}
		switch {
		case ev.Done != nil:
			shown.end(ctx)
			return ev.Done, nil
		case ev.Text != "":
			partial.WriteString(ev.Text)
			r.shown = shown.text() // also if the rest does not come
			shown.add(ctx, ev.Text)
		case ev.Thinking != "":
			r.emit(Event{Thinking: ev.Thinking})
		}
		if ctx.Err() != nil {
			return part(partial.String()), context.Cause(ctx)
		}
	}
	return part(partial.String()), &llm.Error{Kind: llm.Broken, Message: "the model's stream ended before its answer did"}
}

func part(text string) *llm.Response {
	if text == "" {
		return nil
	}
	return &llm.Response{Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text(text)}}}
}

// call runs the calls of one answer and returns their results in call order.
func (r *run) call(ctx context.Context, calls []llm.ToolCall, cut bool) []tool.Result {
	if cut {
		results := make([]tool.Result, len(calls))
		for i, c := range calls {
			results[i] = tool.Unfinished(c)
		}
		return results
	}
	state := r.log.State()
	calls = namedCalls(calls, state)
	for i := range calls {
		r.emit(Event{Call: &calls[i]})
	}
	sc := r.scopes(state)
	hooks := sc.Hooks // used until all of these calls have ended
	r.hooks.set, r.hooks.inCalls = hooks, true
	var guard tool.Gate
	if r.Policy.Gate != nil {
		guard = r.Policy.Gate(sc)
	}
	events := make(chan Event) // an empty event means: emit new log entries
	r.calls = events
	defer func() { r.calls = nil }()
	tools := r.withMissing(r.tools(state), calls)
	for i := range tools {
		tools[i] = r.hooks.afterTool(hooks, r.withRecordedStart(tools[i], func() { events <- Event{} }))
	}
	if hooks != nil {
		hooks.Locate = tools.Located // of an agent with a worktree of its own: there
	}
	aliased := r.aliased(calls, tools)
	observed := r.observedCalls(subOf(r.subRecord, r.depth()), calls, aliased, tools)
	var results []tool.Result
	go func() {
		defer close(events)
		results = tool.CallAll(ctx, tools, aliased, guard, tool.Listener{
			Begin:    observed.begin,
			Started:  func(i int) { events <- Event{Started: &Started{Call: calls[i].ID}} },
			Progress: func(i int, res tool.Result) { events <- Event{Progress: &Progress{Call: calls[i].ID, Result: res}} },
			Ended: func(i int, res tool.Result) {
				observed.end(i, res)
				events <- Event{Ended: &Ended{Call: calls[i].ID, Result: res}}
			},
			Refused: func(p tool.Proposal, err error) { r.hooks.onRefused(ctx, hooks, p, err) },
			Stopped: func() bool {
				end := r.hooks.answers.Ended()
				return end != nil && end.ByUser
			},
		})
	}()
	for e := range events {
		r.emitRecorded()
		if e.Started != nil || e.Progress != nil || e.Ended != nil || e.Agent != nil {
			r.emit(e)
		}
	}
	return results
}

// aliased returns the calls with the names and inputs of the tools that Aliases chooses.
func (a *Agent) aliased(calls []llm.ToolCall, tools tool.Set) []llm.ToolCall {
	if len(a.Aliases) == 0 {
		return calls
	}
	calls = slices.Clone(calls)
	for i := range calls {
		c := &calls[i]
		names := []string{c.Name}
		t, known := tools.Find(c.Name)
		if known {
			names = append(names, t.Names()...)
		}
		for _, name := range names {
			other, ok := a.Aliases[name]
			if !ok {
				continue
			}
			if known {
				c.Input = t.Encode(c.Input)
			}
			c.Name = other
			break
		}
	}
	return calls
}

// recordResults records results in call order, and after all of them the texts of activated skills.
func (r *run) recordResults(ctx context.Context, calls []llm.ToolCall, results []tool.Result) error {
	r.repeats.count(calls, results)
	for i, res := range results {
		details := detailsOf(res)
		if len(res.Parts) == 0 {
			res.Parts = []llm.Part{llm.Text(llm.NoOutput)}
		}
		result := session.Result{
			ToolResult: llm.ToolResult{ID: calls[i].ID, Name: calls[i].Name, Parts: media.Parts(res.Parts),
				IsError: res.IsError},
			People: res.People, Details: details, Form: formOf(res), Touched: res.Touched, Spent: res.Spent,
		}
		for _, x := range res.Spent {
			r.ledger.spend(0, x.Usage, x.Cost)
		}
		if own, ok := r.hooks.original(calls[i].ID); ok {
			result.Original = &session.Original{Parts: own.Parts, Details: detailsOf(own)}
		}
		if _, err := r.record(session.Entry{Type: session.TypeResult, Result: &result}); err != nil {
			return err
		}
	}
	if err := r.hooks.afterCalls(ctx, namedCalls(calls, r.log.State()), results); err != nil {
		return err
	}
	for i, res := range results {
		if res.Activation != nil {
			if err := r.activate(ctx, res.Activation, session.ByModel, calls[i].ID, Input{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// detailsOf returns the part of a result that is for programs: its details, or else its structured form; nil: none.
func detailsOf(res tool.Result) json.RawMessage {
	forPrograms := res.Details
	if forPrograms == nil { // the tool returned no details apart from its structured result
		forPrograms = res.Structured
	}
	details, err := json.Marshal(forPrograms)
	if err != nil || string(details) == "null" {
		return nil
	}
	return details
}

// formOf returns the form that the details of a result say they have. One of another program's structured result is
// never believed.
func formOf(res tool.Result) session.Form {
	if d, ok := res.Details.(interface{ Form() session.Form }); ok {
		return d.Form()
	}
	return ""
}

func (r *run) messages() []llm.Message {
	ms := withhold(r.log.Project(), r.log.State().Withheld)
	if r.Project != nil {
		ms = r.Project(slices.Clone(ms))
	}
	return ms
}

func callsOf(m llm.Message) []llm.ToolCall {
	var calls []llm.ToolCall
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}
