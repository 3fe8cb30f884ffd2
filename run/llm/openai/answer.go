package openai

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
)

// A chatDecoder reads an answer of Chat Completions from any of the servers that claim to have this format.
type chatDecoder struct {
	e        *llm.Endpoint
	text     strings.Builder
	thinking strings.Builder
	tags     tagged
	details  []json.RawMessage
	field    string // from which the reasoning came; see asContent
	calls    calls
	index    *wire.Count // of the choice that is read
	model    string
	finish   string
	usage    llm.Usage
	counted  bool   // the last event had the usage of the whole answer
	stray    string // the last event that is no JSON
}

// Event reads one event. Most streams end with an event [DONE].
func (d *chatDecoder) Event(data []byte, emit func(llm.Event)) error {
	data = bytes.TrimSpace(data)
	switch word := strings.ToUpper(strings.Trim(string(data[:min(len(data), 10)]), `"[]`)); {
	case word == "DONE":
		return d.done(emit)
	case len(data) == 0, word == "NULL":
		return nil
	case data[0] != '{':
		d.stray = string(data)
		return nil
	}
	var c chatChunk
	if json.Unmarshal(data, &c) != nil {
		return wire.InvalidData(d.e, data)
	}
	if err := d.failure(data, &c); err != nil {
		return err
	}
	d.model = cmp.Or(string(c.Model), d.model)
	d.count(c.Usage, c.Groq.Value.Usage)
	d.counted = c.Usage.OK && len(c.Choices) == 0
	for i := range c.Choices {
		choice := &c.Choices[i]
		if d.index == nil {
			d.index = &choice.Index
		}
		if choice.Index != *d.index {
			continue // only one answer was asked for
		}
		if err := d.choice(choice, emit); err != nil {
			return err
		}
	}
	return nil
}

// done handles the event [DONE]. Some servers send no finish reason before it.
func (d *chatDecoder) done(emit func(llm.Event)) error {
	if d.finish == "" && (d.text.Len() > 0 || d.thinking.Len() > 0 || d.tags.any() || len(d.calls) > 0) {
		d.finish = "stop"
		if !d.calls.whole() {
			d.finish = ""
		}
	}
	if d.finish == "" {
		return d.cut()
	}
	d.End(emit)
	return nil
}

// cut returns the error for a stream that ended too early.
func (d *chatDecoder) cut() error {
	if d.stray != "" {
		return wire.StreamError(d.e, []byte(d.stray))
	}
	return wire.Truncated(d.e)
}

// failure returns the error that an event reports.
func (d *chatDecoder) failure(data []byte, c *chatChunk) error {
	switch {
	case wire.IsSet(c.Error):
		return wire.StreamError(d.e, data)
	case wire.IsSet(c.Groq.Value.Error):
		return wire.StreamError(d.e, c.Groq.Value.Error)
	case len(c.Choices) == 0 && !c.Usage.OK && wire.IsReport(data):
		return wire.StreamError(d.e, data) // an error object without a field error
	}
	for i := range c.Choices {
		if wire.IsSet(c.Choices[i].Error) {
			return wire.StreamError(d.e, c.Choices[i].Error)
		}
	}
	return nil
}

// count takes the usage of the last report that has one. Each is for the whole answer.
func (d *chatDecoder) count(all ...wire.Maybe[chatUsage]) {
	for _, u := range all {
		v := u.Value
		in, out := max(0, int(cmp.Or(v.Prompt, v.Input))), max(0, int(cmp.Or(v.Completion, v.Output)))
		if r := int(v.Reasons.Value.Reasoning); r > 0 && int(v.Total) == in+out+r { // xAI
			out += r
		}
		if !u.OK || in+out == 0 {
			continue
		}
		cached := max(0, int(cmp.Or(v.Details.Value.Cached, v.Hit, v.Cached)))
		write := max(0, int(v.Details.Value.Write))
		d.usage = llm.Usage{Input: max(0, in-cached-write), Output: out, CacheRead: cached, CacheWrite: write}
	}
}

func (d *chatDecoder) choice(c *chatChoice, emit func(llm.Event)) error {
	d.count(c.Usage)
	delta := &c.Delta.Value
	if !c.Delta.OK && c.Message.OK {
		delta = &c.Message.Value
		if c.Finish == "" || c.Finish == "null" {
			c.Finish = "stop" // a whole answer has ended
		}
	}
	d.reason(delta, emit)
	if s := delta.Content.Text + c.Text.Text; s != "" {
		thinking, text := d.tags.add(s)
		d.say(emit, thinking, text)
	}
	if s := delta.Refusal.Text; s != "" {
		d.say(emit, "", s)
		d.finish = "content_filter"
	}
	for i := range delta.ToolCalls {
		d.calls.add(delta.ToolCalls[i])
	}
	if f := delta.FunctionCall; f.OK {
		d.calls.add(callPiece{Function: f})
	}
	if n := len(d.calls); n > 0 && wire.IsSet(delta.Extra) && len(d.calls[n-1].extra) == 0 {
		d.calls[n-1].extra = delta.Extra
	}
	return d.ended(string(cmp.Or(c.Finish, c.Camel)), string(c.Native))
}

// ended takes the finish reason of an event. Reasons that tell of a failure are errors.
func (d *chatDecoder) ended(reason, native string) error {
	if reason == "null" || reason == "" {
		return nil
	}
	for _, word := range []string{reason, native} {
		if kind, ok := failure(strings.ToLower(word)); ok {
			return &llm.Error{Kind: kind, Message: d.e.Info.ID + ": the server ended the answer with the reason " + word}
		}
	}
	if strings.Contains(reason, "MALFORMED_FUNCTION_CALL") { // Google
		return &llm.Error{Kind: llm.Broken, Message: d.e.Info.ID + ": the model's tool call cannot be read"}
	}
	if d.finish != "content_filter" {
		d.finish = strings.ToLower(reason)
	}
	return nil
}

// failure returns what kind of error a finish reason means, which says whether another attempt can help.
func failure(reason string) (kind llm.ErrorKind, is bool) {
	switch reason {
	case "error", "network_error", "server_error", "upstream_error", "timeout", "abort": // abort: vLLM, SGLang
		return llm.Server, true
	case "insufficient_system_resource": // DeepSeek
		return llm.Overloaded, true
	case "model_context_window_exceeded", "context_length_exceeded": // the first: Z.ai
		return llm.Overflow, true
	}
	return "", false
}

// stop returns what a finish reason means that is not the end of the turn; the zero value: it is the end.
func stop(reason string) (why llm.StopReason) {
	switch reason {
	case "length", "max_tokens", "max_output_tokens", "model_length":
		return llm.MaxTokens
	case "content_filter", "content-filter", "safety", "refusal", "recitation", "prohibited_content", "blocklist",
		"sensitive": // Z.ai
		return llm.Refusal
	}
	return why
}

// reason takes the reasoning of an event. Some servers send the same text in several fields.
func (d *chatDecoder) reason(delta *chatDelta, emit func(llm.Event)) {
	var details []json.RawMessage
	var inDetails wire.Content
	if json.Unmarshal(delta.ReasoningDetails, &details) == nil && len(details) > 0 {
		d.details = append(d.details, details...)
		inDetails.UnmarshalJSON(delta.ReasoningDetails)
	}
	for _, f := range [...]struct{ name, text string }{
		{asContent, delta.ReasoningContent.Text + delta.ReasoningContent.Thinking},
		{asReasoning, delta.Reasoning.Text + delta.Reasoning.Thinking},
		{asText, delta.ReasoningText.Text + delta.ReasoningText.Thinking},
		{"", delta.Content.Thinking},
		{"", inDetails.Thinking},
	} {
		if f.text == "" {
			continue
		}
		if d.field == "" || f.name == asContent {
			d.field = f.name
		}
		d.say(emit, f.text, "")
		return
	}
}

// say adds reasoning and text, and emits them.
func (d *chatDecoder) say(emit func(llm.Event), thinking, text string) {
	d.thinking.WriteString(thinking)
	d.text.WriteString(text)
	if thinking != "" {
		emit(llm.Event{Thinking: thinking})
	}
	if text != "" {
		emit(llm.Event{Text: text})
	}
}

// End ends the answer, unless no event has said that it is whole.
func (d *chatDecoder) End(emit func(llm.Event)) {
	if d.finish == "" && d.counted && d.calls.whole() && (d.text.Len() > 0 || len(d.calls) > 0) {
		d.finish = "stop" // usage for the whole answer comes after its end
	}
	if d.finish == "" {
		return
	}
	thinking, text := d.tags.flush()
	d.say(emit, thinking, text)
	thinking, text = d.thinking.String(), d.text.String()
	if d.tags.open != "" {
		thinking = strings.TrimRight(thinking, " \t\r\n")
	}
	if thinking == "" {
		thinking, text = beforeTag(text)
	}
	r := &llm.Response{Message: llm.Message{Role: llm.Assistant}, Usage: d.usage, Model: d.model, Stop: llm.EndTurn}
	if thinking != "" || len(d.details) > 0 {
		t := &llm.Thinking{Text: thinking, From: d.e.Info.ID, Opaque: d.field}
		switch {
		case len(d.details) > 0:
			data, _ := json.Marshal(mergeDetails(d.details))
			t.Opaque = asDetails + string(data)
		case d.field == "" && d.tags.open != "":
			t.Opaque = asTags + d.tags.open
		}
		r.Message.Parts = append(r.Message.Parts, llm.Part{Thinking: t})
	}
	if text != "" {
		r.Message.Parts = append(r.Message.Parts, llm.Text(text))
	}
	calls := d.calls.list(d.finish != "length")
	for _, call := range calls {
		r.Message.Parts = append(r.Message.Parts, llm.Part{Call: call})
		emit(llm.Event{Call: call}) // only now is it complete
	}
	switch stop := stop(d.finish); {
	case stop != "":
		r.Stop = stop
	case len(calls) > 0 && isCut(calls[len(calls)-1].Input): // vLLM says tool_calls also where the limit was reached
		r.Stop = llm.MaxTokens
	case len(calls) > 0: // for any finish reason that the server gives
		r.Stop = llm.ToolUse
	}
	emit(llm.Event{Done: r})
}

// mergeDetails merges the pieces of reasoning details: consecutive ones with the same index and type
// become one, and their texts are concatenated.
func mergeDetails(pieces []json.RawMessage) []map[string]any {
	var out []map[string]any
	for _, raw := range pieces {
		var p map[string]any
		if json.Unmarshal(raw, &p) != nil {
			continue
		}
		if n := len(out); n > 0 && p["index"] != nil && out[n-1]["index"] == p["index"] && out[n-1]["type"] == p["type"] {
			for k, v := range p {
				have, isText := out[n-1][k].(string)
				more, too := v.(string)
				if isText && too && (k == "text" || k == "summary" || k == "data") {
					v = have + more
				}
				if v != nil {
					out[n-1][k] = v
				}
			}
			continue
		}
		out = append(out, p)
	}
	return out
}

// A call is one call while its pieces arrive.
type call struct {
	index    *wire.Count
	id, name string
	args     string
	last     string // the last piece of args, which may repeat them all
	extra    json.RawMessage
}

type calls []*call

// add adds a piece of a call.
func (all *calls) add(p callPiece) {
	f := p.Function.Value
	if !p.Function.OK {
		f = p.function
	}
	name, id, args := strings.TrimSpace(string(f.Name)), string(p.ID), f.Arguments
	if id == "null" {
		id = ""
	}
	at := all.find(p.Index, id, name, args.Text)
	if at == nil {
		at = &call{index: p.Index, id: id}
		*all = append(*all, at)
	}
	at.id = cmp.Or(at.id, id)
	switch {
	case strings.HasPrefix(name, at.name): // repeated, or longer with each piece
		at.name = cmp.Or(name, at.name)
	default:
		at.name += name
	}
	if args.Text != "" {
		at.last = args.Text
	}
	if args.Whole {
		at.args = args.Text
	} else {
		at.args += args.Text
	}
	if wire.IsSet(p.Extra) {
		at.extra = p.Extra
	}
}

// find returns the call to which a piece belongs; nil: it begins a new one. Pieces with the same index belong together,
// but some servers send no index, the same one for all calls, or another one in each piece; and an ID for the first
// piece only, the same for all calls, or another one in each piece.
func (all calls) find(index *wire.Count, id, name, args string) *call {
	if len(all) == 0 {
		return nil
	}
	last := all[len(all)-1]
	var at *call
	for _, c := range all {
		if index != nil && c.index != nil && *c.index == *index || index == nil && id != "" && c.id == id {
			at = c
		}
	}
	switch {
	case at != nil && at.endedBefore(id, name, args):
		return nil
	case at != nil:
		return at
	case name == "" && (id == "" || index == nil): // it continues the last one, whatever its index
		return last
	case index == nil && id == "" && last.name == name && !last.whole():
		return last // the name is repeated
	}
	for _, c := range all {
		if id != "" && c.id == id && !c.whole() {
			return c // another index in each piece
		}
	}
	return nil
}

// endedBefore reports whether a piece that has the index or ID of c begins another call.
func (c *call) endedBefore(id, name, args string) bool {
	other := id != "" && c.id != "" && id != c.id
	switch {
	case name == "":
		return false
	case c.whole():
		return other || strings.TrimSpace(args) != "" && args != c.args
	case other && strings.TrimSpace(c.args) == "":
		return name != c.name || strings.TrimSpace(args) == "" || json.Valid([]byte(args))
	}
	return other && name != c.name
}

// whole reports whether the arguments are complete.
func (c *call) whole() bool { return strings.TrimSpace(c.args) != "" && json.Valid([]byte(c.args)) }

// whole reports whether the arguments of all calls are complete, or missing altogether.
func (all calls) whole() bool {
	for _, c := range all {
		if strings.TrimSpace(c.args) != "" && !c.whole() && !json.Valid([]byte(c.last)) {
			return false
		}
	}
	return true
}

// list returns the calls. ended: the answer was not cut off.
func (all calls) list(ended bool) []*llm.ToolCall {
	var out []*llm.ToolCall
	for _, c := range all {
		c.name, _, _ = strings.Cut(c.name, "<|") // a marker of gpt-oss that the server has not removed
		if c.name == "" {
			c.name = nameInID(c.id)
		}
		if c.name == "" && strings.TrimSpace(c.args) == "" {
			continue // there is nothing to call
		}
		for _, input := range c.inputs(ended) {
			x := &llm.ToolCall{ID: cmp.Or(c.id, "call_"+rand.Text()), Name: c.name, Input: input}
			if len(c.extra) > 0 {
				x.Opaque = asExtra + string(c.extra)
			}
			out = append(out, x)
			c.id, c.extra = "", nil
		}
	}
	return out
}

// nameInID returns the name in an ID such as "functions.bash:0", which Kimi K2 writes; "": there is none.
func nameInID(id string) string {
	name, ok := strings.CutPrefix(id, "functions.")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

// inputs returns the arguments of a call, or of several that the server has joined. Some servers send all arguments
// again at the end or in each piece, an empty object before them, or a text that contains them.
func (c *call) inputs(ended bool) []json.RawMessage {
	args := strings.TrimSpace(c.args)
	if args == "" || args == "null" {
		return []json.RawMessage{json.RawMessage("{}")}
	}
	var quoted string
	if json.Unmarshal([]byte(args), &quoted) == nil && isObject(quoted) {
		return []json.RawMessage{json.RawMessage(quoted)}
	}
	if ended && !json.Valid([]byte(args)) {
		all := objects(args)
		switch {
		case isObject(c.last) && c.last != args:
			return []json.RawMessage{json.RawMessage(c.last)}
		case len(all) > 1 && string(all[0]) == "{}":
			return all[1:]
		case len(all) > 0:
			return all
		}
	}
	return []json.RawMessage{json.RawMessage(c.args)}
}

// isCut reports whether input is the beginning of an object, and ends within a text or before a value. Where only
// brackets are missing, it is the model that forgot them.
func isCut(input json.RawMessage) bool {
	var v json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(input)).Decode(&v); !errors.Is(err, io.ErrUnexpectedEOF) || input[0] != '{' {
		return false
	}
	quoted := false
	for i := 0; i < len(input); i++ {
		switch {
		case quoted && input[i] == '\\':
			i++
		case input[i] == '"':
			quoted = !quoted
		}
	}
	end := bytes.TrimSpace(input)
	return quoted || end[len(end)-1] == ':' || end[len(end)-1] == ','
}

// objects returns the different objects of which s consists; nil: it contains anything else.
func objects(s string) []json.RawMessage {
	var all []json.RawMessage
	for d := json.NewDecoder(strings.NewReader(s)); ; {
		var v json.RawMessage
		err := d.Decode(&v)
		if err == io.EOF {
			return all
		}
		if err != nil || v[0] != '{' {
			return nil
		}
		if !slices.ContainsFunc(all, func(x json.RawMessage) bool { return bytes.Equal(x, v) }) {
			all = append(all, v)
		}
	}
}

func isObject(s string) bool {
	s = strings.TrimSpace(s)
	return strings.HasPrefix(s, "{") && json.Valid([]byte(s))
}
