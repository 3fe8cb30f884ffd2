package openai

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
)

type chat struct{ e llm.Endpoint }

func (m *chat) Info() llm.Info { return m.e.Info }

func (m *chat) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	if req.Search != nil {
		return func(yield func(llm.Event, error) bool) {
			yield(llm.Event{}, &llm.Error{Kind: llm.Invalid,
				Message: m.e.Info.ID + ": Chat Completions has no search of its own"})
		}
	}
	return wire.Stream(ctx, &m.e, m.e.BaseURL+"/chat/completions", authorization(&m.e), chatBody(m, req),
		&chatDecoder{e: &m.e})
}

// The parts of a request.

// chatHead contains the fields before the messages, chatTail those after them.
type chatHead struct {
	Model string `json:"model"`
}

type chatTail struct {
	Tools               []chatTool     `json:"tools,omitempty"`
	Stream              bool           `json:"stream"`
	StreamOptions       map[string]any `json:"stream_options"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
	PromptCacheKey      string         `json:"prompt_cache_key,omitempty"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatMessage struct {
	Role             string          `json:"role"`
	Content          any             `json:"content,omitempty"` // string or []chatPart
	ToolCalls        []chatCall      `json:"tool_calls,omitempty"`
	ToolCallID       string          `json:"tool_call_id,omitempty"`
	ReasoningContent string          `json:"reasoning_content,omitempty"`
	Reasoning        string          `json:"reasoning,omitempty"`
	ReasoningText    string          `json:"reasoning_text,omitempty"`
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
}

type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
	File     *chatFile  `json:"file,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

type chatFile struct {
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content,omitempty"` // Google's signature on the call
}

// Forms of Thinking.Opaque and ToolCall.Opaque that this package writes. Without further data, the text itself is sent
// back in the field from which it came; asTags is followed by the tag that began it in the text of the answer.
const (
	asContent   = "reasoning_content"
	asReasoning = "reasoning"
	asText      = "reasoning_text"
	asTags      = "tags:"
	asDetails   = "reasoning_details:"
	asExtra     = "extra_content:"
)

func chatBody(c *chat, req *llm.Request) *wire.Body {
	e := &c.e
	out := &chatTail{Stream: true, StreamOptions: map[string]any{"include_usage": true}}
	level := llm.EffortLevel(req.Effort)
	if e.BaseURL == official {
		out.MaxCompletionTokens, out.PromptCacheKey = req.MaxTokens, req.Session
	} else {
		out.MaxTokens = req.MaxTokens
		if level == "xhigh" || level == "max" { // other servers know only three levels
			level = "high"
		}
	}
	if e.Info.Thinking || e.Info.Window == 0 {
		out.ReasoningEffort = level
	}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, chatTool{"function", chatFunction{t.Name, t.Description, t.Schema}})
	}
	var first []any
	if req.System != "" {
		first = []any{chatMessage{Role: "system", Content: req.System}}
	}
	turns := wire.Turns(req.Messages)
	// Plain reasoning is sent back only while the calls that it led to are being answered, because
	// servers that need it need it only then.
	current := 0
	for i, m := range slices.Backward(turns) {
		if m.Role == llm.User && m.Parts[0].Result == nil { // results come first
			current = i
			break
		}
	}
	return &wire.Body{
		Head: chatHead{e.Name}, List: "messages", Tail: out, First: first, Turns: turns, Recent: current, Memo: req.Memo,
		Owner: c,
		Items: func(i int) []any {
			if turns[i].Role == llm.Assistant {
				return []any{assistantMessage(e, turns[i], i > current)}
			}
			return userMessages(e, turns[i])
		},
	}
}

// assistantMessage converts an answer of the model.
func assistantMessage(e *llm.Endpoint, m llm.Message, current bool) chatMessage {
	out := chatMessage{Role: "assistant"}
	var text []string
	for _, p := range m.Parts {
		switch {
		case p.Thinking != nil:
			if p.Thinking.From != e.Info.ID {
				continue
			}
			if details, ok := strings.CutPrefix(p.Thinking.Opaque, asDetails); ok {
				out.ReasoningDetails = json.RawMessage(details)
			} else if current {
				text = append(text, out.reason(p.Thinking)...)
			}
		case p.Call != nil:
			c := chatCall{ID: chatID(e, p.Call.ID), Type: "function"}
			c.Function.Name, c.Function.Arguments = wire.Name(p.Call.Name, maxName), string(wire.Object(p.Call.Input))
			if extra, ok := strings.CutPrefix(p.Call.Opaque, asExtra); ok {
				c.Extra = json.RawMessage(extra)
			}
			out.ToolCalls = append(out.ToolCalls, c)
		case p.Media != nil:
			text = append(text, wire.Placeholder(p.Media))
		default:
			text = append(text, p.Text)
		}
	}
	if len(text) > 0 {
		out.Content = strings.Join(text, "\n")
	}
	return out
}

// reason sends reasoning back in the field from which it came. It returns what belongs into the text.
func (m *chatMessage) reason(t *llm.Thinking) []string {
	switch open, tags := strings.CutPrefix(t.Opaque, asTags); {
	case tags:
		return []string{open + "\n" + t.Text + "\n" + closing(open) + "\n"}
	case t.Opaque == asContent:
		m.ReasoningContent += t.Text
	case t.Opaque == asReasoning:
		m.Reasoning += t.Text
	case t.Opaque == asText:
		m.ReasoningText += t.Text
	}
	return nil
}

// userMessages converts a user's message to one message for each result and one for the rest. A result can
// only be text, so its images are moved to the rest.
func userMessages(e *llm.Endpoint, m llm.Message) []any {
	var out []any
	var rest []chatPart
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			text, media := wire.TextAndMedia(p.Result.Parts)
			for _, x := range media {
				part := chatMedia(e, x)
				if part.Type == "text" {
					text += "\n" + part.Text
					continue
				}
				text += "\n[" + x.MIME + " follows]"
				rest = append(rest, part)
			}
			if p.Result.IsError && !strings.HasPrefix(strings.ToLower(text), "error") {
				text = "Error: " + text
			}
			if text == "" {
				text = "(no output)"
			}
			out = append(out, chatMessage{Role: "tool", ToolCallID: chatID(e, p.Result.ID),
				Content: strings.TrimPrefix(text, "\n")})
		case p.Media != nil:
			rest = append(rest, chatMedia(e, p.Media))
		default:
			rest = append(rest, chatPart{Type: "text", Text: p.Text})
		}
	}
	if len(rest) == 0 {
		return out
	}
	// Text alone is sent as a string, which every server accepts.
	if !slices.ContainsFunc(rest, func(p chatPart) bool { return p.Type != "text" }) {
		var text []string
		for _, p := range rest {
			text = append(text, p.Text)
		}
		return append(out, chatMessage{Role: "user", Content: strings.Join(text, "\n\n")})
	}
	return append(out, chatMessage{Role: "user", Content: rest})
}

func chatID(e *llm.Endpoint, id string) string {
	if e.BaseURL != official {
		return id
	}
	return wire.ID(id, maxChatID)
}

func chatMedia(e *llm.Endpoint, m *llm.Media) chatPart {
	switch wire.MediaKind(&e.Info, m) {
	case wire.Image:
		return chatPart{Type: "image_url", ImageURL: &chatImage{wire.DataURL(m)}}
	case wire.PDF:
		return chatPart{Type: "file", File: &chatFile{filename(m), wire.DataURL(m)}}
	case wire.TextFile:
		return chatPart{Type: "text", Text: wire.FileText(m)}
	}
	return chatPart{Type: "text", Text: wire.Placeholder(m)}
}

func filename(m *llm.Media) string {
	if m.Name == "" {
		return "document.pdf"
	}
	return m.Name
}
