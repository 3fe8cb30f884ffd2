package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// maxBlocks limits how often Stop hooks may make the model continue in one run.
const maxBlocks = 8

// Blocked is the error for an input that a hook refused. No part of the input was recorded.
type Blocked struct {
	Event  hook.Event // UserPromptSubmit or UserPromptExpansion
	Reason string
}

func (b *Blocked) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("a %s hook refused the prompt: %s", b.Event, b.Reason), ": ")
}

// Said is the error for a prompt that a UserPromptSubmit hook answered itself. No part of the prompt was recorded.
type Said struct{ Text string }

func (s *Said) Error() string { return s.Text }

// runHooks run the hooks of a run, and record their texts for the model and the user.
type runHooks struct {
	*turn
	origin  *origin                    // of the run
	inUse   func(session.Scope) Review // of a skill in use
	set     *hook.Set                  // the hooks for the calls that are running
	inCalls bool                       // calls are running; notes are recorded after their results
	blocks  int                        // how often a Stop hook made the model continue
	answers hook.Record

	mu sync.Mutex
	// originals are the results of running calls that hooks have replaced, by the ID of the call.
	originals map[string]tool.Result
}

// Hook runs the hooks of an event outside a run, such as SessionStart, and records their texts for the
// model and the user. The error is from writing the log.
func (a *Agent) Hook(ctx context.Context, log *session.Log, in hook.Input) (hook.Outcome, error) {
	return newRun(a, log).hooks.fire(ctx, in)
}

// fire runs the hooks of an event and records their texts: immediately, or, while calls are running, after
// the results of those calls. Tools may call it.
func (h *runHooks) fire(ctx context.Context, in hook.Input) (hook.Outcome, error) {
	if h.Policy.Hooks == nil {
		return hook.Outcome{}, nil
	}
	if h.inCalls {
		return h.set.Fire(ctx, in), nil
	}
	out := h.inEffect(h.log.State().Scopes).Fire(ctx, in)
	return out, h.flush(nil)
}

// Hooks returns the hooks in effect in a session.
func (a *Agent) Hooks(log *session.Log) []hook.Hook {
	set := newRun(a, log).hooks.inEffect(log.State().Scopes)
	if set == nil {
		return nil
	}
	return set.Hooks
}

// inEffect returns the hooks in effect while skills are in use.
func (h *runHooks) inEffect(scopes []session.Scope, more ...hook.Hook) *hook.Set {
	all := h.Policy.Hooks
	if all == nil {
		return nil
	}
	var own []hook.Hook
	for _, s := range scopes {
		own = append(own, h.inUse(s).Hooks...)
	}
	own = slices.Concat(own, more, h.origin.guards)
	set := &hook.Set{Hooks: all.Hooks, Runner: all.Runner, Session: h.log.ID(), Record: &h.answers, Debug: h.Debug}
	if len(own) > 0 {
		set.Hooks = append(own, all.Hooks...)
	}
	if h.origin.parent != nil {
		set.Session = h.origin.parent.root().log.ID()
		set.AgentID, set.AgentType = h.origin.subRecord.Log, h.origin.subRecord.Name
	}
	return set
}

// notesOf returns the texts for the model and the user in what the hooks of an event answered.
func notesOf(in hook.Input, out hook.Outcome) (notes []session.Note) {
	about := string(in.Event)
	if in.Tool != "" {
		about += ":" + in.Tool
	}
	if model := slices.Clone(out.Context); len(model) > 0 || out.Block && blockContinues(in.Event) {
		for i := range model {
			model[i] = about + " hook additional context: " + model[i]
		}
		if out.Block && blockContinues(in.Event) {
			model = append(model, about+" hook: "+out.Reason)
		}
		notes = append(notes, session.Note{Model: strings.Join(model, "\n")})
	}
	for _, m := range out.Messages {
		notes = append(notes, session.Note{People: m})
	}
	for _, m := range out.Notices {
		notes = append(notes, session.Note{People: m, Notify: true})
	}
	for _, err := range out.Failed {
		note := session.Note{People: err.Error()}
		if f := (*hook.Failure)(nil); errors.As(err, &f) {
			note.Failed = f.Kind()
		}
		notes = append(notes, note)
	}
	for i := range notes {
		notes[i].Hook = string(in.Event)
	}
	return notes
}

// blockContinues reports whether a block of this event prevents nothing, because the event has already happened.
// Instead, its reason is sent to the model, which continues.
func blockContinues(e hook.Event) bool {
	switch e {
	case hook.PostToolUse, hook.PostToolUseFailure, hook.PostToolBatch, hook.Stop, hook.SubagentStop, hook.SkillActivated:
		return true
	}
	return false
}

// flush records the pending texts of hooks, in the order of the calls that they are about.
func (h *runHooks) flush(calls []llm.ToolCall) error {
	all := h.answers.Take()
	position := func(x hook.Answered) int { // those about no call come last
		if i := slices.IndexFunc(calls, func(c llm.ToolCall) bool { return c.ID == x.Input.Call }); i >= 0 {
			return i
		}
		return len(calls)
	}
	order.Stable(all, func(a, b hook.Answered) int { return position(a) - position(b) })
	for i, x := range all {
		// The user is needed in the middle of calls, between which the model must be told nothing.
		if x.Input.Event == hook.Notification && len(x.Outcome.Context) > 0 {
			h.Policy.Hooks.Runner.Later(hook.Answered{Input: x.Input, Outcome: hook.Outcome{Context: x.Outcome.Context}})
			all[i].Outcome.Context = nil
		}
	}
	return h.write(all)
}

// late records what asynchronous hooks have told the model meanwhile, and reports whether one has.
func (h *runHooks) late() (bool, error) {
	if h.Policy.Hooks == nil || h.origin.parent != nil {
		return false, nil
	}
	all := h.Policy.Hooks.Runner.Late()
	return len(all) > 0, h.write(all)
}

// write records what hooks answered.
func (h *runHooks) write(all []hook.Answered) error {
	for _, x := range all {
		for _, note := range notesOf(x.Input, x.Outcome) {
			if _, err := h.record(session.Entry{Type: session.TypeNote, Note: &note}); err != nil {
				return err
			}
		}
	}
	return nil
}

// onRefused runs the PermissionDenied hooks for a call that the gate refused, and ends the run if the user wants that.
func (h *runHooks) onRefused(ctx context.Context, set *hook.Set, p tool.Proposal, err error) {
	var denied *gate.Denied
	if !errors.As(err, &denied) {
		return
	}
	set.Fire(ctx, hook.Input{Event: hook.PermissionDenied, Tool: p.Name, ToolInput: p.Input, Call: p.ID,
		Reason: denied.Text})
	switch {
	case denied.Ends != "":
		h.answers.End(hook.End{Why: denied.Ends, Program: true})
	case denied.Stop:
		h.answers.End(hook.End{ByUser: true})
	}
}

// afterTool makes a tool run the PostToolUse or PostToolUseFailure hooks after each call, before any
// call that waits for it starts.
func (h *runHooks) afterTool(set *hook.Set, t tool.Tool) tool.Tool {
	if !set.Has(hook.PostToolUse, hook.PostToolUseFailure) {
		return t
	}
	run, name := t.Run, t.Name // not t: capturing it would allocate for every call, even without hooks
	t.Run = func(ctx context.Context, in tool.Input) (tool.Result, error) {
		start := time.Now()
		res, err := run(ctx, in)
		if ctx.Err() != nil {
			return res, err
		}
		took := time.Since(start).Milliseconds()
		what := hook.Input{Event: hook.PostToolUse, Tool: name, ToolInput: in.JSON, Call: in.ID,
			Response: response(name, res), Milli: &took}
		if err != nil || res.IsError {
			what.Event, what.Response, what.Error = hook.PostToolUseFailure, nil, llm.TextOf(res.Parts)
			what.Interrupt = new(bool)
			if err != nil {
				what.Error = err.Error()
			}
		}
		if out := set.Fire(ctx, what); out.Output != nil {
			return h.replace(in.ID, res, err, out.Output), nil
		}
		return res, err
	}
	return t
}

// replace returns the result of a call with the output that a hook returned instead, and keeps the original for the
// log. err is the error of the call.
func (h *runHooks) replace(call string, res tool.Result, err error, output json.RawMessage) tool.Result {
	original := res
	if err != nil {
		original = tool.Errorf("%v", err)
	}
	h.mu.Lock()
	if h.originals == nil {
		h.originals = map[string]tool.Result{}
	}
	h.originals[call] = original
	h.mu.Unlock()
	res.Parts, res.Details, res.Structured, res.People = nil, output, nil, ""
	res.Parts = outputParts(output)
	res.IsError = original.IsError
	return res
}

// original removes and returns the result of a call that a hook has replaced.
func (h *runHooks) original(call string) (tool.Result, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	res, ok := h.originals[call]
	delete(h.originals, call)
	return res, ok
}

// outputParts returns what the model gets of an output that a hook wrote: a string, a list of blocks with texts and
// images, an object with one of the members that results have for their content, or else the JSON itself.
func outputParts(output json.RawMessage) []llm.Part {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return said(text)
	}
	var object struct {
		Text    *string         `json:"text"`
		Content json.RawMessage `json:"content"`
		Stdout  *string         `json:"stdout"`
		Stderr  string          `json:"stderr"`
	}
	var blocks []outputBlock
	if json.Unmarshal(output, &blocks) != nil && json.Unmarshal(output, &object) == nil {
		switch {
		case object.Text != nil:
			return said(*object.Text)
		case object.Stdout != nil:
			return said(strings.Trim(*object.Stdout+"\n"+object.Stderr, "\n"))
		case object.Content != nil:
			return outputParts(object.Content)
		}
	}
	var parts []llm.Part
	var texts []string
	flush := func() {
		parts = append(parts, said(strings.Join(texts, "\n"))...)
		texts = nil
	}
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			texts = append(texts, *b.Text)
		case b.media() != nil:
			flush()
			parts = append(parts, llm.Part{Media: b.media()})
		default:
			return said(string(output))
		}
	}
	if len(blocks) == 0 {
		return said(string(output))
	}
	flush()
	return parts
}

// said is a text as parts of a message, which has none of an empty one.
func said(text string) []llm.Part {
	if text == "" {
		return nil
	}
	return []llm.Part{llm.Text(text)}
}

// An outputBlock is a part of an output that a hook wrote, as the Messages API or MCP has it.
type outputBlock struct {
	Type   string  `json:"type"`
	Text   *string `json:"text"`
	Data   *string `json:"data"` // base64, of MCP
	MIME   string  `json:"mimeType"`
	Source struct {
		MIME string  `json:"media_type"`
		Data *string `json:"data"`
	} `json:"source"`
}

// media returns the image or document of a block, or nil. What is no base64 is cut, and its line says that it is broken.
func (b outputBlock) media() *llm.Media {
	text := cmp.Or(b.Data, b.Source.Data)
	if text == nil || b.Type != "image" && b.Type != "document" {
		return nil
	}
	data, _ := base64.StdEncoding.DecodeString(*text)
	return &llm.Media{MIME: cmp.Or(b.MIME, b.Source.MIME), Data: data}
}

// response returns a result of a tool in the form that hooks receive: its structured form, or else its text. Those of
// commands and changes also have the members that hooks of other agents read.
func response(name string, res tool.Result) json.RawMessage {
	type textual struct {
		Text    string `json:"text"`
		Details any    `json:"details,omitempty"`
	}
	text := llm.TextOf(res.Parts)
	v := res.Structured
	if v == nil {
		v = textual{text, res.Details}
	}
	switch d := res.Details.(type) {
	case coding.BashDetails:
		v = struct {
			Output string `json:"output"`
			coding.BashDetails
			coding.BashResult
		}{strings.TrimSuffix(text, "\n\n"+d.Status), d, d.ForHosts(text)}
	case coding.ChangeDetails:
		v = struct {
			textual
			coding.ChangeResult
		}{textual{text, d}, d.ForHosts(name == "write")}
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// afterCalls runs the PostToolBatch hooks when all calls of an answer have ended, and records the texts of
// all hooks that ran for these calls.
func (h *runHooks) afterCalls(ctx context.Context, calls []llm.ToolCall, results []tool.Result) error {
	set := h.set
	h.set, h.inCalls = nil, false
	if set.Has(hook.PostToolBatch) && ctx.Err() == nil {
		batch := hook.Input{Event: hook.PostToolBatch}
		for i, c := range calls {
			input := c.Input
			if !json.Valid(input) {
				input, _ = json.Marshal(string(input))
			}
			batch.Calls = append(batch.Calls, hook.BatchCall{Tool: c.Name, Input: input, ID: c.ID,
				Response: response(c.Name, results[i]), Error: results[i].IsError})
		}
		set.Fire(ctx, batch)
	}
	return h.flush(calls)
}

// onSubmit runs the UserPromptSubmit hooks on an input, and returns the prompt that a hook wrote in its place; "": none
// did. act is the skill that the input calls, whose own hooks run too; nil: it calls none.
func (h *runHooks) onSubmit(ctx context.Context, prompt string, steering bool, act *knack.Activation) (changed string,
	err error) {
	return h.onInput(ctx, hook.Input{Event: hook.UserPromptSubmit, Prompt: prompt}, steering, act)
}

// onCommand is onSubmit for an input that calls a command or a skill. What it calls was decided before the hooks ran,
// so a prompt that they write is not used.
func (h *runHooks) onCommand(ctx context.Context, prompt string, steering bool, act *knack.Activation) error {
	changed, err := h.onSubmit(ctx, prompt, steering, act)
	if err == nil && changed != "" {
		err = h.note("", "the updatedPrompt of a UserPromptSubmit hook is not used: the prompt calls a command or a skill")
	}
	return err
}

// onExpansion runs the UserPromptExpansion hooks for a typed /name. from is the kind of the slash command, or
// for a skill the kind of its source.
func (h *runHooks) onExpansion(ctx context.Context, name, args, line, from string, steering bool) error {
	_, err := h.onInput(ctx, hook.Input{Event: hook.UserPromptExpansion, Expansion: hook.ExpansionSlash,
		Command: name, Arguments: args, From: from, Prompt: line}, steering, nil)
	return err
}

// onInput runs the hooks of an event about an input. A steering input belongs to a turn that is under way, so the
// hooks of the skills in use run too; any other input starts a turn, in which no skill is in use yet.
func (h *runHooks) onInput(ctx context.Context, in hook.Input, steering bool, act *knack.Activation) (changed string,
	err error) {
	if h.Policy.Hooks == nil {
		return "", nil
	}
	var scopes []session.Scope
	if steering {
		scopes = h.log.State().Scopes
	}
	var own []hook.Hook
	if act != nil {
		own = h.review(callOf(act)).Hooks
	}
	out := h.inEffect(scopes, own...).Fire(ctx, in)
	if out.Block {
		return "", &Blocked{in.Event, out.Reason}
	}
	if out.Said != "" {
		// Its messages to the user would be notes, but nothing of such a prompt is recorded.
		return "", &Said{strings.Join(append([]string{out.Said}, out.Messages...), "\n")}
	}
	return out.Prompt, nil
}

// activated runs the SkillActivated hooks. It first runs the skill's own SessionStart hooks, unless
// the skill was in use already, according to the state before the activation.
func (h *runHooks) activated(ctx context.Context, act *knack.Activation, by session.Caller,
	before session.State) error {
	if h.Policy.Hooks == nil {
		return nil
	}
	set := h.inEffect(h.log.State().Scopes)
	name := act.Skill.Name
	inUse := before.InTurn && slices.ContainsFunc(before.Scopes, func(s session.Scope) bool { return s.Skill == name })
	if act.Hooks != nil && !inUse {
		set.Of("skill:"+name).Fire(ctx, hook.Input{Event: hook.SessionStart, Source: hook.SourceSkill,
			Model: h.Model.Info().ID})
	}
	set.Fire(ctx, hook.Input{Event: hook.SkillActivated, Skill: name, SkillArgs: act.Args, By: string(by)})
	return h.flush(nil)
}

// restarted runs the SessionStart hooks after a compaction, so that they can say again what it left out. A sub-agent is
// not a session.
func (h *runHooks) restarted(ctx context.Context, model string) error {
	if h.origin.parent != nil {
		return nil
	}
	_, err := h.fire(ctx, hook.Input{Event: hook.SessionStart, Source: hook.SourceCompact, Model: model})
	return err
}

// released runs the SkillReleased hooks after a skill's text has left the conversation.
func (h *runHooks) released(ctx context.Context, skill, why string) error {
	_, err := h.fire(ctx, hook.Input{Event: hook.SkillReleased, Skill: skill, Reason: why})
	return err
}

// onStop runs the Stop hooks (in a sub-agent: the SubagentStop hooks) and reports
// whether one of them makes the run continue after this answer.
func (h *runHooks) onStop(ctx context.Context, answer *llm.Response) (bool, error) {
	active := h.blocks > 0
	event := hook.Stop
	if h.origin.parent != nil {
		event = hook.SubagentStop
	}
	out, err := h.fire(ctx, hook.Input{Event: event, Active: &active, Last: llm.TextOf(answer.Message.Parts)})
	if err != nil || out.Stop || !out.Block && len(out.Context) == 0 {
		return false, err
	}
	if h.blocks++; h.blocks > maxBlocks {
		return false, h.note("", fmt.Sprintf("a %s hook asked to continue for the %dth time: the run ends anyway", event,
			h.blocks))
	}
	return true, nil
}

// failed runs the StopFailure hooks when the run ends with an error. The caller returns that error, so one
// from writing the log is dropped.
func (h *runHooks) failed(ctx context.Context, why error) {
	in := hook.Input{Event: hook.StopFailure, Error: "unknown", ErrorText: why.Error()}
	if e := (*llm.Error)(nil); errors.As(why, &e) {
		in.Error = e.Kind.Word()
	}
	h.fire(ctx, in)
}
