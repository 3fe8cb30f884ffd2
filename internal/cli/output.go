package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
)

// An output shows a run to a program or to a person who reads a pipe.
type output interface {
	// begin is called for each session, before its events.
	begin(context.Context, *engine.Session)
	event(engine.Event)
	// end ends a user turn: err is why it failed, nil if it ended.
	end(err error)
	// badLine reports a line of structured input that cannot be read; field is
	// the member that is wrong, "" the line as a whole.
	badLine(number int, field string, err error)
	// structured is the answer that --json-schema asked for; end follows.
	structured(json.RawMessage)
	// queued reports a line of structured input that enters the turn that runs.
	queued(number int)
}

// A sharedOutput is safe for concurrent use.
type sharedOutput struct {
	mu sync.Mutex
	output
}

func (o *sharedOutput) event(e engine.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.output.event(e)
}

func (o *sharedOutput) begin(ctx context.Context, s *engine.Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.output.begin(ctx, s)
}

func (o *sharedOutput) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.output.end(err)
}

func (o *sharedOutput) structured(value json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.output.structured(value)
}

func (o *sharedOutput) queued(number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.output.queued(number)
}

func (o *sharedOutput) badLine(number int, field string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.output.badLine(number, field, err)
}

// initLine is the first line of stream-json.
type initLine struct {
	Type     string   `json:"type"`    // system
	Subtype  string   `json:"subtype"` // init
	Session  string   `json:"session_id"`
	Dir      string   `json:"cwd"`
	Model    string   `json:"model"`
	Mode     string   `json:"permissionMode"`
	Tools    []string `json:"tools"`
	Skills   []string `json:"skills"`
	Agents   []string `json:"agents"`
	Commands []string `json:"slash_commands"`
	Problems []string `json:"problems"`
	Version  string   `json:"knack_version"`
}

// resultLine is the last line of stream-json, and all of json.
type resultLine struct {
	Type     string    `json:"type"`    // result
	Subtype  string    `json:"subtype"` // success, error, limit, cancelled, stopped
	IsError  bool      `json:"is_error"`
	Result   string    `json:"result"`
	Session  string    `json:"session_id"`
	Turns    int       `json:"num_turns"` // requests made
	Usage    llm.Usage `json:"usage"`
	Cost     float64   `json:"total_cost_usd"`
	Duration int64     `json:"duration_ms"`
	Denials  []denial  `json:"permission_denials"`
	Reply    any       `json:"reply,omitempty"` // of a command: the answer as data

	Structured json.RawMessage `json:"structured_output,omitempty"` // the answer that --json-schema asked for
}

// errorLine answers a line of structured input that cannot be read.
type errorLine struct {
	Type  string `json:"type"` // error
	Line  int    `json:"line"`
	Field string `json:"field,omitempty"`
	Error string `json:"error"`
}

type denial struct {
	Tool   string `json:"tool_name"`
	Call   string `json:"tool_use_id"`
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty"`
}

// sum collects what a resultLine says.
type sum struct {
	start  time.Time
	line   resultLine
	reason string
	said   []string // by commands
}

func (s *sum) see(e engine.Event) {
	if s.start.IsZero() {
		s.start = time.Now()
	}
	if e.Reply != nil {
		s.said = append(s.said, e.Reply.String())
		s.line.Reply = e.Reply.Value
	}
	if d := e.Entry; d != nil && d.Decision != nil && d.Decision.By.Verdict.String() != "allow" {
		s.line.Denials = append(s.line.Denials, denial{d.Decision.Tool, d.Decision.Call, d.Decision.By.Reason, d.Decision.By.Rule})
	}
	if e.End != nil {
		s.reason = e.End.Reason
		s.line.Result = e.End.Text
		s.line.Turns += e.End.Requests
		s.line.Usage.Add(e.End.Usage)
		s.line.Cost += e.End.Cost
	}
}

// result ends a user turn: what it says is of that turn alone.
func (s *sum) result(err error) resultLine {
	l := s.line
	defer func() { *s = sum{line: resultLine{Session: s.line.Session}} }()
	l.Type, l.Subtype = "result", "success"
	l.Result = cmp.Or(l.Result, strings.Join(s.said, "\n"))
	if !s.start.IsZero() {
		l.Duration = time.Since(s.start).Milliseconds()
	}
	if l.Denials == nil {
		l.Denials = []denial{}
	}
	switch {
	case err != nil:
		l.Subtype, l.IsError, l.Result = "error", true, err.Error()
	case s.reason == "limit", s.reason == "cancelled", s.reason == "stopped":
		l.Subtype, l.IsError = s.reason, true
	}
	return l
}

// textOutput prints what commands show, and the last answer. Messages of hooks,
// problems of skills and retries go to errs.
type textOutput struct {
	w, errs io.Writer
	project *engine.Project
	text    string
}

func (o *textOutput) begin(_ context.Context, s *engine.Session) { o.project = s.Engine().Project() }

func (o *textOutput) event(e engine.Event) {
	if e.Reply != nil {
		if text := e.Reply.String(); text != "" {
			fmt.Fprintln(o.w, plain.Text(text))
		}
	}
	if e.Entry != nil && e.Entry.Activation != nil {
		for _, p := range e.Entry.Activation.Problems {
			printProblem(o.errs, o.project, p)
		}
	}
	if e.Entry != nil && e.Entry.Note != nil {
		for _, p := range e.Entry.Note.Problems {
			printProblem(o.errs, o.project, p)
		}
	}
	if r := e.Retry; r != nil {
		wait := ""
		if r.Wait > 0 {
			wait = fmt.Sprintf(" in %s", r.Wait.Round(100*time.Millisecond))
		}
		fmt.Fprintf(o.errs, "knack: retry %d%s: %s\n", r.Attempt, wait, plain.Line(r.Err.Error()))
	}
	if e.Entry != nil && e.Entry.Note != nil && e.Entry.Note.Hook != "" && e.Entry.Note.People != "" {
		fmt.Fprintln(o.errs, "knack: hook:", plain.Line(e.Entry.Note.People))
	}
	if e.End != nil {
		o.text = e.End.Text
	}
}

func (o *textOutput) end(err error) {
	if o.text != "" {
		text := strings.TrimRight(o.text, "\n")
		if isTerminal(o.w) { // what reads a pipe gets the answer as the model wrote it
			text = plain.Text(text)
		}
		fmt.Fprintln(o.w, text)
	}
	o.text = ""
}

func (o *textOutput) badLine(number int, field string, err error) {
	if field != "" {
		field += ": "
	}
	fmt.Fprintf(o.errs, "knack: warn: line %d of the input: %s%s\n", number, field, plain.Line(err.Error()))
}

func (o *textOutput) queued(int) {}

func (o *textOutput) structured(value json.RawMessage) { o.text = string(value) }

// jsonOutput prints one object at the end, or with lines set one a line as
// things happen.
type jsonOutput struct {
	enc     *json.Encoder
	lines   bool
	partial bool
	sum     sum
}

func newJSONOutput(w io.Writer, lines, partial bool) *jsonOutput {
	enc := json.NewEncoder(plain.JSON(w))
	enc.SetEscapeHTML(false)
	return &jsonOutput{enc: enc, lines: lines, partial: partial, sum: sum{start: time.Now()}}
}

func (o *jsonOutput) begin(ctx context.Context, s *engine.Session) {
	o.sum.line.Session = s.ID()
	if o.lines {
		o.enc.Encode(newInitLine(ctx, s))
	}
}

// commandLine is what a command of the program replies.
type commandLine struct {
	Type    string `json:"type"`    // system
	Subtype string `json:"subtype"` // command
	Name    string `json:"name"`
	Text    string `json:"text"`
	Reply   any    `json:"reply,omitempty"` // the same as data
}

// messageLine is an assistant or a user line of stream-json.
type messageLine struct {
	Type       string              `json:"type"` // assistant, user
	Session    string              `json:"session_id"`
	Parent     string              `json:"parent_tool_use_id,omitempty"` // what a sub-agent says: the call that started it
	Message    blocks              `json:"message"`
	Partial    bool                `json:"partial,omitempty"`
	Details    json.RawMessage     `json:"tool_use_result,omitempty"`
	IsMeta     bool                `json:"isMeta,omitempty"`
	Typed      string              `json:"typed,omitempty"`
	Activation *session.Activation `json:"activation,omitempty"`
	Permission *skillPermissions   `json:"command_permissions,omitempty"`
}

// skillPermissions is what a skill changes in the run.
type skillPermissions struct {
	Allowed    []string `json:"allowedTools"` // in effect; null: none were requested
	Disallowed []string `json:"disallowedTools,omitempty"`
	Model      string   `json:"model,omitempty"`
	Effort     string   `json:"effort,omitempty"`

	Hooks json.RawMessage `json:"hooks,omitempty"`
}

// blocks is a message in the shape that users of stream-json know.
type blocks struct {
	Role    llm.Role `json:"role"`
	Content []block  `json:"content"`
}

type block struct {
	Type     string          `json:"type"` // text, thinking, image, document, tool_use, tool_result
	Text     string          `json:"text,omitempty"`
	Thinking string          `json:"thinking,omitempty"`
	Source   *blockSource    `json:"source,omitempty"`
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Answers  string          `json:"tool_use_id,omitempty"`
	Content  []block         `json:"content,omitempty"`
	IsError  bool            `json:"is_error,omitempty"`
}

type blockSource struct {
	Type string `json:"type"` // base64
	MIME string `json:"media_type"`
	Data []byte `json:"data"`
}

func blocksOf(role llm.Role, parts ...llm.Part) blocks {
	b := blocks{Role: role, Content: []block{}}
	for _, p := range parts {
		b.Content = append(b.Content, blockOf(p))
	}
	return b
}

func blockOf(p llm.Part) block {
	switch {
	case p.Thinking != nil:
		return block{Type: "thinking", Thinking: p.Thinking.Text}
	case p.Media != nil:
		kind := "document"
		if strings.HasPrefix(p.Media.MIME, "image/") {
			kind = "image"
		}
		return block{Type: kind, Source: &blockSource{"base64", p.Media.MIME, p.Media.Data}}
	case p.Call != nil:
		input := p.Call.Input
		if !json.Valid(input) {
			input, _ = json.Marshal(string(input))
		}
		return block{Type: "tool_use", ID: p.Call.ID, Name: p.Call.Name, Input: input}
	case p.Result != nil:
		return block{Type: "tool_result", Answers: p.Result.ID, IsError: p.Result.IsError,
			Content: blocksOf(llm.User, p.Result.Parts...).Content}
	}
	return block{Type: "text", Text: p.Text}
}

func (o *jsonOutput) event(e engine.Event) {
	o.sum.see(e)
	if !o.lines {
		return
	}
	parent := ""
	if e.Agent != nil {
		parent = cmp.Or(e.Agent.Call, e.Agent.Log)
	}
	say := func(m map[string]any) {
		if parent != "" {
			m["parent_tool_use_id"] = parent
		}
		o.enc.Encode(m)
	}
	switch {
	case e.Text != "" && o.partial:
		say(map[string]any{"type": "stream_event", "delta": map[string]string{"text": e.Text}})
	case e.Thinking != "" && o.partial:
		say(map[string]any{"type": "stream_event", "delta": map[string]string{"thinking": e.Thinking}})
	case e.Reply != nil:
		o.enc.Encode(commandLine{Type: "system", Subtype: "command", Name: e.Reply.Command, Text: e.Reply.String(), Reply: e.Reply.Value})
	case e.Retry != nil:
		say(map[string]any{"type": "system", "subtype": "retry", "attempt": e.Retry.Attempt,
			"wait_ms": e.Retry.Wait.Milliseconds(), "error": e.Retry.Err.Error()})
	case e.Entry != nil:
		switch l := o.message(e.Entry, parent).(type) {
		case nil:
		case map[string]any:
			say(l)
		default:
			o.enc.Encode(l)
		}
	}
}

func (o *jsonOutput) message(e *session.Entry, parent string) any {
	l := messageLine{Session: o.sum.line.Session, Parent: parent}
	switch {
	case e.Answer != nil:
		l.Type, l.Partial = "assistant", e.Answer.Partial
		l.Message = blocksOf(llm.Assistant, e.Answer.Message.Parts...)
	case e.User != nil:
		l.Type, l.Message, l.Typed = "user", blocksOf(llm.User, e.User.Parts...), e.User.Typed
	case e.Result != nil:
		l.Type, l.Details = "user", e.Result.Details
		l.Message = blocksOf(llm.User, llm.Part{Result: &e.Result.ToolResult})
	case e.Activation != nil:
		a := e.Activation
		l.Type, l.IsMeta, l.Activation = "user", true, a
		l.Message = blocksOf(llm.User, append([]llm.Part{llm.Text(a.Prompt)}, a.Parts...)...)
		l.Permission = &skillPermissions{a.Granted(), a.Denies, a.Model, a.Effort, a.Hooks}
	case e.Note != nil:
		line := map[string]any{"type": "system", "subtype": "note", "model": e.Note.Model, "people": e.Note.People}
		if e.Note.Hook != "" {
			line["hook_event_name"] = e.Note.Hook
		}
		if e.Note.Skills != nil {
			line["skills"] = e.Note.Skills
		}
		if len(e.Note.Problems) > 0 {
			line["problems"] = e.Note.Problems
		}
		return line
	case e.Release != nil:
		return map[string]any{"type": "system", "subtype": "release", "skill": e.Release.Skill, "tokens": e.Release.Tokens, "reason": e.Release.Reason}
	case e.Compaction != nil:
		return map[string]any{"type": "system", "subtype": "compaction", "compaction": e.Compaction}
	case e.Decision != nil:
		return map[string]any{"type": "system", "subtype": "decision", "decision": e.Decision}
	case e.Agent != nil:
		return map[string]any{"type": "system", "subtype": "agent", "agent": e.Agent}
	default:
		return nil
	}
	return l
}

func (o *jsonOutput) end(err error) { o.enc.Encode(o.sum.result(err)) }

func (o *jsonOutput) badLine(number int, field string, err error) {
	o.enc.Encode(errorLine{Type: "error", Line: number, Field: field, Error: err.Error()})
}

func (o *jsonOutput) structured(value json.RawMessage) { o.sum.line.Structured = value }

func (o *jsonOutput) queued(number int) {
	if o.lines {
		o.enc.Encode(map[string]any{"type": "system", "subtype": "queued", "line": number})
	}
}

// newInitLine describes a session.
func newInitLine(ctx context.Context, s *engine.Session) initLine {
	p, cat := s.Engine().Project(), s.Engine().Catalog()
	l := initLine{
		Type: "system", Subtype: "init", Session: s.ID(), Dir: p.Dir(),
		Mode: string(s.Mode()), Version: version(),
		Tools: s.Tools(), Skills: []string{}, Commands: []string{}, Problems: []string{},
	}
	if m, err := s.Model(ctx); err == nil { // a command may need none
		l.Model = m.Info().ID
	}
	for _, d := range p.Agents() {
		if !slices.Contains(l.Agents, d.Name) {
			l.Agents = append(l.Agents, d.Name)
		}
	}
	if l.Tools == nil {
		l.Tools = []string{}
	}
	if v := p.View(); !v.Index && !s.Lacks("Skill") && len(cat.Listing(v).Entries) > 0 {
		l.Tools = append(l.Tools, "Skill")
	}
	for _, k := range cat.Skills() {
		l.Skills = append(l.Skills, k.Name)
	}
	for _, c := range s.Commands() {
		l.Commands = append(l.Commands, c.Name)
	}
	for _, x := range s.Engine().Problems() {
		l.Problems = append(l.Problems, x.String())
	}
	return l
}
