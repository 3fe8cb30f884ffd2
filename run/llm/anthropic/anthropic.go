// Package anthropic implements the Anthropic Messages format, for Claude and for servers with a
// compatible API.
//
// Start with [New]. Thinking and its signatures are kept and sent back to the model that
// made them. Prompt-cache breakpoints are set after the tools, after the system text, at the end of the last
// message, and where the previous request ended: the API looks only about 20 blocks back from a breakpoint.
//
// Most programs start with package engine.
package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
	"github.com/knack-agent/knack/run/llm/schema"
)

const (
	version      = "2023-06-01"
	defaultLimit = 32000 // output tokens if the model's limit is unknown; the format requires a number
	minBudget    = 1024
)

// Redacted is the prefix of Thinking.Opaque for a block without text. The block's data follows it.
const Redacted = "redacted_thinking:"

// New returns the model at e. The default base URL is https://api.anthropic.com; a base URL may end
// in /v1.
func New(e llm.Endpoint) llm.Model {
	if e.Info.ID == "" {
		e.Info.ID = "anthropic/" + e.Name
	}
	e.Info.Search = true
	return &model{e: e}
}

type model struct {
	e     llm.Endpoint
	mends wire.Mends
	deaf  atomic.Bool // the server ignores threads, or refuses them without saying so
}

func (m *model) Info() llm.Info { return m.e.Info }

func (m *model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	header := http.Header{"Anthropic-Version": {version}}
	switch {
	case m.e.Key == "":
	case m.e.Bearer:
		header.Set("Authorization", "Bearer "+m.e.Key)
	default:
		header.Set("X-Api-Key", m.e.Key)
	}
	url := strings.TrimSuffix(strings.TrimSuffix(cmp.Or(m.e.BaseURL, "https://api.anthropic.com"), "/"), "/v1") +
		"/v1/messages"
	if c := m.e.Cloud; c != nil {
		url, header = c.URL, http.Header{}
	}
	possible := mends
	if m.e.Threads {
		possible = append(slices.Clip(ofThreads), mends...)
	}
	return m.mends.Stream(schema.Messages, req, possible, func(made map[string]bool) iter.Seq2[llm.Event, error] {
		return m.ask(ctx, url, header, req, made)
	})
}

// The names of the changes that gateways need.
const (
	noThinkingBack = "no thinking in answers"
	noTaskBudget   = "no task_budget"
	noThinking     = "no thinking"
	noCache        = "no cache_control"
	noThreads      = "no thread"
	noEfforts      = "no effort of messages"
)

var mends = []wire.Mend{
	{Name: noThinkingBack, Words: [][]string{{"thinking", "signature"}, {"thinking", "messages."}}},
	{Name: noTaskBudget, Fields: []string{"task_budget"}},
	{Name: noThinking, Fields: []string{"thinking", "output_config", "effort", "adaptive"}},
	{Name: noCache, Fields: []string{"cache_control"}},
	wire.NoImages, wire.PlainSchemas,
}

// ofThreads are the changes for servers that do not know all that threads need.
var ofThreads = []wire.Mend{
	{Name: noThreads, Fields: []string{"thread"}},
	{Name: noEfforts, Fields: []string{"output_config", "block_binding", "thinking-binding", "mid-conversation"},
		Words: [][]string{{"role", "system"}}},
}

// The parts of an answer.

type usage struct {
	Input      *wire.Count `json:"input_tokens"`
	Output     *wire.Count `json:"output_tokens"`
	CacheRead  *wire.Count `json:"cache_read_input_tokens"`
	CacheWrite *wire.Count `json:"cache_creation_input_tokens"`
}

// into sets the fields of v that u reports. Each report is cumulative, so the last one counts.
func (u usage) into(v *llm.Usage) {
	for _, f := range []struct {
		to   *int
		from *wire.Count
	}{{&v.Input, u.Input}, {&v.Output, u.Output}, {&v.CacheRead, u.CacheRead}, {&v.CacheWrite, u.CacheWrite}} {
		if f.from != nil {
			*f.to = int(*f.from)
		}
	}
}

// An event is one event of a stream or, of the type message, a whole answer.
type event struct {
	Type    string     `json:"type"`
	Index   wire.Count `json:"index"`
	Message struct {
		ID    string            `json:"id"`
		Model string            `json:"model"`
		Usage wire.Maybe[usage] `json:"usage"`
	} `json:"message"`
	ContentBlock contentBlock `json:"content_block"`
	Delta        struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
		Citation    found  `json:"citation"`
	} `json:"delta"`
	Usage wire.Maybe[usage] `json:"usage"`

	// Of a whole answer.
	Model      string                  `json:"model"`
	Content    wire.List[contentBlock] `json:"content"`
	StopReason string                  `json:"stop_reason"`
}

type contentBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Content   json.RawMessage `json:"content"` // what a search found
}

// found is a page that a search found, or that a text cites.
type found struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Title string `json:"title"`
	Cited string `json:"cited_text"`
}

// A block is one content block while it is received.
type block struct {
	index          wire.Count
	kind, id, name string
	input          json.RawMessage // from the start of the block; streamed input replaces it
	text           strings.Builder // text, thinking, data or input
	signature      strings.Builder
	closed         bool
}

type decoder struct {
	e      *llm.Endpoint
	blocks []*block
	id     string
	model  string
	usage  llm.Usage
	stop   string

	body   *wire.Body
	prompt int // the tokens of the whole request

	sources wire.Sources
	failure string // of a search
}

// search adds what a search found.
func (d *decoder) search(content json.RawMessage) {
	var pages []found
	if json.Unmarshal(content, &pages) != nil {
		var failed struct {
			Code string `json:"error_code"`
		}
		json.Unmarshal(content, &failed) // what cannot be read has found nothing
		d.failure = failed.Code
		return
	}
	for _, p := range pages {
		d.sources.Add(llm.Source{Title: p.Title, URL: p.URL})
	}
}

func (d *decoder) Event(data []byte, emit func(llm.Event)) error {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil // proxies end a stream as that of another format, with [DONE]
	}
	var ev event
	if json.Unmarshal(data, &ev) != nil {
		return wire.InvalidData(d.e, data)
	}
	switch ev.Type {
	case "message_start":
		d.id, d.model = ev.Message.ID, ev.Message.Model
		ev.Message.Usage.Value.into(&d.usage)
		return d.began()
	case "content_block_start":
		d.begin(ev.Index, &ev.ContentBlock, emit)
	case "content_block_delta":
		b := d.open(ev.Index)
		if b == nil && ev.Delta.PartialJSON != "" {
			return wire.InvalidData(d.e, data) // the arguments of which call?
		}
		if b == nil { // gateways forget to begin a block
			d.begin(ev.Index, &contentBlock{Type: strings.TrimSuffix(ev.Delta.Type, "_delta")}, emit)
			b = d.open(ev.Index)
		}
		b.text.WriteString(ev.Delta.Text + ev.Delta.Thinking + ev.Delta.PartialJSON)
		b.signature.WriteString(ev.Delta.Signature)
		if c := ev.Delta.Citation; c.URL != "" {
			d.sources.Add(llm.Source{Title: c.Title, URL: c.URL, Text: c.Cited})
		}
		emitPiece(ev.Delta.Text, ev.Delta.Thinking, emit)
	case "content_block_stop":
		if b := d.open(ev.Index); b != nil {
			d.close(b, emit)
		}
	case "message_delta":
		d.stop = cmp.Or(ev.Delta.StopReason, d.stop)
		ev.Usage.Value.into(&d.usage)
	case "message_stop":
		if d.stop == "" && len(d.blocks) > 0 { // gateways leave out the event before
			d.stop = "end_turn"
		}
		return d.end(emit)
	case "message": // a whole answer
		d.model, d.stop = ev.Model, cmp.Or(ev.StopReason, "end_turn")
		ev.Usage.Value.into(&d.usage)
		for i := range ev.Content {
			d.begin(wire.Count(i), &ev.Content[i], emit)
			d.close(d.blocks[i], emit)
		}
		return d.end(emit)
	case "error":
		return wire.StreamError(d.e, data)
	case "":
		if wire.IsReport(data) {
			return wire.StreamError(d.e, data)
		}
	}
	return nil // pings and unknown kinds contain nothing for the caller
}

// begin begins a block. Gateways count blocks from 1, or give several the same index.
func (d *decoder) begin(index wire.Count, c *contentBlock, emit func(llm.Event)) {
	if b := d.open(index); b != nil {
		d.close(b, emit)
	}
	b := &block{index: index, kind: c.Type, id: c.ID, name: c.Name, input: c.Input}
	b.text.WriteString(c.Text + c.Thinking + c.Data)
	b.signature.WriteString(c.Signature)
	d.blocks = append(d.blocks, b)
	if c.Type == "web_search_tool_result" {
		d.search(c.Content)
	}
	emitPiece(c.Text, c.Thinking, emit)
}

// open returns the block with an index that has not ended; nil: there is none.
func (d *decoder) open(index wire.Count) *block {
	for _, b := range d.blocks {
		if b.index == index && !b.closed {
			return b
		}
	}
	return nil
}

func emitPiece(text, thinking string, emit func(llm.Event)) {
	if text != "" || thinking != "" {
		emit(llm.Event{Text: text, Thinking: thinking})
	}
}

// close ends a block. A call that a gateway sends twice counts once.
func (d *decoder) close(b *block, emit func(llm.Event)) {
	b.closed = true
	call := b.call()
	if call == nil {
		return
	}
	for _, other := range d.blocks {
		if c := other.call(); other != b && c != nil && c.ID == call.ID && bytes.Equal(c.Input, call.Input) {
			b.kind = "repeated"
			return
		}
	}
	emit(llm.Event{Call: call})
}

// end ends the answer. Some gateways do not end its last block.
func (d *decoder) end(emit func(llm.Event)) error {
	if d.stop == "model_context_window_exceeded" {
		return &llm.Error{Kind: llm.Overflow, Message: d.e.Info.ID + ": the answer does not fit into the context window"}
	}
	if d.stop != "" {
		for _, b := range d.blocks {
			if !b.closed && (b.kind != "tool_use" || json.Valid(b.call().Input)) {
				d.close(b, emit)
			}
		}
	}
	done := d.answer()
	if done == nil {
		return wire.Truncated(d.e)
	}
	if d.failure != "" && len(done.Sources) == 0 {
		return &llm.Error{Kind: llm.Invalid, Message: d.e.Info.ID + ": the provider's search failed: " + d.failure}
	}
	emit(llm.Event{Done: done})
	return nil
}

func (b *block) call() *llm.ToolCall {
	if b.kind != "tool_use" {
		return nil
	}
	input := json.RawMessage(b.text.String())
	if len(input) == 0 {
		input = b.input
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return &llm.ToolCall{ID: b.id, Name: b.name, Input: input}
}

func (d *decoder) End(emit func(llm.Event)) {
	if done := d.answer(); done != nil {
		emit(llm.Event{Done: done})
	}
}

// answer returns the complete answer, or nil if a part is missing.
func (d *decoder) answer() *llm.Response {
	if d.stop == "" {
		return nil
	}
	r := &llm.Response{Message: llm.Message{Role: llm.Assistant}, Usage: d.usage, Model: d.model,
		Sources: d.sources.List()}
	switch d.stop {
	case "tool_use":
		r.Stop = llm.ToolUse
	case "max_tokens", "model_context_window_exceeded":
		r.Stop = llm.MaxTokens
	case "refusal", "sensitive":
		r.Stop = llm.Refusal
	case "pause_turn":
		r.Stop = llm.Paused
	default: // end_turn, stop_sequence
		r.Stop = llm.EndTurn
	}
	for _, b := range d.blocks {
		if !b.closed {
			return nil
		}
		var p llm.Part
		switch b.kind {
		case "text":
			if p.Text = b.text.String(); p.Text == "" {
				continue
			}
		case "thinking":
			p.Thinking = &llm.Thinking{Text: b.text.String(), Opaque: b.signature.String(), From: d.e.Info.ID}
		case "redacted_thinking":
			p.Thinking = &llm.Thinking{Opaque: Redacted + b.text.String(), From: d.e.Info.ID}
		case "tool_use":
			p.Call = b.call()
		default:
			continue
		}
		r.Message.Parts = append(r.Message.Parts, p)
	}
	return r
}
