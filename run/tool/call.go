package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
)

// A Gate decides whether a call may run. The text of its error explains to the model why
// a call may not run. Ask may block as long as a user needs to answer.
//
// A nil Gate makes no decisions: it lets only those calls run whose every subject has
// the Default Allow, such as the call of a skill that asks for nothing.
type Gate interface {
	Ask(ctx context.Context, p Proposal) (Permit, error)
}

// A GateFunc is a func that implements Gate.
type GateFunc func(context.Context, Proposal) (Permit, error)

func (f GateFunc) Ask(ctx context.Context, p Proposal) (Permit, error) { return f(ctx, p) }

// AllowAll is a Gate that allows every call. It is meant for tests, and for programs
// whose tools can do no harm.
var AllowAll Gate = GateFunc(func(ctx context.Context, p Proposal) (Permit, error) {
	subjects, err := p.SubjectsFor(ctx, p.Input)
	return Permit{Input: p.Input, Subjects: subjects}, err
})

// InlineCall is the ID of the Proposal of an inline command of a skill, which no model calls.
const InlineCall = "inline"

// A Proposal is a call on which a [Gate] has to decide. Most Proposals come from a model
// and are made by [Call]; a program makes its own to apply the same rules to its
// actions.
type Proposal struct {
	ID    string          // of the call, or InlineCall
	Name  string          // of the tool
	Label string          // for the user; "": Name
	Input json.RawMessage // checked against the tool's schema
	Tool  *Tool           // nil: no tool of that name exists
	// Inline describes an inline command; nil: it is the call of a tool.
	Inline *Inline
	// Subjects returns what the call would do with an input, which hooks or the user may
	// have changed. nil means the tool's name with no text.
	Subjects func(ctx context.Context, input json.RawMessage) ([]permission.Subject, error)
}

// An Inline is what hooks are told about an inline command of a skill.
type Inline struct {
	Skill  string
	Source string // of the skill
	Shell  string // PowerShell; "": that of the tool
	By     string // user or claude: who called the skill
}

// A Permit describes what may run: this input, with these effects and no others.
type Permit struct {
	Input    json.RawMessage
	Subjects []permission.Subject
	Limits   []workspace.Limit // for the commands that the call runs
	// Scripts are the files that these commands run and whose content was approved.
	Scripts []workspace.Script
	// Allow is what rules and the user's answer to this call allow for these commands.
	Allow workspace.Allowance
	// Closed is that of [Input].
	Closed func(named ...string) func(path string) bool
	// Output is that of [Input].
	Output string
}

// Propose returns the Proposal for a call of the tool.
func (t *Tool) Propose(id string, input json.RawMessage) Proposal {
	return Proposal{ID: id, Name: t.Name, Label: t.Label, Input: input, Tool: t, Subjects: t.Subjects}
}

// SubjectsFor returns the subjects of the call for an input.
func (p *Proposal) SubjectsFor(ctx context.Context, input json.RawMessage) ([]permission.Subject, error) {
	subjects, err := []permission.Subject{{Kind: permission.Kind(p.Name)}}, error(nil)
	if p.Subjects != nil {
		subjects, err = p.Subjects(ctx, input)
	}
	if err != nil {
		return nil, err
	}
	subjects = slices.Clone(subjects)
	for i := range subjects {
		subjects[i].Tool = p.Name
		if p.Tool != nil {
			subjects[i].Aliases, subjects[i].ReadOnly = &p.Tool.Aliases, p.Tool.Effect.ReadOnly()
		}
	}
	return subjects, nil
}

// Changes returns the changes in files that the call would make with an input.
func (p *Proposal) Changes(ctx context.Context, input json.RawMessage) ([]Change, error) {
	if p.Tool == nil || p.Tool.Changes == nil {
		return nil, nil
	}
	return p.Tool.Changes(ctx, input)
}

// Decide asks a gate, which may be nil, about the call.
func (p Proposal) Decide(ctx context.Context, g Gate) (Permit, error) {
	if g != nil {
		return g.Ask(ctx, p)
	}
	subjects, err := p.SubjectsFor(ctx, p.Input)
	if err != nil {
		return Permit{}, err
	}
	if slices.ContainsFunc(subjects, func(s permission.Subject) bool { return s.Default != permission.Allow }) {
		return Permit{}, fmt.Errorf("%s is not allowed: there is no user to ask", p.Name)
	}
	return Permit{Input: p.Input, Subjects: subjects}, nil
}

// Call runs one call and returns its result. It looks up the tool, checks the input and
// asks the gate. progress, if not nil, receives partial results, one at a time, at most
// every 100 ms and never after Call has returned. A panic in the tool becomes an error
// result, with the stack in the log. If ctx ends, the result contains the output until
// then, followed by a note.
func Call(ctx context.Context, tools Set, call llm.ToolCall, gate Gate, progress func(Result)) Result {
	t, in, res := prepare(ctx, tools, call)
	if t == nil {
		return res
	}
	if in, res, ok := t.decide(ctx, in, gate, nil); ok {
		return t.run(ctx, in, progress)
	} else {
		return res
	}
}

// A Listener receives the progress of calls, which it identifies by index. Its funcs are
// called from several goroutines; a nil func is not called.
type Listener struct {
	// Begin returns the context in which a call is decided and runs, made from that of all calls. Ended follows. nil: it
	// is the same.
	Begin    func(ctx context.Context, i int) context.Context
	Started  func(i int)           // the call is allowed and waits for no other one
	Progress func(i int, r Result) // the partial result
	Ended    func(i int, r Result)
	// Refused is called when the gate does not allow a call, before the next call is decided.
	Refused func(p Proposal, err error)

	// Stopped reports whether the user has ended the run: the calls that are not yet decided are refused, and the gate
	// is not asked. nil: never.
	Stopped func() bool
}

func (l Listener) begin(ctx context.Context, i int) context.Context {
	if l.Begin == nil {
		return ctx
	}
	return l.Begin(ctx, i)
}

func (l Listener) ended(i int, r Result) {
	if l.Ended != nil {
		l.Ended(i, r)
	}
}

// CallAll runs the calls of one answer of the model and returns their results in the
// order of the calls. The gate is asked about one call at a time, in that order, as soon
// as the previous one is decided. Calls run concurrently unless a tool requires an order
// ([Tool].Ordered, [Tool].Key). A call that previews its changes is decided after the
// calls that it waits for have ended.
func CallAll(ctx context.Context, tools Set, calls []llm.ToolCall, gate Gate, to Listener) []Result {
	results := make([]Result, len(calls))
	ended := make([]chan struct{}, len(calls)) // closed when a call has ended
	byKey := map[string]chan struct{}{}        // the last call with each key
	var all sync.WaitGroup
	barrier := -1 // index of the last ordered call
	for i, call := range calls {
		ended[i] = make(chan struct{})
		ctx := to.begin(ctx, i)
		t, in, res := prepare(ctx, tools, call)
		if t == nil {
			results[i] = res
			to.ended(i, res)
			close(ended[i])
			continue
		}
		before := func() []chan struct{} { // returns the calls to wait for
			wait := ended[:0]
			if t.Ordered {
				wait = ended[:i]
			} else if barrier >= 0 {
				wait = ended[barrier : barrier+1]
			}
			if c, ok := byKey[t.key(ctx, in)]; ok {
				wait = append(slices.Clip(wait), c)
			}
			return wait
		}
		if t.Changes != nil {
			for _, c := range before() {
				<-c
			}
		}
		var ok bool
		if to.Stopped != nil && to.Stopped() {
			res = Errorf("%s was not run: the user ended the run", t.Name)
		} else {
			in, res, ok = t.decide(ctx, in, gate, to.Refused)
		}
		if !ok {
			results[i] = res
			to.ended(i, res)
			close(ended[i])
			continue
		}
		wait := before()
		if t.Ordered {
			barrier = i
		}
		if key := t.key(ctx, in); key != "" {
			byKey[key] = ended[i]
		}
		var show func(Result)
		if to.Progress != nil {
			show = func(r Result) { to.Progress(i, r) }
		}
		run := func() {
			defer close(ended[i])
			for _, before := range wait {
				<-before
			}
			if to.Started != nil {
				to.Started(i)
			}
			results[i] = t.run(ctx, in, show)
			to.ended(i, results[i])
		}
		if i == len(calls)-1 { // most answers have only one call: it needs no goroutine
			run()
		} else {
			all.Go(run)
		}
	}
	all.Wait()
	return results
}

// Terminates reports whether all results of an answer ask to end the run.
func Terminates(results []Result) bool {
	for _, r := range results {
		if !r.Terminate {
			return false
		}
	}
	return len(results) > 0
}

// Unfinished returns the result of a call that the model could not finish writing
// because the answer reached its output limit. Such a call is not run.
func Unfinished(call llm.ToolCall) Result {
	res := Errorf("%s was not run: the answer met the output limit before the call was complete. Call it again with a "+
		"shorter input, in several calls if necessary.", call.Name)
	res.People = "failed: the model's answer was cut in the middle of this call"
	return res
}

// prepare finds the tool of a call and checks its input. If it returns a nil Tool, the
// Result describes what is wrong.
func prepare(ctx context.Context, tools Set, call llm.ToolCall) (_ *Tool, _ Input, res Result) {
	found, ok := tools.Find(call.Name)
	if !ok {
		res := Errorf("%s", unknownTool(call.Name, tools))
		res.People = "failed: there is no such tool"
		return nil, Input{}, res
	}
	t := *found
	defer recovered(t.Name, call, &res)
	normalised, err := t.Normalised(call.Input)
	if err != nil {
		return nil, Input{}, invalidInput(err)
	}
	if context.Cause(ctx) != nil {
		return nil, Input{}, markInterrupted(ctx, t.Name, Result{})
	}
	return &t, Input{ID: call.ID, JSON: normalised, Progress: func(Result) {}}, Result{}
}

// decide asks the gate about a call. If the call may not run, ok is false and the Result
// says why. refused may be nil.
func (t *Tool) decide(ctx context.Context, in Input, gate Gate, refused func(Proposal, error)) (_ Input, res Result,
	ok bool) {
	defer recovered(t.Name, llm.ToolCall{ID: in.ID, Input: in.JSON}, &res)
	p := t.Propose(in.ID, in.JSON)
	permit, err := p.Decide(ctx, gate)
	if err != nil {
		if refused != nil {
			refused(p, err)
		}
		res := failure(err)
		if ctx.Err() != nil {
			res.People = Aborted
		}
		if t.Denied != nil {
			res.Structured = t.Denied(in.JSON)
		}
		return in, res, false
	}
	if !bytes.Equal(permit.Input, in.JSON) { // a hook's input is used unchanged, or not at all
		if err := t.check(permit.Input); err != nil {
			return in, invalidInput(t.invalid(permit.Input, []string{err.Error()})), false
		}
	}
	in.JSON, in.Subjects, in.Limits, in.Scripts, in.Allow = permit.Input, permit.Subjects, permit.Limits, permit.Scripts,
		permit.Allow
	in.Closed, in.Output = permit.Closed, permit.Output
	return in, Result{}, true
}

func (t *Tool) key(ctx context.Context, in Input) (key string) {
	if t.Key == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			key = "" // unknown until it runs
		}
	}()
	return t.Key(ctx, in.JSON)
}

func (t *Tool) run(ctx context.Context, in Input, progress func(Result)) (res Result) {
	defer recovered(t.Name, llm.ToolCall{ID: in.ID, Input: in.JSON}, &res)
	if err := context.Cause(ctx); err != nil {
		return markInterrupted(ctx, t.Name, Result{})
	}
	if progress != nil {
		th := &throttle{show: progress}
		defer th.stop()
		in.Progress = th.add
	}
	res, err := t.Run(ctx, in)
	switch {
	case err == nil:
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		res = markInterrupted(ctx, t.Name, res)
	default:
		failed := failure(err)
		res.IsError = true
		res.Parts, res.People = append(res.Parts, failed.Parts...), failed.People
	}
	return res
}

// failure returns the result of a call that failed. An error whose text for people differs from that for the model
// has a method People.
func failure(err error) Result {
	res := Errorf("%s", err)
	var people interface{ People() string }
	if errors.As(err, &people) {
		res.People = people.People()
		return res
	}
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	res.People = "failed: " + line
	return res
}

// invalidInput returns the result of a call whose input does not fit its tool. The details are for the model, which
// calls again.
func invalidInput(err error) Result {
	res := Errorf("%s", err)
	res.People = "failed: the model's input does not fit the tool"
	return res
}

// Aborted is the line for people of a call that the user or the end of the program stopped.
const Aborted = "aborted"

// markInterrupted completes a result that ctx interrupted.
func markInterrupted(ctx context.Context, name string, res Result) Result {
	why := "it was cancelled"
	if cause := context.Cause(ctx); cause != context.Canceled {
		why = cause.Error()
	}
	res.IsError = true
	res.Parts = append(res.Parts, llm.Text(fmt.Sprintf("%s did not finish: %s", name, why)))
	res.People = Aborted
	return res
}

// recovered turns a panic into an error result.
func recovered(name string, call llm.ToolCall, res *Result) {
	if p := recover(); p != nil {
		slog.Error("tool panicked", "tool", name, "call", call.ID, "input", echo(call.Input), "panic", p, "stack",
			string(debug.Stack()))
		*res = Errorf("%s failed: %v (a bug in the tool; the log has the details)", name, p)
		res.People = "failed: a bug in the tool; the log has the details"
	}
}

// progressInterval is the minimum interval of progress reports.
const progressInterval = 100 * time.Millisecond

// A throttle passes on the latest result that it received, at most every 100 ms.
type throttle struct {
	show func(Result)

	mu      sync.Mutex
	last    time.Time
	pending *Result
	timer   *time.Timer
	stopped bool
}

func (t *throttle) add(r Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	t.pending = &r
	if t.timer != nil {
		return
	}
	if wait := progressInterval - time.Since(t.last); wait > 0 {
		t.timer = time.AfterFunc(wait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.timer = nil
			t.flush()
		})
		return
	}
	t.flush()
}

func (t *throttle) flush() {
	if t.pending == nil || t.stopped {
		return
	}
	r := *t.pending
	t.pending, t.last = nil, time.Now()
	t.show(r)
}

func (t *throttle) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
