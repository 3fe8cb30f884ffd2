package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// An Output shows turns to the program or person that started Knack. Its methods may be called
// concurrently.
type Output interface {
	// Begin is called for each session, before its events.
	Begin(context.Context, *engine.Session)
	Event(engine.Event)
	// End ends a turn. err is why the turn failed; nil: it did not fail.
	End(err error)
	// BadLine reports a line of structured input that cannot be read. field is the invalid member; "": the
	// line as a whole.
	BadLine(number int, field string, err error)
	// Structured shows the answer that matches the JSON schema; End follows.
	Structured(json.RawMessage)
	// Queued reports a line of structured input that enters the running turn.
	Queued(number int)
}

// A lineWriter writes one object per line. It is safe for concurrent use.
type lineWriter struct {
	mu           sync.Mutex
	encode       *json.Encoder
	onWriteError func() // called when a line cannot be written because the reader is gone; may be nil
}

func newLineWriter(w io.Writer) *lineWriter {
	enc := json.NewEncoder(plain.JSON(w))
	enc.SetEscapeHTML(false)
	return &lineWriter{encode: enc}
}

func (w *lineWriter) write(v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.encode.Encode(v)
	if err != nil && w.onWriteError != nil {
		w.onWriteError()
	}
	return err
}

// Messages is an Output that writes JSON: one Result for each turn and, if lines is set, the other
// messages as they happen.
type Messages struct {
	out   *lineWriter
	lines bool
	// Partial adds the parts of answers while they are streamed.
	Partial bool
	// HookEvents adds messages about commands of hooks.
	HookEvents bool

	// before is called before a message about the result of a call, or the end of a turn; nil: nothing is.
	before func()
	mirror *mirror // nil: nothing is mirrored

	mu      sync.Mutex
	host    bool // use the tool names of hosts of the Agent SDK
	replay  bool // with host: repeat prompts
	session *engine.Session
	extra   []string // problems for the Init message
	total   tally
	turn    engine.Report   // until End
	value   json.RawMessage // the turn's answer that matches the schema; nil: none
	// requested is when the first request of the turn was sent; firstToken how long its answer took to begin, in
	// milliseconds.
	requested  time.Time
	firstToken int64
	spent      sessionUsage // durations and lines of the turns so far
	counted    int          // the last entry included in total
	random     int          // number of messages without an entry
	streams    map[string]*answerStream
	calls      map[string]*runningCall // by ID
	originals  map[string]*string      // by the call's ID: see keepBefore
	stopped    map[string]bool         // agents that the host has stopped and whose end it knows, by the ID of their log
	prompts    []string                // IDs of the host's messages that the running turn answers, or that may join it
	joined     []string                // those of prompts that the turn has not read yet
}

// NewMessages returns an Output that writes stream-json if lines is set, else json.
func NewMessages(w io.Writer, lines bool) *Messages {
	return newMessages(newLineWriter(w), lines)
}

func newMessages(w *lineWriter, lines bool) *Messages {
	return &Messages{out: w, lines: lines, streams: map[string]*answerStream{}, calls: map[string]*runningCall{},
		originals: map[string]*string{}, stopped: map[string]bool{},
		turn: engine.Report{Began: time.Now()}}
}

// A tally sums up usage and cost by model.
type tally struct {
	models map[string]ModelUsage
	cost   float64
}

func (t *tally) add(x session.Spend) {
	t.cost += x.Cost
	if x.Model == "" {
		return // a sub-agent that made no request
	}
	if t.models == nil {
		t.models = map[string]ModelUsage{}
	}
	m := t.models[x.Model]
	m.Input += x.Usage.Input
	m.Output += x.Usage.Output
	m.CacheRead += x.Usage.CacheRead
	m.CacheWrite += x.Usage.CacheWrite
	m.Cost += x.Cost
	t.models[x.Model] = m
}

// Begin writes the Init message.
func (o *Messages) Begin(ctx context.Context, s *engine.Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session = s
	o.counted = s.Log().Last()
	if o.lines {
		o.out.write(o.init(ctx))
	}
}

func (o *Messages) init(ctx context.Context) Init {
	s := o.session
	p, cat := s.Engine().Project(), s.Catalog()
	m := Init{
		Type: typeSystem, Subtype: subtypeInit, Head: o.head(0), Dir: p.Dir(), Mode: string(s.Mode()), Version: p.Version(),
		HostVersion: p.Version(), Tools: []string{}, Skills: []string{}, Agents: []string{}, Commands: []string{},
		Servers: []ServerStatus{}, Plugins: plugins(s), Key: "none", Style: "default",
		Capabilities: []string{"interrupt_receipt_v1"}, Problems: []string{},
	}
	if model, err := s.Model(ctx); err == nil { // a session needs no model if only commands run
		m.Model = o.modelName(model.Info().ID)
	}
	switch a := accountOf(ctx, s); {
	case a.Key == "ANTHROPIC_API_KEY":
		m.Key = a.Key
	case strings.HasSuffix(a.Key, ".keyHelper"):
		m.Key = "apiKeyHelper"
	}
	for _, d := range append(s.Host().Agents, p.Agents()...) {
		if !slices.Contains(m.Agents, d.Name) {
			m.Agents = append(m.Agents, d.Name)
		}
	}
	for _, name := range s.Now().Tools() {
		m.Tools = append(m.Tools, o.toolName(name))
	}
	v := s.Now().View()
	if !v.Index && !s.Now().IsRemoved("Skill") && len(cat.Listing(v).Entries) > 0 {
		m.Tools = append(m.Tools, "Skill")
	}
	for _, e := range cat.Candidates() {
		if (e.State == knack.Active || e.State == knack.Conditional) && cat.State(e, v) != knack.Off {
			m.Skills = append(m.Skills, e.Name())
		}
	}
	for _, c := range s.Now().Commands() {
		m.Commands = append(m.Commands, c.Name)
	}
	for _, x := range statuses(s) {
		m.Servers = append(m.Servers, ServerStatus{x.Name, x.Status, x.Source, x.Error})
		for _, t := range x.Tools {
			m.Tools = append(m.Tools, t.Name)
		}
	}
	for _, x := range s.Engine().Problems() {
		if x.Severity != knack.Info {
			m.Problems = append(m.Problems, x.String())
		}
	}
	m.Problems = append(m.Problems, o.extra...)
	return m
}

// plugins lists the plugins in use.
func plugins(s *engine.Session) []Plugin {
	all := []Plugin{}
	found, _ := s.Engine().Project().Plugins().List() // what is wrong with them is among the problems
	for _, x := range found {
		if name, _, _ := strings.Cut(x.ID, "@"); x.Used && x.Path != "" {
			all = append(all, Plugin{name, x.Path, x.Version})
		}
	}
	return all
}

// head returns the Head of a message about an entry; 0: about none.
func (o *Messages) head(entry int) Head { return o.headOf(o.sessionID(), entry) }

// headOf is head for an entry of a given log, the session's or a sub-agent's.
func (o *Messages) headOf(log string, entry int) Head {
	if o.session != nil && log == o.session.ID() {
		log = spaceOf(o.session.Log())
	}
	id := fmt.Sprintf("%s:%d", log, entry)
	if entry == 0 {
		o.random++
		id = fmt.Sprintf("%s:%d:%d", log, o.turn.Began.UnixNano(), o.random)
	}
	return Head{Session: o.sessionID(), UUID: uuidOf(id)}
}

func (o *Messages) sessionID() string {
	if o.session == nil {
		return ""
	}
	return o.session.ID()
}

// spaceOf returns the text from which UUIDs of a session's entries are made: its ID, and if it was imported also the
// time of that, because the original may have entries with the same numbers and ID.
func spaceOf(log *session.Log) string {
	if h := log.Header(); h.From != "" {
		return log.ID() + " " + h.Time.UTC().Format(time.RFC3339Nano)
	}
	return log.ID()
}

// EntryOf returns the ID of the entry of a session whose messages have a UUID, which a host may have chosen.
func EntryOf(log *session.Log, uuid string) (int, error) {
	for e := range log.Backward() {
		if uuidOf(fmt.Sprintf("%s:%d", spaceOf(log), e.ID)) == uuid || uuid != "" && e.User != nil &&
			e.User.MessageID == uuid {
			return e.ID, nil
		}
	}
	return 0, fmt.Errorf("session %s has no message %q", log.ID(), uuid)
}

// uuidOf makes a UUID (version 8) from a text, so that every program that reads the session gets the
// same UUID for an entry.
func uuidOf(text string) string {
	h := sha256.Sum256([]byte("knack:" + text))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// modelName returns the name by which the reader knows a model: hosts know those of Anthropic without the provider.
func (o *Messages) modelName(id string) string {
	if !o.host {
		return id
	}
	return strings.TrimPrefix(id, "anthropic/")
}

// toolName returns the name under which the reader knows a tool.
func (o *Messages) toolName(name string) string {
	if !o.host || o.session == nil {
		return name
	}
	return hostName(o.session, name)
}

// hostName returns the name that hosts of the Agent SDK use for a tool: its first alias.
func hostName(s *engine.Session, name string) string {
	if t, ok := s.Now().Tool(name); ok && t.Name == name {
		return t.Names()[0]
	}
	return name
}

// toolInput converts a call's input to the form that the reader knows.
func (o *Messages) toolInput(name string, input json.RawMessage) json.RawMessage {
	if !json.Valid(input) {
		input, _ = json.Marshal(string(input))
	}
	if o.host && o.session != nil {
		if t, ok := o.session.Now().Tool(name); ok {
			return t.Encode(input)
		}
	}
	return input
}

// block converts a part of a message.
func (o *Messages) block(p llm.Part) Block {
	text := func(s string) *string { return &s }
	switch {
	case p.Thinking != nil:
		return Block{Type: blockThinking, Thinking: text(p.Thinking.Text), Signature: text("")}
	case p.Media != nil:
		kind := blockDocument
		if strings.HasPrefix(p.Media.MIME, "image/") {
			kind = blockImage
		}
		return Block{Type: kind, Source: &BlockSource{"base64", p.Media.MIME, p.Media.Data}}
	case p.Call != nil:
		return Block{Type: blockToolUse, ID: p.Call.ID, Name: o.toolName(p.Call.Name),
			Input: o.toolInput(p.Call.Name, p.Call.Input)}
	case p.Result != nil:
		return Block{Type: blockToolResult, Call: p.Result.ID, IsError: p.Result.IsError,
			Content: o.blocks(p.Result.Parts...)}
	}
	return Block{Type: blockText, Text: text(p.Text)}
}

func (o *Messages) blocks(parts ...llm.Part) []Block {
	all := []Block{}
	for _, p := range parts {
		all = append(all, o.block(p))
	}
	return all
}

// Event writes the messages for an event.
func (o *Messages) Event(e engine.Event) {
	if o.before != nil && e.Agent == nil && (e.End != nil || e.Entry != nil && e.Entry.Result != nil) {
		o.before()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turn.Add(e)
	switch {
	case e.Agent != nil || o.firstToken > 0:
	case e.Request != nil && o.requested.IsZero():
		o.requested = time.Now()
	case (e.Text != "" || e.Thinking != "" || e.Entry != nil && e.Entry.Answer != nil) && !o.requested.IsZero():
		o.firstToken = max(1, time.Since(o.requested).Milliseconds())
	}
	if x := e.Entry; x != nil && x.Result != nil && o.host {
		d := x.Result.Change()
		o.spent.Added, o.spent.Removed = o.spent.Added+d.Added, o.spent.Removed+d.Removed
	}
	if x := e.Entry; x != nil && x.User != nil && x.User.Steering && len(o.joined) > 0 {
		o.joined = o.joined[1:]
	}
	if !o.lines {
		return
	}
	if e.Entry != nil && o.mirror != nil && o.session != nil {
		o.mirrored(e)
	}
	log, parent := o.sessionID(), (*string)(nil)
	if e.Agent != nil {
		log = e.Agent.Log
		id := cmp.Or(e.Agent.Call, e.Agent.Log)
		parent = &id
	}
	o.stream(log, parent, e)
	switch {
	case e.Reply != nil:
		if _, ok := e.Reply.Value.(*session.Compaction); ok {
			o.compacted()
		}
		o.out.write(CommandMessage{Type: typeSystem, Subtype: subtypeCommand, Head: o.head(0),
			Name: e.Reply.Command, Content: e.Reply.String(), Reply: e.Reply.Value})
	case e.Retry != nil:
		o.out.write(o.retry(e.Retry, parent))
	case e.Entry != nil:
		if a := e.Entry.Agent; a != nil && a.Background && a.Reason != "" && o.host {
			if o.stopped[a.Log] { // the host knows it
				break
			}
			o.out.write(o.agentUpdated(a, e.Entry.Time))
		}
		if m := o.typed(log, parent, e.Entry); m != nil {
			o.out.write(m)
		}
		if m := o.message(log, parent, e.Entry); m != nil {
			o.out.write(m)
		}
	case e.Started != nil && o.host:
		o.calls[e.Started.Call] = &runningCall{started: time.Now()}
	case e.Ended != nil:
		delete(o.calls, e.Ended.Call)
		if o.host {
			o.keepBefore(e.Ended)
		}
	case e.Progress != nil && o.host:
		o.progress(e.Progress.Call, parent)
	}
}

// A runningCall is a call of a tool that runs.
type runningCall struct{ started, shown time.Time }

// progressTime is the least time between two messages about the progress of a call.
const progressTime = time.Second

// progress tells a host that a call still runs, when its result so far has changed.
func (o *Messages) progress(call string, parent *string) {
	c := o.calls[call]
	if c == nil || time.Since(c.shown) < progressTime || time.Since(c.started) < progressTime {
		return
	}
	c.shown = time.Now()
	name := ""
	for e := range o.session.Log().Backward() {
		if e.Started != nil && e.Started.Call == call {
			name = o.toolName(e.Started.Name)
			break
		}
		if e.Answer != nil {
			break
		}
	}
	o.out.write(ProgressMessage{Type: typeProgress, Head: o.head(0), Call: call, Tool: name, Parent: parent,
		Elapsed: time.Since(c.started).Seconds()})
}

// typed returns the message with the name of a skill that a message of its calls, which is for people: the skill's text
// follows as one that is not; nil: there is none. For a host it repeats what the user typed.
func (o *Messages) typed(log string, parent *string, e *session.Entry) any {
	a := e.Activation
	if a == nil {
		return nil
	}
	m := UserMessage{Type: typeUser, Head: o.headOf(log, 0), Parent: parent,
		Message: UserContent{llm.User, o.blocks(llm.Text(a.Label()))}}
	if o.host && parent == nil && (a.By == session.ByUser || a.By == session.ByInput) {
		m.IsReplay = true
		if len(o.prompts) > 0 {
			m.UUID = o.prompts[0]
		}
	}
	return m
}

// compacted writes the message about a compaction that a command has made.
func (o *Messages) compacted() {
	for e := range o.session.Log().Backward() {
		if e.Compaction != nil {
			o.out.write(o.message(o.sessionID(), nil, &e))
			return
		}
	}
}

func (o *Messages) retry(r *agent.Retrying, parent *string) RetryMessage {
	m := RetryMessage{Type: typeSystem, Subtype: subtypeRetry, Head: o.head(0), Parent: parent,
		Attempt: r.Attempt, MaxRetries: cmp.Or(r.Of, 3), Wait: r.Wait.Milliseconds(), Error: "unknown", Message: r.Err.Error()}
	if r.Model != "" {
		m.Message += "; now with " + r.Model
	}
	var e *llm.Error
	if errors.As(r.Err, &e) {
		if e.Status > 0 {
			m.Status = &e.Status
		}
		m.Error = e.Kind.Word()
	}
	return m
}

func messageID(h Head) string { return "msg_" + strings.ReplaceAll(h.UUID, "-", "") }

// response converts an answer to a message of the Messages API.
func (o *Messages) response(log string, e *session.Entry) ModelResponse {
	a := e.Answer
	id := messageID(o.headOf(log, e.ID))
	if s := o.streams[log]; s != nil {
		id = s.id
	}
	m := ModelResponse{ID: id, Type: "message", Role: llm.Assistant, Model: o.modelName(a.Model),
		Content: o.blocks(a.Message.Parts...), Usage: usageOf(a.Usage)}
	if a.Stop != "" {
		stop := string(a.Stop)
		m.Stop = &stop
	}
	return m
}

// message returns the message for an entry; nil: there is none.
func (o *Messages) message(log string, parent *string, e *session.Entry) any {
	head := o.headOf(log, e.ID)
	switch {
	case e.Answer != nil:
		return AssistantMessage{Type: typeAssistant, Head: head, Parent: parent, Message: o.response(log, e),
			Aborted: e.Answer.Partial}
	case e.User != nil:
		if parent == nil && o.host && !o.replay {
			return nil // the host sent it
		}
		head.UUID = cmp.Or(e.User.MessageID, head.UUID)
		return UserMessage{Type: typeUser, Head: head, Parent: parent,
			Message: UserContent{llm.User, o.blocks(e.User.Parts...)}, Typed: e.User.Typed, IsReplay: parent == nil}
	case e.Result != nil:
		return UserMessage{Type: typeUser, Head: head, Parent: parent, Details: o.details(e.Result),
			Message: UserContent{llm.User, o.blocks(llm.Part{Result: &e.Result.ToolResult})}}
	case e.Activation != nil:
		a := e.Activation
		return UserMessage{Type: typeUser, Head: head, Parent: parent, IsMeta: true, Synthetic: true, Activation: a,
			Message:    UserContent{llm.User, o.blocks(append([]llm.Part{llm.Text(a.Prompt)}, a.Parts...)...)},
			Permission: &SkillPermissions{a.Granted(), a.Denies, cmp.Or(a.Uses, a.Model), a.Effort, a.Hooks}}
	case e.Note != nil:
		return NoteMessage{Type: typeSystem, Subtype: subtypeNote, Head: head, Parent: parent, Model: e.Note.Model,
			People: e.Note.People, Hook: e.Note.Hook,
			Skills: e.Note.Skills, Problems: e.Note.Problems}
	case e.Release != nil:
		return ReleaseMessage{Type: typeSystem, Subtype: subtypeRelease, Head: head, Parent: parent, Skill: e.Release.Skill,
			Tokens: e.Release.Tokens, Reason: e.Release.Reason}
	case e.Compaction != nil:
		trigger := "auto"
		if e.Compaction.Trigger == session.TriggerManual || e.Compaction.Trigger == session.TriggerClear {
			trigger = "manual"
		}
		return CompactMessage{Type: typeSystem, Subtype: subtypeCompacted, Head: head, Compaction: e.Compaction,
			Metadata: CompactMetadata{trigger, e.Compaction.Before, e.Compaction.After}}
	case e.Decision != nil:
		d := e.Decision
		m := DecisionMessage{Type: typeSystem, Subtype: subtypeDecision, Head: head, Parent: parent, Tool: o.toolName(d.Tool),
			Call: d.Call, Decision: d}
		if d.By.Verdict != permission.Allow {
			m.Subtype, m.Kind, m.Reason = subtypeDenied, reasonTypeOf(d), d.By.Reason
			m.Message = cmp.Or(d.By.Reason, "the rule "+d.By.Rule+" denies it")
		}
		return m
	case e.Agent != nil:
		return taskMessage(head, parent, e.Agent)
	}
	return nil
}

// reasonTypeOf returns the kind of reason for denying a call.
func reasonTypeOf(d *session.Decision) reasonType {
	switch {
	case d.Hook != "":
		return reasonHook
	case d.By.Rule != "":
		return reasonRule
	}
	return reasonOther
}

func taskMessage(head Head, parent *string, a *session.Agent) TaskMessage {
	m := TaskMessage{Type: typeSystem, Subtype: subtypeTaskStarted, Head: head, Parent: parent, Task: a.Log, Call: a.Call,
		TaskType: taskAgent, Description: a.Task, Agent: a.Name, Background: a.Background, Entry: a}
	if a.Reason == "" {
		return m
	}
	none := ""
	m.Subtype, m.Output, m.Summary, m.Status = subtypeTaskNotification, &none, a.Result, taskCompleted
	switch a.Reason {
	case session.EndDone, session.EndTerminated:
	case session.EndCancelled, session.EndStopped, session.EndInterrupted:
		m.Status = taskStopped
	default:
		m.Status = taskFailed
	}
	return m
}

// End ends a turn with its Result. The Result covers only this turn, except for the total cost.
func (o *Messages) End(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out.write(o.result(err))
}

func (o *Messages) result(err error) Result {
	t := &o.turn
	if o.session != nil {
		entries := o.session.Log().After(o.counted)
		for x := range session.Spending(entries...) {
			o.total.add(x)
		}
		if n := len(entries); n > 0 {
			o.counted = entries[n-1].ID
		}
	}
	r := Result{Type: typeResult, Subtype: subtypeSuccess, Reason: session.EndDone, Head: o.head(0), Turns: t.Requests,
		Usage:      usageOf(t.Usage),
		ModelUsage: map[string]ModelUsage{}, Cost: o.total.cost, APIDuration: t.Waited.Milliseconds(), Denials: []Denial{},
		Structured: o.value}
	if !t.Began.IsZero() {
		r.Duration = time.Since(t.Began).Milliseconds()
	}
	var replies []string
	for _, x := range t.Replies {
		replies, r.Reply = append(replies, x.String()), x.Value
	}
	for _, x := range t.Refused {
		input := json.RawMessage("{}")
		if x.Input != nil {
			input = o.toolInput(x.Tool, x.Input)
		}
		r.Denials = append(r.Denials, Denial{o.toolName(x.Tool), x.Call, x.By.Reason, x.By.Rule, input})
	}
	o.spent.APIDuration, o.spent.Duration = o.spent.APIDuration+r.APIDuration, o.spent.Duration+r.Duration
	for name, u := range o.total.models {
		r.ModelUsage[o.modelName(name)] = o.limits(name, u)
	}
	if t.Stop != "" {
		stop := string(t.Stop)
		r.Stop = &stop
	}
	r.Reason = cmp.Or(t.End.Reason, r.Reason)
	r.Result = cmp.Or(t.End.Text, strings.Join(replies, "\n"))
	var blocked *agent.Blocked
	switch {
	case o.host && errors.As(err, &blocked): // for hosts that is an answer
		r.Result = err.Error()
	case err != nil:
		r.Reason, r.Result, r.Errors = session.EndError, err.Error(), []string{err.Error()}
		r.Subtype = subtypeExecution
		if errors.Is(err, errSchema) {
			r.Subtype = subtypeMaxRetries
		}
	case r.Reason == session.EndLimit:
		r.Errors = []string{"the run was stopped: " + t.End.Why}
		r.Subtype = map[agent.Limit]subtype{agent.LimitRequests: subtypeMaxTurns,
			agent.LimitCost: subtypeMaxBudget}[t.End.Limit]
		r.Subtype = cmp.Or(r.Subtype, subtypeExecution)
	case r.Reason == session.EndCancelled:
		r.Subtype, r.Errors = subtypeExecution, []string{"interrupted"}
	case o.host && stoppedByHook(t): // for hosts that is an answer, too
		r.Result = t.Err(context.Background()).Error()
	case r.Reason == session.EndStopped:
		r.Subtype, r.Errors = subtypeExecution, []string{t.Err(context.Background()).Error()}
	case t.Stop == llm.Failed:
		r.Subtype, r.Errors = subtypeExecution, []string{"the procedure failed"}
	case t.End.Unfinished != "":
		r.Errors = []string{t.Err(context.Background()).Error()}
		r.Subtype = map[agent.Unfinished]subtype{agent.AnswerCut: subtypeCut, agent.AnswerEmpty: subtypeEmpty,
			agent.AnswerPaused: subtypePaused, agent.AnswerRefused: subtypeRefusal}[t.End.Unfinished]
	}
	r.IsError = r.Subtype != subtypeSuccess
	for _, id := range o.prompts {
		if !slices.Contains(o.joined, id) {
			r.Prompts = append(r.Prompts, id)
		}
	}
	o.prompts = slices.Clone(o.joined)
	if o.host {
		r.FirstToken, r.Terminal = o.firstToken, terminalReason(r, t)
	}
	o.turn, o.value, o.requested, o.firstToken = engine.Report{}, nil, time.Time{}, 0
	return r
}

// stoppedByHook reports whether a hook ended a turn.
func stoppedByHook(t *engine.Report) bool { return t.End.Reason == session.EndStopped && !t.End.ByUser }

// terminalReason returns the word of hosts for why a turn ended; "": they have none for it.
func terminalReason(r Result, t *engine.Report) string {
	switch r.Subtype {
	case subtypeMaxTurns:
		return "max_turns"
	case subtypeMaxBudget:
		return "budget_exhausted"
	case subtypeMaxRetries:
		return "structured_output_retry_exhausted"
	case subtypeSuccess:
		if stoppedByHook(t) {
			return "hook_stopped"
		}
		return "completed"
	}
	switch {
	case r.Reason == session.EndCancelled && t.Stop == "":
		return "aborted_streaming"
	case r.Reason == session.EndCancelled, r.Reason == session.EndStopped && t.End.ByUser:
		return "aborted_tools"
	case r.Reason == session.EndError && t.Requests == 0 && t.Waited == 0:
		return "turn_setup_failed"
	case r.Reason == session.EndError:
		return "model_error"
	}
	return ""
}

// limits adds the size of the window to a model's usage, if it is the session's model.
func (o *Messages) limits(name string, u ModelUsage) ModelUsage {
	if m, err := o.session.Model(context.Background()); err == nil && m.Info().ID == name {
		u.Window, u.MaxOutput = m.Info().Window, m.Info().MaxOutput
	} else { // of an agent, a fork or a summary
		u.Window, u.MaxOutput = o.session.Engine().Models().Window(name)
	}
	return u
}

// BadLine writes the message about a line that cannot be read.
func (o *Messages) BadLine(number int, field string, err error) {
	o.out.write(BadLine{Type: typeError, Line: number, Field: field, Error: err.Error()})
}

// again writes the Init message again, as hosts expect before each turn.
func (o *Messages) again(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines && o.session != nil {
		o.out.write(o.init(ctx))
	}
}

// modeChanged tells a host the mode.
func (o *Messages) modeChanged(mode permission.Mode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines && o.host {
		o.out.write(StatusMessage{Type: typeSystem, Subtype: subtypeStatus, Head: o.head(0), Mode: mode})
	}
}

// commandsChanged tells a host what can be typed after a slash.
func (o *Messages) commandsChanged(all []slashCommand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines && o.host {
		o.out.write(CommandsMessage{Type: typeSystem, Subtype: subtypeCommandsChanged, Head: o.head(0), Commands: all})
	}
}

// used returns what the turns that have ended used.
func (o *Messages) used() sessionUsage {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.spent
	u.Cost, u.Models = o.total.cost, map[string]ModelUsage{}
	for name, m := range o.total.models {
		u.Models[name] = o.limits(name, m)
	}
	return u
}

// Structured records the answer that matches the schema.
func (o *Messages) Structured(value json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.value = value
}

// Queued confirms that a prompt enters the running turn.
func (o *Messages) Queued(number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines {
		o.out.write(QueuedMessage{Type: typeSystem, Subtype: subtypeQueued, Head: o.head(0), Line: number})
	}
}

// setHostMode records that the reader is a host of the Agent SDK: tools get the names that it knows, and
// its own messages are not repeated.
func (o *Messages) setHostMode(problems []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.host, o.extra = true, problems
}

// removeJoined removes a message that was expected to join the turn.
func (o *Messages) removeJoined(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	same := func(s string) bool { return s == id }
	o.prompts, o.joined = slices.DeleteFunc(o.prompts, same), slices.DeleteFunc(o.joined, same)
}

// prompted records the ID of a host's message that the next turn answers, or that joins the running
// turn.
func (o *Messages) prompted(id string, joins bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if id == "" {
		return
	}
	o.prompts = append(o.prompts, id)
	if joins {
		o.joined = append(o.joined, id)
	}
}
