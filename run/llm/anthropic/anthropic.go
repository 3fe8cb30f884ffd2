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
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
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
	return &model{e}
}

type model struct{ e llm.Endpoint }

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
	base := strings.TrimSuffix(strings.TrimSuffix(cmp.Or(m.e.BaseURL, "https://api.anthropic.com"), "/"), "/v1")
	return wire.Stream(ctx, &m.e, base+"/v1/messages", header, body(m, req), &decoder{e: &m.e})
}

// The parts of an answer.

type usage struct {
	Input      *int `json:"input_tokens"`
	Output     *int `json:"output_tokens"`
	CacheRead  *int `json:"cache_read_input_tokens"`
	CacheWrite *int `json:"cache_creation_input_tokens"`
}

// into sets the fields of v that u reports. Each report is cumulative, so the last one counts.
func (u usage) into(v *llm.Usage) {
	for _, f := range []struct {
		to   *int
		from *int
	}{{&v.Input, u.Input}, {&v.Output, u.Output}, {&v.CacheRead, u.CacheRead}, {&v.CacheWrite, u.CacheWrite}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
}

type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	ContentBlock struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		Content   json.RawMessage `json:"content"` // what a search found
	} `json:"content_block"`
	Delta struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
		Citation    found  `json:"citation"`
	} `json:"delta"`
	Usage usage `json:"usage"`
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
	kind, id, name string
	input          json.RawMessage // from the start of the block; streamed input replaces it
	text           strings.Builder // text, thinking, data or input
	signature      strings.Builder
	closed         bool
}

type decoder struct {
	e      *llm.Endpoint
	blocks []*block
	model  string
	usage  llm.Usage
	stop   string

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
	var ev event
	var out llm.Event
	if json.Unmarshal(data, &ev) != nil {
		return wire.InvalidData(d.e, data)
	}
	switch ev.Type {
	case "message_start":
		d.model = ev.Message.Model
		ev.Message.Usage.into(&d.usage)
	case "content_block_start":
		if ev.Index != len(d.blocks) {
			return wire.InvalidData(d.e, data)
		}
		c := ev.ContentBlock
		b := &block{kind: c.Type, id: c.ID, name: c.Name, input: c.Input}
		b.text.WriteString(c.Text + c.Thinking + c.Data)
		b.signature.WriteString(c.Signature)
		d.blocks = append(d.blocks, b)
		if c.Type == "web_search_tool_result" {
			d.search(c.Content)
		}
		out.Text, out.Thinking = c.Text, c.Thinking
	case "content_block_delta":
		if ev.Index < 0 || ev.Index >= len(d.blocks) || d.blocks[ev.Index].closed {
			return wire.InvalidData(d.e, data)
		}
		b := d.blocks[ev.Index]
		b.text.WriteString(ev.Delta.Text + ev.Delta.Thinking + ev.Delta.PartialJSON)
		b.signature.WriteString(ev.Delta.Signature)
		if c := ev.Delta.Citation; c.URL != "" {
			d.sources.Add(llm.Source{Title: c.Title, URL: c.URL, Text: c.Cited})
		}
		out.Text, out.Thinking = ev.Delta.Text, ev.Delta.Thinking
	case "content_block_stop":
		if ev.Index < 0 || ev.Index >= len(d.blocks) || d.blocks[ev.Index].closed {
			return wire.InvalidData(d.e, data)
		}
		b := d.blocks[ev.Index]
		b.closed = true
		out.Call = b.call()
	case "message_delta":
		if ev.Delta.StopReason != "" {
			d.stop = ev.Delta.StopReason
		}
		ev.Usage.into(&d.usage)
	case "message_stop":
		if d.stop == "model_context_window_exceeded" {
			return &llm.Error{Kind: llm.Overflow, Message: d.e.Info.ID + ": the answer does not fit into the context window"}
		}
		if out.Done = d.answer(); out.Done == nil {
			return wire.Truncated(d.e)
		}
		if d.failure != "" && len(out.Done.Sources) == 0 {
			return &llm.Error{Kind: llm.Invalid, Message: d.e.Info.ID + ": the provider's search failed: " + d.failure}
		}
	case "error":
		return wire.StreamError(d.e, data)
	}
	if out != (llm.Event{}) { // pings and unknown kinds contain nothing for the caller
		emit(out)
	}
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
	case "refusal":
		r.Stop = llm.Refusal
	default: // end_turn, stop_sequence, pause_turn
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
