// Package google implements the Gemini format.
//
// Start with [New]. Thought signatures are kept with the call or text that they came with,
// and sent back. Calls that another model made get the placeholder signature that the API defines
// for them. Gemini caches prompts by itself.
//
// Most programs start with package engine.
package google

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
	"github.com/knack-agent/knack/run/llm/schema"
)

// New returns the model at e. The default base URL is https://generativelanguage.googleapis.com; a
// base URL may end in /v1beta.
func New(e llm.Endpoint) llm.Model {
	if e.Info.ID == "" {
		e.Info.ID = "google/" + e.Name
	}
	e.Info.Search = true
	return &model{e: e}
}

type model struct {
	e     llm.Endpoint
	mends wire.Mends
}

func (m *model) Info() llm.Info { return m.e.Info }

func (m *model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	header := http.Header{}
	if m.e.Key != "" {
		header.Set("X-Goog-Api-Key", m.e.Key)
	}
	base := strings.TrimSuffix(cmp.Or(m.e.BaseURL, "https://generativelanguage.googleapis.com"), "/")
	url := strings.TrimSuffix(base, "/v1beta") + "/v1beta/models/" + m.e.Name + ":streamGenerateContent?alt=sse"
	if c := m.e.Cloud; c != nil {
		url, header = c.URL, http.Header{}
	}
	return m.mends.Stream(schema.Gemini, req, nil, func(made map[string]bool) iter.Seq2[llm.Event, error] {
		return wire.Stream(ctx, &m.e, url, header, body(m, req, made), &decoder{e: &m.e})
	})
}

type chunk struct {
	Candidates []struct {
		Content struct {
			Parts []part `json:"parts"`
		} `json:"content"`
		FinishReason  string `json:"finishReason"`
		FinishMessage string `json:"finishMessage"`
		Grounding     struct {
			Chunks []struct {
				Web struct {
					URI    string `json:"uri"`
					Title  string `json:"title"` // often only the domain
					Domain string `json:"domain"`
				} `json:"web"`
			} `json:"groundingChunks"`
			Supports []struct {
				Segment struct {
					Text string `json:"text"`
				} `json:"segment"`
				Chunks []int `json:"groundingChunkIndices"`
			} `json:"groundingSupports"`
		} `json:"groundingMetadata"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt     int `json:"promptTokenCount"`
		Cached     int `json:"cachedContentTokenCount"`
		ToolPrompt int `json:"toolUsePromptTokenCount"`
		Candidates int `json:"candidatesTokenCount"`
		Thoughts   int `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
	Model string          `json:"modelVersion"`
	Error json.RawMessage `json:"error"`
}

type decoder struct {
	e      *llm.Endpoint
	parts  []llm.Part
	calls  int
	finish string
	model  string
	usage  llm.Usage

	sources wire.Sources
}

func (d *decoder) Event(data []byte, emit func(llm.Event)) error {
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		return wire.InvalidData(d.e, data)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return wire.StreamError(d.e, data)
	}
	if c.Model != "" {
		d.model = c.Model
	}
	if u := c.Usage; u != nil {
		d.usage = llm.Usage{Input: max(0, u.Prompt-u.Cached) + u.ToolPrompt, CacheRead: u.Cached,
			Output: u.Candidates + u.Thoughts}
	}
	if c.PromptFeedback.BlockReason != "" {
		d.finish = "SAFETY"
	}
	for _, candidate := range c.Candidates {
		g := candidate.Grounding
		for _, chunk := range g.Chunks { // the URI is one of the vendor's and leads to the page
			d.sources.Add(llm.Source{Title: chunk.Web.Title, URL: chunk.Web.URI,
				Site: cmp.Or(chunk.Web.Domain, chunk.Web.Title)})
		}
		for _, s := range g.Supports {
			for _, i := range s.Chunks {
				if i >= 0 && i < len(g.Chunks) {
					d.sources.Add(llm.Source{URL: g.Chunks[i].Web.URI, Text: s.Segment.Text})
				}
			}
		}
		for _, p := range candidate.Content.Parts {
			if ev, ok := d.part(p); ok {
				emit(ev)
			}
		}
		if f := candidate.FinishReason; f != "" {
			d.finish = f
			if f == "MALFORMED_FUNCTION_CALL" || f == "UNEXPECTED_TOOL_CALL" {
				return &llm.Error{Kind: llm.Broken, Message: d.e.Info.ID + ": the model's tool call cannot be read: " +
					candidate.FinishMessage}
			}
		}
	}
	return nil
}

func (d *decoder) part(p part) (llm.Event, bool) {
	last := func() *llm.Part {
		if len(d.parts) == 0 {
			return &llm.Part{}
		}
		return &d.parts[len(d.parts)-1]
	}
	switch {
	case p.Call != nil:
		call := &llm.ToolCall{ID: p.Call.ID, Name: p.Call.Name, Input: p.Call.Args}
		if call.ID == "" {
			call.ID = "call_" + rand.Text()
		}
		if len(call.Input) == 0 {
			call.Input = json.RawMessage("{}")
		}
		if p.Signature != "" {
			call.Opaque = signaturePrefix + p.Signature
		}
		d.parts = append(d.parts, llm.Part{Call: call})
		d.calls++
		return llm.Event{Call: call}, true
	case p.Thought:
		if t := last().Thinking; t != nil && t.Opaque == "" {
			t.Text += p.Text
		} else {
			d.parts = append(d.parts, llm.Part{Thinking: &llm.Thinking{Text: p.Text, From: d.e.Info.ID}})
		}
		return llm.Event{Thinking: p.Text}, p.Text != ""
	}
	if l := last(); *l == (llm.Part{Text: l.Text}) && l.Text != "" {
		l.Text += p.Text
	} else if p.Text != "" {
		d.parts = append(d.parts, llm.Text(p.Text))
	}
	if p.Signature != "" { // it belongs to the text before it
		d.parts = append(d.parts, llm.Part{Thinking: &llm.Thinking{Opaque: signaturePrefix + p.Signature, From: d.e.Info.ID}})
	}
	return llm.Event{Text: p.Text}, p.Text != ""
}

func (d *decoder) End(emit func(llm.Event)) {
	if d.finish == "" {
		return
	}
	r := &llm.Response{Message: llm.Message{Role: llm.Assistant, Parts: d.parts}, Usage: d.usage, Model: d.model,
		Stop: llm.EndTurn, Sources: d.sources.List()}
	switch {
	case d.finish == "MAX_TOKENS":
		r.Stop = llm.MaxTokens
	case d.calls > 0:
		r.Stop = llm.ToolUse
	case d.finish != "STOP" && d.finish != "OTHER": // SAFETY, RECITATION, BLOCKLIST and similar
		r.Stop = llm.Refusal
	}
	emit(llm.Event{Done: r})
}
