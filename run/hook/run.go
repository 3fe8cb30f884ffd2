package hook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxOutput limits, in bytes, what is kept of each output stream of a command and of an HTTP
// response.
const MaxOutput = 1 << 20

// Default timeouts.
const (
	commandTimeout = 60 * time.Second
	promptTimeout  = 30 * time.Second
)

// The time of all SessionEnd hooks together: short, because the user wants to leave, unless one of
// them has a longer timeout.
const (
	endTimeout    = 1500 * time.Millisecond
	maxEndTimeout = 60 * time.Second
)

// A Process is what Runner.Run runs: Hook.Args or Hook.Path without a shell, otherwise Hook.Command
// in a shell.
type Process struct {
	Hook  *Hook
	Line  string   // shell text; used if Args is empty
	Args  []string // the program and its arguments
	Stdin []byte
	// Scripts are the scripts that Hook.Verify returned. Run must run exactly this content.
	Scripts []Script
}

// An Output is the result of a command.
type Output struct {
	Code   int
	Signal string // the signal that ended it; "": none
	Stdout []byte // at most MaxOutput
	Stderr []byte // at most MaxOutput
}

// A ToolMapping is how hooks know a tool. The zero ToolMapping keeps the tool's own name and
// fields.
type ToolMapping struct {
	Names []string // for matchers; the first one is sent to hooks
	// Encode converts an input to the field names that hooks know, and Decode converts it back.
	// nil: they are the same as the tool's.
	Encode, Decode func(input json.RawMessage) json.RawMessage
}

// A Runner runs the hooks of one session. Set its fields before the first event, and call Close at
// the end. Its methods are safe for concurrent use. The zero Runner cannot run commands or ask a
// model: such hooks fail.
type Runner struct {
	// Run runs a command. It returns an error if the command could not run or if ctx was cancelled.
	// It keeps at most MaxOutput bytes of each stream and discards the rest. nil: commands cannot
	// run.
	Run func(ctx context.Context, c Process) (Output, error)
	// Client posts to URLs; nil: http.DefaultClient. A redirect is not followed if it leads to
	// another host or would drop the request body.
	Client *http.Client
	// Told is called when a hook has answered with text that a model reads: context, a reason, or another result of a
	// tool. nil: it is not. Several goroutines may call it.
	Told func(h *Hook)
	// Ask asks the user a question of a hook, and returns the ID of the option that was picked, or the text; "": the user
	// declined. nil: there is nobody to ask.
	Ask func(ctx context.Context, h *Hook, q Question) (string, error)
	// Show is called with what a hook wants in the status line from now on; "": nothing. nil: nothing is shown. Several
	// goroutines may call it.
	Show func(h *Hook, status string)
	// Rewake is called when Late has something new, for a model that does nothing at the moment. nil: it is not.
	Rewake func()
	// Guarded posts in place of Client for hooks with Mute, whose author is not trusted; nil: Client.
	Guarded *http.Client
	// Model sends a prompt to the fast model; nil: there is none.
	Model func(ctx context.Context, prompt string) (string, error)
	// Fill sets the fields that are the same for every event of a session; nil: none.
	Fill func(*Input)
	// Watch is called before and after each command of a hook; nil: nothing is. It may be called concurrently.
	Watch func(Ran)
	// MatchesRule reports whether a call matches, or may match, a permission rule; nil: it always does.
	MatchesRule func(ctx context.Context, rule string, in *Input) bool
	// Tool returns how hooks know a tool; nil: by its own name.
	Tool func(name string) ToolMapping

	mu               sync.Mutex
	ran              map[string]bool // keys of Once hooks that have run
	cancelBackground context.CancelFunc
	backgroundCtx    context.Context // for asynchronous hooks; cancelled by Close
	background       sync.WaitGroup
	late             []Answered // see Late
}

// Close stops asynchronous hooks and waits until they have ended.
func (r *Runner) Close() error {
	r.mu.Lock()
	if r.backgroundCtx == nil {
		r.backgroundCtx, r.cancelBackground = context.WithCancel(context.Background())
	}
	r.cancelBackground()
	r.mu.Unlock()
	r.background.Wait()
	return nil
}

// A Ran is a command of a hook that starts or has ended.
type Ran struct {
	ID    string // the same for the start and the end
	Hook  *Hook
	Ended bool
	Output
	Err error // why it could not run, or was cancelled
}

// runWatched runs a command.
func (r *Runner) runWatched(ctx context.Context, c Process) (Output, error) {
	if r.Watch == nil {
		return r.Run(ctx, c)
	}
	id := rand.Text()
	r.Watch(Ran{ID: id, Hook: c.Hook})
	out, err := r.Run(ctx, c)
	r.Watch(Ran{ID: id, Hook: c.Hook, Ended: true, Output: out, Err: cmp.Or(context.Cause(ctx), err)})
	return out, err
}

// A Set is the hooks in effect and the Runner that runs them. It must not be changed. A nil Set has
// no hooks.
type Set struct {
	Hooks  []Hook
	Runner *Runner
	// Session, AgentID and AgentType are those of each Input that has none.
	Session, AgentID, AgentType string
	Record                      *Record      // of what the hooks answer; nil: it is not kept
	Debug                       *slog.Logger // gets one line for each event that has hooks; nil: none
	// Locate, if not nil, makes the file paths in the input of the named tool absolute.
	Locate func(ctx context.Context, tool string, input json.RawMessage) json.RawMessage
}

// A Record keeps what hooks have answered, and whether the run goes on. A nil Record keeps nothing. Its methods are
// safe for concurrent use.
type Record struct {
	mu      sync.Mutex
	answers []Answered
	end     *End
}

// An Answered is what the hooks of one event answered.
type Answered struct {
	Input   Input
	Outcome Outcome
}

// An End says why a run ends early.
type End struct {
	Why    string
	ByUser bool // not a hook but the user's answer to a question ended it
	// Program means that not a hook but the program ended it, and Why says why.
	Program bool
}

func (r *Record) add(in Input, o Outcome) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.answers = append(r.answers, Answered{in, o})
	r.mu.Unlock()
	if o.Stop {
		r.End(End{Why: o.StopReason})
	}
}

// Take removes and returns what was answered, in the order in which the hooks ended.
func (r *Record) Take() []Answered {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.answers
	r.answers = nil
	return all
}

// End ends the run, unless it has ended before: from now on, guards deny each call.
func (r *Record) End(e End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end == nil {
		r.end = &e
	}
}

// Ended returns why the run ends; nil: it goes on.
func (r *Record) Ended() *End {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

// Has reports whether the set has a hook for one of the events.
func (s *Set) Has(events ...Event) bool {
	if s == nil {
		return false
	}
	for i := range s.Hooks {
		for _, e := range events {
			if s.Hooks[i].Event == e {
				return true
			}
		}
	}
	return false
}

// Fire runs the hooks for an event and returns when all of them have ended, except asynchronous
// ones. It returns no error: failures are part of the Outcome.
func (s *Set) Fire(ctx context.Context, in Input) Outcome {
	if !s.Has(in.Event) {
		return Outcome{}
	}
	if in.Event.Guards() && s.Record.Ended() != nil {
		return Outcome{Vote: Deny, Reason: "the run was ended at an earlier call"}
	}
	in.Session = cmp.Or(in.Session, s.Session)
	in.AgentID, in.AgentType = cmp.Or(in.AgentID, s.AgentID), cmp.Or(in.AgentType, s.AgentType)
	start := time.Now()
	o := s.run(ctx, in)
	if s.Debug != nil {
		s.Debug.Debug("hooks ran", "topic", "hook", "event", in.Event, "tool", in.Tool, "call", in.Call, "duration",
			time.Since(start).Round(time.Millisecond), "block", o.Block, "stop", o.Stop, "failed", len(o.Failed))
	}
	s.Record.add(in, o)
	return o
}

func (s *Set) run(ctx context.Context, in Input) Outcome {
	r := s.Runner
	if r.Fill != nil {
		r.Fill(&in)
	}
	s.locate(ctx, &in)
	about := []string{in.matchText()}
	tool := in.Tool
	if in.Event.OfTool() {
		about = r.tool(tool).Names
	} else if about[0] == "" {
		about = nil
	}
	chosen := s.selectHooks(ctx, about, &in)
	if len(chosen) == 0 {
		return Outcome{}
	}
	text, err := r.text(in)
	if err != nil {
		var o Outcome
		for _, h := range chosen {
			o.merge(in.Event, h, reply{}, err)
		}
		return o
	}
	if in.Event == SessionEnd {
		var cancel context.CancelFunc
		limit := endTimeout
		for _, h := range chosen {
			limit = max(limit, min(h.Timeout, maxEndTimeout))
		}
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errors.New("the session ends"))
		defer cancel()
	}
	var waited []*Hook
	for _, h := range chosen {
		if h.Async {
			r.launch(h, in, text)
		} else {
			waited = append(waited, h)
		}
	}
	replies, errs := r.askAll(ctx, waited, text)
	var o Outcome
	author := ""              // the hook whose input counts
	done := map[string]bool{} // hooks that are not asked again: the author and those that failed
	for i, h := range waited {
		done[h.key()] = errs[i] != nil
		if replies[i].input != nil {
			author = h.key()
			if decode := r.tool(tool).Decode; decode != nil {
				replies[i].input = decode(replies[i].input)
			}
		}
		if replies[i].output == nil && strings.HasPrefix(tool, "mcp__") {
			replies[i].output = replies[i].mcpOutput
		}
		o.merge(in.Event, h, replies[i], errs[i])
	}
	if o.Input != nil && o.Vote != Deny {
		in.ToolInput = o.Input
		s.locate(ctx, &in)
		done[author] = true
		s.recheck(ctx, &o, about, in, done)
	}
	if o.Vote == Deny {
		o.Input = nil
	}
	return o
}

// locate makes the file paths in the inputs of tools absolute.
func (s *Set) locate(ctx context.Context, in *Input) {
	if s.Locate == nil {
		return
	}
	if in.Tool != "" {
		in.ToolInput = s.Locate(ctx, in.Tool, in.ToolInput)
	}
	in.Calls = slices.Clone(in.Calls)
	for i, c := range in.Calls {
		in.Calls[i].Input = s.Locate(ctx, c.Tool, c.Input)
	}
}

// recheck asks the other hooks about the input that one hook wrote, because they have seen a
// different one. Their own replacements of the input are ignored.
func (s *Set) recheck(ctx context.Context, o *Outcome, about []string, in Input, done map[string]bool) {
	var others []*Hook
	for _, h := range s.selectHooks(ctx, about, &in) {
		if !h.Async && !done[h.key()] {
			others = append(others, h)
		}
	}
	if len(others) == 0 {
		return
	}
	text, err := s.Runner.text(in)
	replies, errs := make([]reply, len(others)), make([]error, len(others))
	if err == nil {
		replies, errs = s.Runner.askAll(ctx, others, text)
	}
	for i, h := range others {
		answer := replies[i]
		o.merge(in.Event, h, reply{vote: answer.vote, reason: answer.reason, stop: answer.stop,
			stopReason: answer.stopReason}, cmp.Or(err, errs[i]))
	}
}

// askAll runs hooks concurrently.
func (r *Runner) askAll(ctx context.Context, hooks []*Hook, text []byte) ([]reply, []error) {
	replies, errs := make([]reply, len(hooks)), make([]error, len(hooks))
	var all sync.WaitGroup
	for i, h := range hooks {
		all.Go(func() {
			replies[i], errs[i] = r.ask(ctx, h, text)
		})
	}
	all.Wait()
	return replies, errs
}

// selectHooks returns the hooks for an event. Hooks that do the same are returned once.
func (s *Set) selectHooks(ctx context.Context, about []string, in *Input) []*Hook {
	var chosen []*Hook
	at := map[string]int{}
	for i := range s.Hooks {
		h := &s.Hooks[i]
		if h.Event != in.Event || !h.matches(about) {
			continue
		}
		if h.If != "" && h.invalid == "" && s.Runner.MatchesRule != nil && !s.Runner.MatchesRule(ctx, h.If, in) {
			continue
		}
		key := h.key()
		if j, ok := at[key]; ok && h.invalid == "" {
			if h.Required && !chosen[j].Required {
				strict := *chosen[j]
				strict.Required = true
				chosen[j] = &strict
			}
			continue
		}
		if h.Once && !s.Runner.firstRun(string(h.Event)+h.Matcher+key) {
			continue
		}
		at[key] = len(chosen)
		chosen = append(chosen, h)
	}
	return chosen
}

// firstRun reports whether this is the first call with key.
func (r *Runner) firstRun(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ran[key] {
		return false
	}
	if r.ran == nil {
		r.ran = map[string]bool{}
	}
	r.ran[key] = true
	return true
}

func (r *Runner) tool(name string) (t ToolMapping) {
	if r.Tool != nil {
		t = r.Tool(name)
	}
	if len(t.Names) == 0 {
		t.Names = []string{name}
	}
	return t
}

// text returns the input as one line of JSON, in the form that hooks read.
func (r *Runner) text(in Input) ([]byte, error) {
	encode := func(name *string, input *json.RawMessage) {
		t := r.tool(*name)
		if t.Encode != nil && *input != nil {
			*input = t.Encode(*input)
		}
		*name = t.Names[0]
	}
	if in.Tool != "" {
		encode(&in.Tool, &in.ToolInput)
	}
	in.Calls = append([]BatchCall(nil), in.Calls...)
	for i := range in.Calls {
		encode(&in.Calls[i].Tool, &in.Calls[i].Input)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return nil, fmt.Errorf("the input cannot be written: %w", err)
	}
	return b.Bytes(), nil
}

// launch starts an asynchronous hook.
func (r *Runner) launch(h *Hook, in Input, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backgroundCtx == nil {
		r.backgroundCtx, r.cancelBackground = context.WithCancel(context.Background())
	}
	ctx := r.backgroundCtx
	if ctx.Err() != nil {
		return
	}
	r.background.Go(func() {
		answer, err := r.ask(ctx, h, text)
		if h.Rewake && err == nil && (answer.block || answer.vote == Deny) && answer.reason != "" {
			r.mu.Lock()
			r.late = append(r.late, Answered{in, Outcome{Context: []string{answer.reason},
				Messages: []string{string(in.Event) + " hook: " + answer.reason}}})
			r.mu.Unlock()
			if r.Rewake != nil {
				r.Rewake()
			}
		}
	})
}

// Later keeps what hooks answered until the model's next request, see Late, for events in the middle of calls.
func (r *Runner) Later(x Answered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, x)
}

// HasLate reports whether Late would return something.
func (r *Runner) HasLate() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.late) > 0
}

// Late returns what asynchronous hooks with Rewake have told the model since Late was last called.
func (r *Runner) Late() []Answered {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.late
	r.late = nil
	return all
}

// ask runs one hook.
func (r *Runner) ask(ctx context.Context, h *Hook, text []byte) (reply, error) {
	if h.invalid != "" {
		return reply{}, errors.New(h.invalid)
	}
	answer, err := r.converse(ctx, h, text)
	if err != nil {
		return answer, err
	}
	if r.Show != nil && answer.status != nil {
		r.Show(h, *answer.status)
	}
	if r.Told != nil && answer.tells() {
		r.Told(h)
	}
	return answer, nil
}

// once runs a hook once, within its time limit.
func (r *Runner) once(ctx context.Context, h *Hook, text []byte) (reply, error) {
	limit := h.Timeout
	if limit == 0 {
		limit = commandTimeout
		if h.Type == OfPrompt {
			limit = promptTimeout
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not end within %s", limit))
	defer cancel()
	how := r.command
	switch h.Type {
	case OfHTTP:
		how = r.post
	case OfPrompt:
		how = r.judge
	case OfFunc:
		how = r.call
	}
	answer, err := how(ctx, h, text)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // it explains more, such as a timeout
	}
	return answer, err
}

// call runs a function of the host.
func (r *Runner) call(ctx context.Context, h *Hook, text []byte) (reply, error) {
	answer, err := h.Func(ctx, text)
	if err != nil || len(bytes.TrimSpace(answer)) == 0 {
		return reply{}, err
	}
	return readReply(h.Event, answer)
}

// command runs a command. Exit code 0 is success and 2 blocks, with standard error as the reason.
// Any other code is an error, unless the command printed a valid answer.
func (r *Runner) command(ctx context.Context, h *Hook, text []byte) (reply, error) {
	if r.Run == nil {
		return reply{}, errors.New("commands cannot be run here")
	}
	c := Process{Hook: h, Line: h.Command, Stdin: text}
	if h.Verify != nil {
		var err error
		if c.Scripts, err = h.Verify(); err != nil {
			return reply{}, fmt.Errorf(NotRun+": %w", err)
		}
	}
	switch {
	case h.Path != "":
		c.Line, c.Args = "", []string{h.File()}
	case len(h.Args) > 0:
		c.Line, c.Args = "", append([]string{h.Command}, h.Args...)
	}
	out, err := r.runWatched(ctx, c)
	if cause := context.Cause(ctx); cause != nil {
		return reply{}, cause
	}
	switch {
	case err != nil:
		return reply{}, fmt.Errorf(NotRun+": %w", err)
	case out.Signal != "":
		return reply{}, fmt.Errorf("it was ended by %s", out.Signal)
	case out.Code == 2:
		said := cutText(string(out.Stderr))
		if said == "" {
			said = "exit code 2, without a reason"
		}
		return reply{vote: Deny, block: true, reason: said}, nil
	case out.Code > 128 && out.Code <= 192: // how shells report a program that was ended by a signal
		return reply{}, fmt.Errorf("it was ended by signal %d", out.Code-128)
	case out.Code == 126 || out.Code == 127: // from the shell: not executable, or not found
		return reply{}, fmt.Errorf(NotRun+": exit code %d: %s", out.Code, excerpt(bytes.TrimSpace(out.Stderr)))
	case len(out.Stdout) >= MaxOutput:
		return reply{}, fmt.Errorf("it printed %d bytes or more", MaxOutput)
	case out.Code != 0:
		if kind(out.Stdout) == '{' {
			if said, err := readReply(h.Event, out.Stdout); err == nil {
				return said, nil
			}
		}
		return reply{}, &exitError{out.Code, out.Stderr}
	}
	return readReply(h.Event, out.Stdout)
}

// An exitError is an exit code without a meaning. It is reported and has no other effect, unless
// the hook is a required guard.
type exitError struct {
	code   int
	stderr []byte
}

func (e *exitError) Error() string {
	s := fmt.Sprintf("exit code %d", e.code)
	if text := bytes.TrimSpace(e.stderr); len(text) > 0 {
		s += ": " + excerpt(text)
	}
	return s
}

// post sends the input to a URL. A response without a body has no effect.
func (r *Runner) post(ctx context.Context, h *Hook, text []byte) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(text))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{}
	switch {
	case h.Mute && r.Guarded != nil:
		client = *r.Guarded
	case r.Client != nil:
		client = *r.Client
	}
	client.CheckRedirect = func(to *http.Request, via []*http.Request) error {
		switch {
		case to.URL.Host != req.URL.Host || to.URL.Scheme != req.URL.Scheme && to.URL.Scheme != "https":
			return fmt.Errorf("it redirects to another host, %s", to.URL.Host)
		case to.Method != http.MethodPost: // a 301 to 303 response: the new request would not carry the input
			return fmt.Errorf("it redirects to %s, which would lose the event", to.URL.Redacted())
		case len(via) >= 5:
			return errors.New("it redirects too often")
		}
		return nil
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxOutput+1))
	switch {
	case err != nil:
		return reply{}, err
	case len(body) > MaxOutput:
		return reply{}, fmt.Errorf("it answered with more than %d bytes", MaxOutput)
	case resp.StatusCode/100 != 2:
		return reply{}, fmt.Errorf("it answered with %s", resp.Status)
	}
	if text := bytes.TrimSpace(body); len(text) > 0 && text[0] != '{' && h.Event.Guards() {
		return reply{}, fmt.Errorf("it answered with %s, not a JSON object", excerpt(text)) // such as a page for logging in
	}
	return readReply(h.Event, body)
}

const judgement = "A hook of this session asks you to judge an event. Answer with one JSON object and nothing else: " +
	`{"ok": true} if the event may go on, or {"ok": false, "reason": "why not, in one sentence"}.` + "\n\n"

// judge asks the fast model whether the event may continue.
func (r *Runner) judge(ctx context.Context, h *Hook, text []byte) (reply, error) {
	if r.Model == nil {
		return reply{}, errors.New("there is no fast model to ask")
	}
	input := string(bytes.TrimSpace(text))
	prompt := judgement + h.Prompt
	if strings.Contains(h.Prompt, "$ARGUMENTS") {
		prompt = judgement + strings.ReplaceAll(h.Prompt, "$ARGUMENTS", input)
	} else {
		prompt += "\n\nThe event:\n" + input
	}
	verdict, err := r.Model(ctx, prompt)
	if err != nil {
		return reply{}, err
	}
	var v struct {
		OK     *bool  `json:"ok"`
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal([]byte(verdict), &v); err != nil || v.OK == nil {
		return reply{}, fmt.Errorf("the model did not answer in the required form: %s", excerpt([]byte(verdict)))
	}
	if *v.OK {
		return reply{}, nil
	}
	reason := cutText(v.Reason)
	if reason == "" {
		reason = "the model answered no, without a reason"
	}
	return reply{vote: Deny, block: true, reason: reason}, nil
}

// merge merges the answer of one hook. Hooks are added in their order.
func (o *Outcome) merge(e Event, h *Hook, r reply, err error) {
	o.Ran++
	if err != nil {
		o.Failed = append(o.Failed, &Failure{e, h, err})
		var code *exitError
		switch {
		case !e.Guards() && h.Required:
			o.Block, o.Reason = true, fmt.Sprintf("the required %s hook %q failed: %v", e, h, err)
		case !e.Guards():
		case h.Required:
			o.raiseVote(Deny, fmt.Sprintf("the required %s hook %q failed: %v", e, h, err))
		case !errors.As(err, &code):
			o.Broken = true
			o.raiseVote(Ask, fmt.Sprintf("the %s hook %q failed: %v", e, h, err))
		}
		return
	}
	if r.vote == Allow && h.Mute {
		r.vote, r.reason = Nothing, ""
	}
	if e.Guards() {
		if r.stop { // a hook that ends the run also blocks this call
			r.vote, r.reason = Deny, cmp.Or(r.stopReason, r.reason, "a hook ends the run")
		}
		if r.input != nil { // earlier votes to allow were for another input
			if o.Vote == Allow {
				o.Vote, o.Reason = Nothing, ""
			}
			o.Input = r.input
		}
		if r.vote != Allow || o.Input == nil || r.input != nil {
			o.raiseVote(r.vote, r.reason)
		}
	} else if r.block {
		if !o.Block {
			o.Reason = r.reason
		} else if r.reason != "" {
			o.Reason += "\n" + r.reason
		}
		o.Block = true
	}
	if r.output != nil {
		o.Output = r.output
	}
	if r.display != nil {
		o.Display = r.display
	}
	o.Said = cmp.Or(r.said, o.Said)
	o.Prompt, o.Summary = cmp.Or(r.prompt, o.Prompt), cmp.Or(r.summary, o.Summary)
	o.WatchPaths = append(o.WatchPaths, r.watch...)
	o.mergeAnswer(e, h, r)
	if r.context != "" && e.reachesModel() {
		o.Context = append(o.Context, r.context)
	}
	if r.message != "" {
		o.Messages = append(o.Messages, r.message)
	}
	if r.notify != "" {
		o.Notices = append(o.Notices, r.notify)
	}
	if r.stop && !o.Stop {
		o.Stop, o.StopReason = true, r.stopReason
	}
}

// mergeAnswer merges what a hook answers to the question of a server. To decline beats to cancel, which beats to
// accept. A hook whose author is not trusted cannot accept.
func (o *Outcome) mergeAnswer(e Event, h *Hook, r reply) {
	if e != Elicitation && e != ElicitationResult {
		return
	}
	answer := r.answer
	if r.block {
		answer = &Form{Action: actionDecline}
	}
	order := []string{actionAccept, actionCancel, actionDecline}
	switch {
	case answer == nil || answer.Action == actionAccept && h.Mute:
	case o.Answer != nil && slices.Index(order, answer.Action) < slices.Index(order, o.Answer.Action):
	default:
		o.Answer = answer
		if answer.Action != actionAccept {
			o.Answer.Content = nil
		}
	}
}

// raiseVote replaces the vote if v is stricter.
func (o *Outcome) raiseVote(v Vote, reason string) {
	if v > o.Vote {
		o.Vote, o.Reason = v, reason
	}
}

// Of returns the hooks of a set that have the given origin.
func (s *Set) Of(origin string) *Set {
	if s == nil {
		return nil
	}
	own := *s
	own.Hooks = nil
	for _, h := range s.Hooks {
		if h.Origin == origin {
			own.Hooks = append(own.Hooks, h)
		}
	}
	return &own
}
