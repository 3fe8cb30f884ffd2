package openai

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
)

// An itemEvent is one event of a stream or, with Object response, a whole answer.
type itemEvent struct {
	Type         string          `json:"type"`
	Delta        wire.Label      `json:"delta"`
	Text         wire.Label      `json:"text"` // of an event that ends a text
	SummaryIndex wire.Count      `json:"summary_index"`
	OutputIndex  wire.Count      `json:"output_index"`
	Args         wire.Arguments  `json:"arguments"`
	Item         json.RawMessage `json:"item"`
	Response     itemResponse    `json:"response"`
	Object       wire.Label      `json:"object"`
	Status       wire.Label      `json:"status"`
}

type itemResponse struct {
	Model      wire.Label        `json:"model"`
	Error      json.RawMessage   `json:"error"`
	Output     []json.RawMessage `json:"output"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage wire.Maybe[struct {
		Input   wire.Count `json:"input_tokens"`
		Output  wire.Count `json:"output_tokens"`
		Details wire.Maybe[struct {
			Cached wire.Count `json:"cached_tokens"`
			Write  wire.Count `json:"cache_write_tokens"`
		}] `json:"input_tokens_details"`
	}] `json:"usage"`
}

type doneItem struct {
	Type    string         `json:"type"`
	ID      string         `json:"id"`
	CallID  wire.Label     `json:"call_id"`
	Name    string         `json:"name"`
	Args    wire.Arguments `json:"arguments"`
	Phase   string         `json:"phase"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
	Content wire.List[struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
		Cited   []struct {
			Type  string `json:"type"`
			URL   string `json:"url"`
			Title string `json:"title"`
		} `json:"annotations"`
	}] `json:"content"`
	Action struct { // of a search
		Sources []struct {
			URL string `json:"url"`
		} `json:"sources"`
	} `json:"action"`
	Encrypted string `json:"encrypted_content"`
}

type itemDecoder struct {
	e        *llm.Endpoint
	parts    []llm.Part
	calls    bool
	refused  bool
	sources  wire.Sources
	text     strings.Builder       // all deltas, for servers that do not send whole items
	thinking strings.Builder       // the same, of the reasoning
	args     map[wire.Count]string // the arguments of calls, by their index
}

// End does nothing: the complete answer comes in an event.
func (d *itemDecoder) End(func(llm.Event)) {}

func (d *itemDecoder) Event(data []byte, emit func(llm.Event)) error {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return nil // pings, and [DONE] after the end
	}
	var ev itemEvent
	if json.Unmarshal(data, &ev) != nil {
		return wire.InvalidData(d.e, data)
	}
	if ev.Type == "" && ev.Object == "response" {
		if json.Unmarshal(data, &ev.Response) != nil {
			return wire.InvalidData(d.e, data)
		}
		ev.Type = "response." + cmp.Or(string(ev.Status), "completed")
	}
	switch ev.Type {
	case "response.output_text.delta", "response.refusal.delta":
		d.refused = d.refused || ev.Type == "response.refusal.delta"
		d.say(string(ev.Delta), emit)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		d.think(string(ev.Delta), emit)
	case "response.reasoning_summary_text.done", "response.reasoning_text.done":
		if d.thinking.Len() == 0 { // LM Studio sends no deltas
			d.think(string(ev.Text), emit)
		}
	case "response.reasoning_summary_part.added":
		if ev.SummaryIndex > 0 {
			d.think("\n\n", emit)
		}
	case "response.function_call_arguments.delta":
		if d.args == nil {
			d.args = map[wire.Count]string{}
		}
		d.args[ev.OutputIndex] += string(ev.Delta)
	case "response.function_call_arguments.done": // LM Studio sends no deltas, and an item without arguments
		if d.args == nil {
			d.args = map[wire.Count]string{}
		}
		d.args[ev.OutputIndex] = cmp.Or(ev.Args.Text, d.args[ev.OutputIndex])
	case "response.output_item.done":
		args := d.args[ev.OutputIndex]
		delete(d.args, ev.OutputIndex) // some servers number nothing
		return d.item(ev.Item, args, emit)
	case "response.completed", "response.incomplete":
		return d.done(&ev, emit)
	case "response.failed":
		if e := ev.Response.Error; len(e) == 0 || string(e) == "null" {
			return &llm.Error{Kind: llm.Server, Message: d.e.Info.ID + ": the server says that it failed, and not why"}
		}
		return wire.StreamError(d.e, ev.Response.Error)
	case "error", "":
		return wire.StreamError(d.e, data)
	}
	return nil
}

func (d *itemDecoder) say(text string, emit func(llm.Event)) {
	if d.text.WriteString(text); text != "" {
		emit(llm.Event{Text: text})
	}
}

func (d *itemDecoder) think(text string, emit func(llm.Event)) {
	if d.thinking.WriteString(text); text != "" {
		emit(llm.Event{Thinking: text})
	}
}

// done ends the answer. Some servers send its items only here, and some only deltas.
func (d *itemDecoder) done(ev *itemEvent, emit func(llm.Event)) error {
	if len(d.parts) == 0 {
		for _, raw := range ev.Response.Output {
			if err := d.item(raw, "", emit); err != nil {
				return err
			}
		}
		if text := llm.TextOf(d.parts); d.text.Len() == 0 && text != "" {
			emit(llm.Event{Text: text})
		}
	}
	if llm.TextOf(d.parts) == "" && d.text.Len() > 0 {
		d.parts = append([]llm.Part{llm.Text(d.text.String())}, d.parts...)
	}
	if d.thinking.Len() > 0 && !hasThinking(d.parts) {
		d.parts = append([]llm.Part{{Thinking: &llm.Thinking{Text: d.thinking.String(), From: d.e.Info.ID}}}, d.parts...)
	}
	u := ev.Response.Usage.Value
	cached, write := int(u.Details.Value.Cached), int(u.Details.Value.Write)
	r := &llm.Response{
		Message: llm.Message{Role: llm.Assistant, Parts: d.parts}, Model: string(ev.Response.Model), Stop: llm.EndTurn,
		Sources: d.sources.List(),
		Usage: llm.Usage{Input: max(0, int(u.Input)-cached-write), Output: int(u.Output), CacheRead: cached,
			CacheWrite: write},
	}
	switch {
	case ev.Response.Incomplete.Reason == "content_filter" || d.refused:
		r.Stop = llm.Refusal
	case ev.Type == "response.incomplete":
		r.Stop = llm.MaxTokens
	case d.calls:
		r.Stop = llm.ToolUse
	}
	emit(llm.Event{Done: r})
	return nil
}

func hasThinking(parts []llm.Part) bool {
	for _, p := range parts {
		if p.Thinking != nil {
			return true
		}
	}
	return false
}

// item adds a complete item of the answer. args are what was received of the arguments of a call before.
func (d *itemDecoder) item(raw json.RawMessage, args string, emit func(llm.Event)) error {
	var it doneItem
	if json.Unmarshal(raw, &it) != nil {
		return wire.InvalidData(d.e, raw)
	}
	switch it.Type {
	case "reasoning":
		d.parts = append(d.parts, llm.Part{Thinking: d.reasoning(&it)})
	case "message":
		var text strings.Builder
		for _, c := range it.Content {
			text.WriteString(c.Text + c.Refusal)
			for _, a := range c.Cited {
				if a.Type == "url_citation" {
					d.sources.Add(llm.Source{Title: a.Title, URL: a.URL})
				}
			}
		}
		if text.Len() > 0 {
			part := llm.Text(text.String())
			if it.Phase != "" {
				part.Opaque = phaseOf(d.e) + it.Phase
			}
			d.parts = append(d.parts, part)
		}
	case "web_search_call":
		for _, x := range it.Action.Sources {
			d.sources.Add(llm.Source{URL: x.URL})
		}
	case "function_call":
		input := strings.TrimSpace(it.Args.Text)
		if input == "" || input == "{}" {
			input = strings.TrimSpace(args)
		}
		call := &llm.ToolCall{ID: cmp.Or(string(it.CallID), it.ID, "call_"+rand.Text()), Name: it.Name,
			Input: json.RawMessage(cmp.Or(input, "{}"))}
		d.calls = true
		d.parts = append(d.parts, llm.Part{Call: call})
		emit(llm.Event{Call: call})
	}
	return nil
}

// reasoning converts an item. It is sent back without its status. The provider stores nothing, so an item without its
// encrypted content is useless.
func (d *itemDecoder) reasoning(it *doneItem) *llm.Thinking {
	var text []string
	for _, s := range it.Summary {
		text = append(text, s.Text)
	}
	if len(text) == 0 {
		for _, c := range it.Content {
			text = append(text, c.Text)
		}
	}
	t := &llm.Thinking{Text: strings.Join(text, "\n\n"), From: d.e.Info.ID}
	if it.Encrypted != "" {
		summary := make([]map[string]string, 0, len(it.Summary))
		for _, s := range it.Summary {
			summary = append(summary, map[string]string{"type": "summary_text", "text": s.Text})
		}
		data, _ := json.Marshal(map[string]any{"type": "reasoning", "id": it.ID, "summary": summary,
			"encrypted_content": it.Encrypted})
		t.Opaque = asItem + string(data)
	}
	return t
}
