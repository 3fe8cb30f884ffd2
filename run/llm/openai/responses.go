package openai

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
	"github.com/knack-agent/knack/run/llm/schema"
)

type responses struct {
	e     llm.Endpoint
	mends wire.Mends
}

func (m *responses) Info() llm.Info { return m.e.Info }

func (m *responses) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return m.mends.Stream(schema.Responses, req, responsesMends, func(made map[string]bool) iter.Seq2[llm.Event, error] {
		return wire.Stream(ctx, &m.e, address(&m.e, "/responses"), authorization(&m.e), responsesBody(m, req, made),
			&itemDecoder{e: &m.e})
	})
}

// The names of the changes that servers need, in addition to those of Chat Completions.
const (
	noOutputTokens = "no max_output_tokens"
	noStrict       = "no strict"
	noInclude      = "no include"
	noStore        = "no store"
)

var responsesMends = []wire.Mend{
	{Name: noOutputTokens, Applies: hasMaxTokens, Fields: []string{"max_output_tokens"}},
	{Name: noCacheKey, Fields: []string{"prompt_cache_key"}},
	{Name: noStrict, Fields: []string{"strict"}},
	{Name: noInclude, Fields: []string{"encrypted_content", "include"}},
	{Name: noEffort, Fields: []string{"reasoning.", "'reasoning'", "reasoning_effort", "\"reasoning\"", "reasoningeffort"},
		Words: [][]string{{"not support thinking"}, {"not support reasoning"}}},
	{Name: noStore, Fields: []string{"store"}},
	wire.NoImages, wire.PlainSchemas,
}

// The parts of a request.

// responsesHead contains the fields before the input, responsesTail those after it. The input is a
// list of items; reasoning items are sent back unchanged.
type responsesHead struct {
	Model        string `json:"model"`
	Instructions string `json:"instructions,omitempty"`
}

type responsesTail struct {
	Tools           []any      `json:"tools,omitempty"` // responsesTool or responsesSearch
	Stream          bool       `json:"stream"`
	Store           *bool      `json:"store,omitempty"`
	Include         []string   `json:"include,omitempty"`
	Reasoning       *reasoning `json:"reasoning,omitempty"`
	MaxOutputTokens int        `json:"max_output_tokens,omitempty"`
	PromptCacheKey  string     `json:"prompt_cache_key,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary"`
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
}

// responsesSearch is the vendor's own search.
type responsesSearch struct {
	Type    string   `json:"type"`
	Filters *filters `json:"filters,omitempty"`
}

type filters struct {
	Allowed []string `json:"allowed_domains,omitempty"`
	Blocked []string `json:"blocked_domains,omitempty"`
}

type item struct {
	Type      string  `json:"type"`
	Role      string  `json:"role,omitempty"`
	Phase     string  `json:"phase,omitempty"`   // of an assistant's message; the vendor wants it back
	Content   any     `json:"content,omitempty"` // *[]piece, or the text of an answer
	CallID    string  `json:"call_id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
	Output    any     `json:"output,omitempty"` // string or []piece
}

type piece struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Detail   string `json:"detail,omitempty"` // of an image; the vendor's types require it
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

// asItem is the prefix of a Thinking.Opaque that contains an unchanged reasoning item.
const asItem = "reasoning:"

// phaseOf returns the prefix of a Part.Opaque that contains the phase of a message of the model at e. Other
// models may not know phases.
func phaseOf(e *llm.Endpoint) string { return "phase:" + e.Info.ID + ":" }

func responsesBody(r *responses, req *llm.Request, made map[string]bool) *wire.Body {
	e := &r.e
	if made[wire.NoImages.Name] {
		e = wire.WithoutSight(e)
	}
	no := func(name string) *bool { // a field that is false unless the server refuses it
		if made[name] {
			return nil
		}
		return new(bool)
	}
	out := &responsesTail{Stream: true, Store: no(noStore)}
	if !made[noOutputTokens] {
		out.MaxOutputTokens = req.MaxTokens
	}
	if !made[noCacheKey] {
		out.PromptCacheKey = req.Session
	}
	if r.e.Info.Thinking || r.e.Info.Window == 0 {
		if !made[noInclude] {
			out.Include = []string{"reasoning.encrypted_content"}
		}
		if !made[noEffort] {
			out.Reasoning = &reasoning{Effort: llm.EffortLevel(req.Effort), Summary: "auto"}
		}
	}
	for _, t := range r.mends.Tools(schema.Responses, req, made) {
		out.Tools = append(out.Tools, responsesTool{Type: "function", Name: t.Name, Description: t.Description,
			Parameters: t.Schema, Strict: no(noStrict)})
	}
	if s := req.Search; s != nil {
		search := responsesSearch{Type: "web_search"}
		if len(s.Allowed)+len(s.Blocked) > 0 {
			search.Filters = &filters{s.Allowed, s.Blocked}
		}
		out.Tools = append(out.Tools, search)
		out.Include = append(out.Include, "web_search_call.action.sources")
	}
	turns := wire.Turns(req.Messages)
	return &wire.Body{
		Head: responsesHead{e.Name, req.System}, List: "input", Tail: out, Turns: turns, Memo: req.Memo,
		Owner: responsesOwner{r, made[wire.NoImages.Name]},
		Items: func(i int) []any { return items(e, turns[i]) },
	}
}

// A responsesOwner is whose encoding a memo has.
type responsesOwner struct {
	*responses
	blind bool
}

func items(e *llm.Endpoint, m llm.Message) []any {
	var out []any
	var open *[]piece // of the message to which a user's part is added
	add := func(p piece) {
		if open == nil {
			open = &[]piece{}
			out = append(out, &item{Type: "message", Role: string(m.Role), Content: open})
		}
		*open = append(*open, p)
	}
	for _, p := range m.Parts {
		switch {
		case p.Thinking != nil:
			if raw, ok := strings.CutPrefix(p.Thinking.Opaque, asItem); ok && p.Thinking.From == e.Info.ID {
				out, open = append(out, json.RawMessage(raw)), nil
			}
		case p.Call != nil:
			args := string(wire.Object(p.Call.Input))
			out, open = append(out, &item{Type: "function_call", CallID: wire.ID(p.Call.ID, maxID),
				Name: wire.Name(p.Call.Name, maxName), Arguments: &args}), nil
		case p.Result != nil:
			out, open = append(out, &item{Type: "function_call_output", CallID: wire.ID(p.Result.ID, maxID),
				Output: output(e, p.Result)}), nil
		case m.Role == llm.Assistant:
			if p.Media != nil {
				p.Text = wire.Placeholder(p.Media)
			}
			phase, ok := strings.CutPrefix(p.Opaque, phaseOf(e))
			if !ok {
				phase = ""
			}
			out = append(out, &item{Type: "message", Role: string(m.Role), Phase: phase, Content: p.Text})
		case p.Media != nil:
			add(itemMedia(e, p.Media))
		default:
			add(piece{Type: "input_text", Text: p.Text})
		}
	}
	// Reasoning must be followed by its result, which an interrupted answer does not have.
	for n := len(out); n > 0; n = len(out) {
		if _, ok := out[n-1].(json.RawMessage); !ok {
			break
		}
		out = out[:n-1]
	}
	return out
}

func output(e *llm.Endpoint, r *llm.ToolResult) any {
	text, media := wire.TextAndMedia(r.Parts)
	if r.IsError && !strings.HasPrefix(strings.ToLower(text), "error") {
		text = "Error: " + text
	}
	if text == "" && len(media) == 0 {
		text = llm.NoOutput
	}
	if len(media) == 0 {
		return text
	}
	var out []piece
	if text != "" {
		out = append(out, piece{Type: "input_text", Text: text})
	}
	for _, m := range media {
		out = append(out, itemMedia(e, m))
	}
	return out
}

func itemMedia(e *llm.Endpoint, m *llm.Media) piece {
	switch wire.MediaKind(&e.Info, m) {
	case wire.Image:
		return piece{Type: "input_image", ImageURL: wire.DataURL(m), Detail: "auto"}
	case wire.PDF:
		return piece{Type: "input_file", Filename: filename(m), FileData: wire.DataURL(m)}
	case wire.TextFile:
		return piece{Type: "input_text", Text: wire.FileText(m)}
	}
	return piece{Type: "input_text", Text: wire.Placeholder(m)}
}

// The parts of an answer.
