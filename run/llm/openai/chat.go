package openai

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
	"github.com/knack-agent/knack/run/llm/schema"
)

type chat struct {
	e     llm.Endpoint
	mends wire.Mends
}

func (m *chat) Info() llm.Info { return m.e.Info }

func (m *chat) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	if req.Search != nil {
		return func(yield func(llm.Event, error) bool) {
			yield(llm.Event{}, &llm.Error{Kind: llm.Invalid,
				Message: m.e.Info.ID + ": Chat Completions has no search of its own"})
		}
	}
	return m.mends.Stream(schema.Chat, req, chatMends, func(made map[string]bool) iter.Seq2[llm.Event, error] {
		return wire.Stream(ctx, &m.e, address(&m.e, "/chat/completions"), authorization(&m.e), chatBody(m, req, made),
			&chatDecoder{e: &m.e})
	})
}

// The names of the changes that servers need. testdata/refusals.txtar has a message for each, with its source.
const (
	noStreamOptions  = "no stream_options"
	otherMaxTokens   = "max_tokens and max_completion_tokens exchanged"
	noMaxTokens      = "no max_tokens"
	noEffort         = "no reasoning_effort"
	noCacheKey       = "no prompt_cache_key"
	noReasoning      = "no reasoning in answers"
	allReasoning     = "reasoning in all answers"
	systemAsUser     = "the system text as a user's"
	emptyContent     = "content in answers with calls"
	namedResults     = "names of results"
	answeredResults  = "an answer after results"
	textOrCalls      = "no text beside calls"
	shortIDs         = "IDs of nine characters"
	notStreamed      = "no stream"
	placeholderThink = "(not kept)" // in the place of reasoning that a server wants but never sent
)

var chatMends = []wire.Mend{
	{Name: noStreamOptions, Fields: []string{"stream_options"}},
	{Name: otherMaxTokens, Applies: hasMaxTokens, Words: [][]string{{"max_completion_tokens"},
		{"max_tokens", "unsupported param"}, {"max_tokens", "unrecognized"}, {"max_tokens", "extra inputs"}}},
	{Name: noMaxTokens, Applies: hasMaxTokens, Fields: []string{"max_tokens", "max_completion_tokens"}},
	{Name: noEffort, Fields: []string{"reasoning_effort", "reasoningeffort", "reasoning effort"},
		Words: [][]string{{"not support thinking"}, {"think value"}, {"not support reasoning"}}},
	{Name: noCacheKey, Fields: []string{"prompt_cache_key"}},
	{Name: allReasoning, Words: [][]string{{"reasoning_content", "missing"}, {"reasoning_content", "passed back"},
		{"reasoning_content", "required"}}},
	{Name: noReasoning, Fields: []string{"reasoning_content", "reasoning_details", "reasoning_text", "'reasoning'",
		".reasoning"}, Words: [][]string{{"both content and thinking"}}},
	{Name: systemAsUser, Applies: hasSystem, Words: [][]string{{"system role not supported"},
		{"system", "role", "not support"}, {"unexpected message role"}, {"invalid role", "system"},
		{"unknown variant `system`"}, {"system message", "not support"}, {"only user and assistant roles"}}},
	{Name: namedResults, Applies: hasCalls, Words: [][]string{{"name cannot be empty"}, {"function_response.name"},
		{"tool", "name", "required"}}},
	{Name: emptyContent, Applies: hasCalls, Words: [][]string{{"content", "null"}, {"content", "none"},
		{"content", "required"}, {"content", "missing"}, {"content", "valid string"}, {"content", "expected a string"},
		{"content", "must be a string"}, {"content", "expected string"}, {"content", "empty"}}},
	wire.NoImages,
	{Name: answeredResults, Applies: hasCalls, Words: [][]string{{"unexpected role", "after role"},
		{"roles must alternate"}, {"expected last role"}}},
	{Name: textOrCalls, Applies: hasCalls, Words: [][]string{{"content", "tool_calls", "not both"},
		{"either content or tool"}}},
	{Name: shortIDs, Applies: hasCalls, Words: [][]string{{"tool call id", "length of 9"},
		{"tool call ids", "alphanumeric"}}},
	{Name: notStreamed, Words: [][]string{{"verified to stream"}, {"streaming is not supported"},
		{"not support stream"}, {"'stream'", "unsupported"}, {"streaming", "not supported"}}},
	wire.PlainSchemas,
}

func hasMaxTokens(req *llm.Request) bool { return req.MaxTokens > 0 }
func hasSystem(req *llm.Request) bool    { return req.System != "" }

func hasCalls(req *llm.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Call != nil })
	})
}

// The parts of a request.

// chatHead contains the fields before the messages, chatTail those after them.
type chatHead struct {
	Model string `json:"model"`
}

type chatTail struct {
	Tools               []chatTool     `json:"tools,omitempty"`
	Stream              bool           `json:"stream"`
	StreamOptions       map[string]any `json:"stream_options,omitempty"`
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
	Name             string          `json:"name,omitempty"`
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

// A chatRequest makes the messages of one request.
type chatRequest struct {
	e    *llm.Endpoint
	made map[string]bool
}

func chatBody(c *chat, req *llm.Request, made map[string]bool) *wire.Body {
	x := &chatRequest{&c.e, made}
	e := x.e
	if made[wire.NoImages.Name] {
		x.e = wire.WithoutSight(e)
	}
	out := &chatTail{Stream: !made[notStreamed]}
	if out.Stream && !made[noStreamOptions] {
		out.StreamOptions = map[string]any{"include_usage": true}
	}
	level := llm.EffortLevel(req.Effort)
	if e.BaseURL != official && (level == "xhigh" || level == "max") { // other servers know only three levels
		level = "high"
	}
	switch {
	case made[noMaxTokens]:
	case (e.BaseURL == official) != made[otherMaxTokens]:
		out.MaxCompletionTokens = req.MaxTokens
	default:
		out.MaxTokens = req.MaxTokens
	}
	if e.BaseURL == official && !made[noCacheKey] {
		out.PromptCacheKey = req.Session
	}
	if (e.Info.Thinking || e.Info.Window == 0) && !made[noEffort] {
		out.ReasoningEffort = level
	}
	for _, t := range c.mends.Tools(schema.Chat, req, made) {
		out.Tools = append(out.Tools, chatTool{"function", chatFunction{t.Name, t.Description, t.Schema}})
	}
	var first []any
	if req.System != "" {
		role := "system"
		if made[systemAsUser] {
			role = "user"
		}
		first = []any{chatMessage{Role: role, Content: req.System}}
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
		Owner: chatOwner{c, strings.Join(slices.Sorted(maps.Keys(made)), "\n")},
		Items: func(i int) []any {
			if turns[i].Role == llm.Assistant {
				return []any{x.answer(turns[i], i > current)}
			}
			return x.user(turns[i])
		},
	}
}

// A chatOwner is whose encoding a memo has: that of a model with the changes that its server needs.
type chatOwner struct {
	*chat
	made string
}

// answer converts an answer of the model.
func (x *chatRequest) answer(m llm.Message, current bool) chatMessage {
	e := x.e
	out := chatMessage{Role: "assistant"}
	var text []string
	for _, p := range m.Parts {
		switch {
		case p.Thinking != nil:
			if p.Thinking.From != e.Info.ID {
				continue
			}
			if details, ok := strings.CutPrefix(p.Thinking.Opaque, asDetails); x.made[noReasoning] {
				continue
			} else if ok {
				out.ReasoningDetails = json.RawMessage(details)
			} else if current || x.made[allReasoning] {
				text = append(text, out.reason(p.Thinking)...)
			}
		case p.Call != nil:
			c := chatCall{ID: x.id(p.Call.ID), Type: "function"}
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
	if x.made[textOrCalls] && len(out.ToolCalls) > 0 {
		text = nil
	}
	if len(text) > 0 || x.made[emptyContent] {
		out.Content = strings.Join(text, "\n")
	}
	if x.made[allReasoning] && out.ReasoningContent == "" {
		out.ReasoningContent = cmp.Or(out.Reasoning, placeholderThink)
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

// user converts a user's message to one message for each result and one for the rest. A result can
// only be text, so its images are moved to the rest.
func (x *chatRequest) user(m llm.Message) []any {
	e := x.e
	var out []any
	var rest []chatPart
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			text, media := wire.TextAndMedia(p.Result.Parts)
			for _, image := range media {
				part := chatMedia(e, image)
				if part.Type == "text" {
					text += "\n" + part.Text
					continue
				}
				text += "\n[" + image.MIME + " follows]"
				rest = append(rest, part)
			}
			if p.Result.IsError && !strings.HasPrefix(strings.ToLower(text), "error") {
				text = "Error: " + text
			}
			if text == "" {
				text = llm.NoOutput
			}
			result := chatMessage{Role: "tool", ToolCallID: x.id(p.Result.ID), Content: strings.TrimPrefix(text, "\n")}
			if x.made[namedResults] {
				result.Name = wire.Name(p.Result.Name, maxName)
			}
			out = append(out, result)
		case p.Media != nil:
			rest = append(rest, chatMedia(e, p.Media))
		default:
			rest = append(rest, chatPart{Type: "text", Text: p.Text})
		}
	}
	if len(rest) == 0 {
		return out
	}
	if len(out) > 0 && x.made[answeredResults] {
		out = append(out, chatMessage{Role: "assistant", Content: "I have the results."})
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

func (x *chatRequest) id(id string) string {
	switch {
	case x.made[shortIDs]:
		sum := sha256.Sum256([]byte(id))
		return hex.EncodeToString(sum[:5])[:9]
	case x.e.BaseURL != official:
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
