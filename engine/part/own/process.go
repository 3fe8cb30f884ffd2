package own

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// A process is a program that stays, and answers one request at a time: a line of JSON on its standard input, and one
// on its standard output:
//
//	{"id": 1, "method": "tool", "name": "note", "input": {…}}
//	{"id": 1, "progress": "a line for the user"}            any number of times, also none
//	{"id": 1, "result": …} or {"id": 1, "error": "why"}
//
// The methods are tool, whose result is a text or an object as [coding.RunProgram] reads it; command, with arguments
// and answers, whose result is a text or a reply; and hook, with the input of the event, whose result is what a hook
// prints. Each request has another id, which the program cannot know in advance.
//
// The first request starts the program, in the sandbox; the end of its standard input ends it. A program that writes
// anything else, or does not answer in time, is killed. A later request starts it again, after a pause that grows with
// each failure.
type process struct {
	turn chan struct{} // has one element while nobody sends a request

	mu      sync.Mutex
	started *started // nil: it does not run
	looked  int      // the entry up to which the log was looked at
	fails   int      // how often it ended since its last answer
	next    time.Time
}

// started is a process that runs.
type started struct {
	cancel context.CancelFunc
	in     *os.File
	out    *bufio.Reader
	pipe   *io.PipeReader // of out
	said   *tail
	ended  chan struct{} // is closed when it has ended
	exit   error         // why, after ended
	of     *engine.Project

	details json.RawMessage // for the first request
}

const (
	maxLine      = 8 << 20 // bytes of a line of a process
	maxPause     = time.Minute
	firstPause   = time.Second
	endTime      = time.Second // how long a process has to end by itself
	processTime  = time.Minute // how long it has to answer, unless its definition says something else
	maxProcesses = 20          // tools, commands and hooks of one process, each
)

func newProcess() *process {
	p := &process{turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// A request is what a process gets.
type request struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"` // tool, command, hook
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Arguments *string         `json:"arguments,omitempty"`
	Answers   []string        `json:"answers,omitempty"`
	Dir       string          `json:"cwd"`
	// Details are those of the last result of one of its tools in the conversation, in the first request after a start.
	Details json.RawMessage `json:"details,omitempty"`
}

// An answer is a line of a process.
type answer struct {
	ID       int             `json:"id"`
	Result   json.RawMessage `json:"result"`
	Error    string          `json:"error"`
	Progress string          `json:"progress"`
}

// A broken is the error of a process that must not go on.
type broken struct{ error }

// ask sends a request and returns the result. start starts the process, if it does not run.
func (p *process) ask(ctx context.Context, r request, limit time.Duration, start func() (*started, error),
	progress func(string)) (json.RawMessage, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { p.turn <- struct{}{} }()
	run, err := p.running(start)
	if err != nil {
		return nil, err
	}
	r.Details, run.details = run.details, nil
	r.ID = 1 + rand.IntN(1<<30) // an answer that was written before is none
	ctx, cancel := context.WithTimeoutCause(ctx, limit, broken{fmt.Errorf("it did not answer within %s", limit)})
	defer cancel()
	// The end of ctx unblocks the pipes.
	stop := context.AfterFunc(ctx, run.cancel)
	result, err := run.exchange(r, progress)
	stopped := stop()
	var bad broken
	switch {
	case err == nil && stopped:
		p.mu.Lock()
		p.fails = 0
		p.mu.Unlock()
		return result, nil
	case errors.As(err, &bad) || ctx.Err() != nil:
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, p.end(run, err)
	}
	p.mu.Lock()
	p.fails = 0 // it answered with an error
	p.mu.Unlock()
	return nil, err
}

// running returns the process, which it starts if it does not run.
func (p *process) running(start func() (*started, error)) (*started, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started != nil {
		return p.started, nil
	}
	if wait := time.Until(p.next); wait > 0 {
		return nil, fmt.Errorf("it ended %d times in a row, and is started again in %s", p.fails,
			wait.Round(time.Second)+time.Second)
	}
	run, err := start()
	if err != nil {
		return nil, err
	}
	p.started = run
	return run, nil
}

// end ends a process that broke its word, and says so. The next start waits longer each time.
func (p *process) end(run *started, why error) error {
	run.close(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = nil
	if p.fails++; p.fails > 1 {
		p.next = time.Now().Add(min(firstPause<<min(p.fails-2, 10), maxPause))
	}
	text := why.Error()
	if run.exit != nil && !errors.Is(run.exit, context.Canceled) {
		text += ": " + run.exit.Error()
	}
	if said := run.said.String(); said != "" {
		text += "\nStandard error:\n" + said
	}
	return errors.New(text)
}

// close ends a process that runs. A request that is under way has a moment to end.
func (p *process) close() {
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-p.turn:
	case <-timer.C:
		p.mu.Lock()
		if p.started != nil {
			p.started.cancel()
		}
		p.mu.Unlock()
		<-p.turn
	}
	defer func() { p.turn <- struct{}{} }()
	p.mu.Lock()
	run := p.started
	p.started = nil
	p.mu.Unlock()
	if run != nil {
		run.close(endTime)
	}
}

// old reports whether the process was started for another project, as before a reload.
func (p *process) old(of *engine.Project) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started != nil && p.started.of != of
}

// elsewhere reports whether the conversation has gone to another of its branches since the last request: what the
// process knows is of the one that was left.
func (p *process) elsewhere(l *live) (moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if log := l.conv.Log(); p.started == nil {
		p.looked = log.Last()
	} else {
		for _, e := range log.After(p.looked) {
			moved, p.looked = moved || e.Move != nil, e.ID
		}
	}
	return moved
}

// exchange sends a request and reads what it is answered with.
func (s *started) exchange(r request, progress func(string)) (json.RawMessage, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if n := s.out.Buffered(); n > 0 {
		return nil, broken{errors.New("it wrote something that nobody asked for")}
	}
	if _, err := s.in.Write(append(data, '\n')); err != nil {
		return nil, broken{errors.New("it has ended")}
	}
	for {
		line, err := s.line()
		if err != nil {
			return nil, broken{err}
		}
		var a answer
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		switch {
		case dec.Decode(&a) != nil || dec.More():
			return nil, broken{fmt.Errorf("it wrote a line that is no answer: %q",
				plain.Line(string(line[:min(len(line), 80)])))}
		case a.ID != r.ID:
			return nil, broken{fmt.Errorf("it answered the request %d, not %d", a.ID, r.ID)}
		case a.Error != "":
			return nil, errors.New(strings.TrimSpace(a.Error[:min(len(a.Error), maxDescription)]))
		case a.Result == nil && a.Progress != "":
			progress(a.Progress[:min(len(a.Progress), maxDescription)])
		default:
			return a.Result, nil
		}
	}
}

// line reads a line of at most maxLine bytes.
func (s *started) line() ([]byte, error) {
	var line []byte
	for {
		part, err := s.out.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, fmt.Errorf("it wrote a line of more than %d bytes", maxLine)
		}
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, errors.New("it ended without an answer")
		}
	}
}

// close ends the process: it has some time to end by itself after the end of its input.
func (s *started) close(grace time.Duration) {
	s.in.Close()
	go io.Copy(io.Discard, s.pipe) // it may be writing
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-s.ended:
		case <-timer.C:
		}
	}
	s.cancel()
	s.pipe.Close()
	<-s.ended
}

// launch starts the program of a process in a workspace, with the restrictions of a call and none of what was permitted
// to it alone: other calls did not ask for that.
func (p *Program) launch(ws workspace.Workspace, call tool.Input, o coding.Options, of *engine.Project) (*started,
	error) {
	in, feed, err := os.Pipe() // whose end is not waited for when the program ends by itself
	if err != nil {
		return nil, err
	}
	out, write := io.Pipe()
	c, err := p.prepare(ws, workspace.Command{Stdin: in, Output: write, Env: []string{"KNACK_PROCESS=1"}})
	if err != nil {
		return nil, errors.Join(err, in.Close(), feed.Close())
	}
	said := &tail{}
	c.Stderr, c.Connected, c.Limits = said, o.Connected, call.Limits
	c.Allow.Denied, c.Allow.Nested = call.Allow.Denied, call.Allow.Nested
	ctx, cancel := context.WithCancel(context.Background())
	s := &started{cancel: cancel, in: feed, out: bufio.NewReaderSize(out, 64<<10), pipe: out, said: said,
		ended: make(chan struct{}), of: of}
	context.AfterFunc(ctx, func() { // whoever waits for it waits no longer
		feed.Close()
		write.CloseWithError(context.Canceled)
	})
	go func() {
		exit, err := ws.Run(ctx, c)
		switch {
		case err != nil:
			s.exit = err
		case exit.Signal != "":
			s.exit = fmt.Errorf("it was ended by %s", exit.Signal)
		case exit.Code != 0:
			s.exit = fmt.Errorf("exit code %d", exit.Code)
		}
		in.Close()
		feed.Close()
		write.Close()
		cancel()
		close(s.ended)
	}()
	return s, nil
}

// A tail keeps the last 4 KB that are written.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(data []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, data[max(0, len(data)-most):]...)
	t.data = slices.Clone(t.data[max(0, len(t.data)-most):])
	return len(data), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.data), "\uFFFD"))
}

// processOf returns the process of a program in a place. A nil live has none that stays.
func (l *live) processOf(p *Program, where string) (*process, error) {
	if l == nil {
		return newProcess(), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, engine.ErrClosed
	}
	if l.processes == nil {
		l.processes = map[string]*process{}
	}
	key := p.Path + "\x00" + where
	if l.processes[key] == nil {
		l.processes[key] = newProcess()
	}
	return l.processes[key], nil
}

// closeProcesses ends all of them.
func (l *live) closeProcesses() error {
	l.mu.Lock()
	all := l.processes
	l.processes, l.closed = nil, true
	l.mu.Unlock()
	var wait sync.WaitGroup
	for _, p := range all {
		wait.Go(p.close)
	}
	wait.Wait()
	return nil
}

// request sends a request to the process of a program. What is approved is checked before each; a process that is not
// approved any more ends. A call with restrictions of its own gets a process of its own.
func (p *Program) request(ctx context.Context, l *live, ws workspace.Workspace, o coding.Options, call tool.Input,
	r request) (json.RawMessage, error) {
	r.Dir = ws.Dir()
	proc, err := l.processOf(p, ws.Dir())
	if err != nil {
		return nil, err
	}
	var of *engine.Project
	if l != nil {
		of = l.conv.Project()
	}
	if l == nil || len(call.Limits) > 0 {
		proc = newProcess()
		defer proc.close()
	}
	if _, err := p.prepare(ws, workspace.Command{}); err != nil {
		proc.close()
		return nil, err
	}
	if proc.old(of) || l != nil && proc.elsewhere(l) {
		proc.close()
	}
	result, err := proc.ask(ctx, r, cmp.Or(p.definition.timeout(), processTime),
		func() (*started, error) {
			run, err := p.launch(ws, call, o, of)
			if err == nil {
				run.details = p.lastDetails(l)
			}
			return run, err
		},
		func(line string) { call.Progress(tool.Text(line)) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return result, nil
}

// lastDetails returns the details of the last result of a tool of the process in the conversation, from which it goes
// on after a resume, in a copy of the session, or when it had ended; nil: there are none.
func (p *Program) lastDetails(l *live) json.RawMessage {
	if l == nil {
		return nil
	}
	for e := range l.conv.Log().Backward() {
		if e.Result != nil && p.definition.Tools[e.Result.Name] != nil && e.Result.Details != nil {
			return e.Result.Details
		}
	}
	return nil
}

// textOf is what a program would have printed in place of a result.
func textOf(result json.RawMessage) string {
	var text string
	if json.Unmarshal(result, &text) == nil {
		return text
	}
	return string(result)
}

// runProcess runs a call of a tool that is a process.
func (p *Program) runProcess(ctx context.Context, l *live, ws workspace.Workspace, o coding.Options,
	call tool.Input) (tool.Result, error) {
	result, err := p.process.request(ctx, l, ws, o, call, request{Method: "tool", Name: p.Name, Input: call.JSON})
	if err != nil {
		return tool.Result{}, err
	}
	return coding.ProgramResult(textOf(result), o), nil
}

// A processHook is a hook that a definition of a process declares.
type processHook struct {
	Event    hook.Event
	Matcher  string
	Required bool
}

// hooks returns the hooks of processes, as those of the origin of their definition.
func (l *live) hooks() (all []hook.Hook) {
	for _, p := range find(l.conv.Project().Brought).processes {
		for _, d := range p.definition.Hooks {
			h, err := hook.New(d.Event, d.Matcher, p.Name, func(ctx context.Context, in json.RawMessage) (
				json.RawMessage, error) {
				return p.fire(ctx, l, in)
			})
			h.Origin, h.DefinedIn, h.Required = p.hookOrigin(), p.Path, h.Required || d.Required
			if err != nil && !d.Event.Guards() {
				continue // reported when the definition was read
			}
			all = append(all, h)
		}
	}
	return all
}

func (p *Program) hookOrigin() string {
	switch {
	case p.owner != "":
		return "plugin:" + p.owner
	case p.folder != "":
		return string(permission.Project)
	}
	return string(permission.User)
}

// fire tells a process of an event. It runs with what rules keep from a call of it, and fails if a rule denies one.
func (p *Program) fire(ctx context.Context, l *live, in json.RawMessage) (answer json.RawMessage, err error) {
	l.mu.Lock()
	o := l.coding
	l.mu.Unlock()
	ws := l.conv.Here().Workspace
	t := tool.Tool{Name: p.Name, Description: p.definition.Description, Schema: json.RawMessage(`{"type":"object"}`),
		Effect: tool.Reads | tool.Writes | tool.Runs,
		Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
			return []permission.Subject{{Kind: permission.KindTool, Text: p.rule(), Note: "it runs " + p.line()}}, nil
		},
		Run: func(ctx context.Context, call tool.Input) (tool.Result, error) {
			if !call.Allows(permission.KindTool, p.rule()) {
				return tool.Result{}, errChanged
			}
			answer, err = p.request(ctx, l, ws, o, call, request{Method: "hook", Input: in})
			return tool.Result{}, err
		}}
	res, failed := l.conv.CallTyped(ctx, t, in, nil)
	switch {
	case err != nil || failed != nil:
		return nil, cmp.Or(err, failed)
	case res.IsError:
		var texts []string
		for _, part := range res.Parts {
			texts = append(texts, part.Text)
		}
		return nil, errors.New(strings.Join(texts, "\n"))
	case string(answer) == "null":
		return nil, nil
	}
	return json.RawMessage(textOf(answer)), nil
}

// checkProcess checks what only the definition of a process has.
func (d *definition) checkProcess() error {
	if d.Hint != "" || d.Complete || d.InputSchema != nil || d.Subjects != nil || d.Summary != "" || d.Effect != 0 {
		return errors.New("a process has type, command, description, timeout, tools, commands and hooks")
	}
	if len(d.Tools)+len(d.Commands)+len(d.Hooks) == 0 {
		return errors.New("the process has no tools, commands or hooks")
	}
	if len(d.Tools) > maxProcesses || len(d.Commands) > maxProcesses || len(d.Hooks) > maxProcesses {
		return fmt.Errorf("the process has more than %d tools, commands or hooks", maxProcesses)
	}
	for kind, all := range map[mark]map[string]*definition{toolMark: d.Tools, commandMark: d.Commands} {
		for name, one := range all {
			err := CheckName(name)
			switch {
			case err != nil:
			case one == nil:
				err = errors.New("there is no definition")
			case one.Type != "" || one.Command != nil || one.Name != "" || one.Complete || one.Sandbox != nil:
				err = errors.New("type, command, name, complete and sandbox are not its own")
			default:
				err = one.check(kind)
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", kind.what(), name, err)
			}
		}
	}
	for _, h := range d.Hooks {
		switch {
		case !slices.Contains(hook.Events(), h.Event):
			return fmt.Errorf("hooks: %q is not an event", h.Event)
		case h.Event == hook.SessionEnd:
			return errors.New("hooks: a process is told of the end of the session by the end of its input")
		}
		if _, err := hook.New(h.Event, h.Matcher, "", nil); err != nil {
			return fmt.Errorf("hooks: %w", err)
		}
	}
	return nil
}

// parts returns the tools, or the commands, of a process.
func (p *Program) parts(of map[string]*definition) (all []*Program) {
	for name, d := range of {
		one := *p
		one.Name, one.definition, one.process = name, *d, p
		one.definition.Command, one.definition.Timeout = p.definition.Command, cmp.Or(d.Timeout, p.definition.Timeout)
		all = append(all, &one)
	}
	order.Stable(all, func(a, b *Program) int { return strings.Compare(a.Name, b.Name) })
	return all
}
