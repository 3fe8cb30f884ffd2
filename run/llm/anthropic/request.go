package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
	"github.com/knack-agent/knack/run/llm/schema"
)

// The parts of a request. A content is one of several kinds of block. The field order follows the
// vendor's examples.

type request struct {
	Model        string        `json:"model,omitempty"`
	Version      string        `json:"anthropic_version,omitempty"` // of clouds, where it is not in a header
	Betas        []string      `json:"anthropic_beta,omitempty"`    // the same
	MaxTokens    int           `json:"max_tokens"`
	Stream       bool          `json:"stream,omitempty"`
	Thread       *thread       `json:"thread,omitempty"`
	Thinking     *thinking     `json:"thinking,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
	Tools        []toolSpec    `json:"tools,omitempty"`
	System       []content     `json:"system,omitempty"`
	// The messages follow.
}

type thinking struct {
	Type    string `json:"type"`
	Budget  int    `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`

	Binding *binding `json:"block_binding,omitempty"`
}

// A binding is what becomes of reasoning that was signed for other messages before it, or for other tools.
type binding struct {
	Mismatch string `json:"prefix_mismatch_behavior"` // drop_block
}

type outputConfig struct {
	Effort string      `json:"effort,omitempty"`
	Task   *taskBudget `json:"task_budget,omitempty"`
}

type taskBudget struct {
	Type  string `json:"type"` // tokens
	Total int    `json:"total"`
}

type cacheControl struct {
	Type string `json:"type"`
}

type toolSpec struct {
	Type        string          `json:"type,omitempty"` // of a tool of the vendor; "": one of ours
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	MaxUses     int             `json:"max_uses,omitempty"`
	Allowed     []string        `json:"allowed_domains,omitempty"`
	Blocked     []string        `json:"blocked_domains,omitempty"`
	Cache       *cacheControl   `json:"cache_control,omitempty"`
}

// The search of the vendor: its first version, which every model and every compatible server that searches has.
const (
	searchType  = "web_search_20250305"
	searchName  = "web_search"
	maxSearches = 3 // for one answer
)

type message struct {
	Role    string    `json:"role"`
	Content []content `json:"content"`
}

// An effortMessage sets the effort of the answer after it.
type effortMessage struct {
	Role    string       `json:"role"`    // system
	Content []content    `json:"content"` // empty
	Config  outputConfig `json:"output_config"`
}

type content struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Data      string          `json:"data,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []content       `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Source    *source         `json:"source,omitempty"`
	Title     string          `json:"title,omitempty"`
	Cache     *cacheControl   `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      any    `json:"data"` // []byte is written as base64
}

// The lengths that the API accepts.
const (
	maxID   = 128
	maxName = 128
)

// lastBlock is the cache breakpoint in the last block of a message. Only thinking blocks cannot have one, and they are
// never last.
const lastBlock = `,"cache_control":{"type":"ephemeral"}`

func body(m *model, req *llm.Request, made map[string]bool) *wire.Body {
	e := &m.e
	if made[wire.NoImages.Name] {
		e = wire.WithoutSight(e)
	}
	if made[noThinkingBack] {
		req = withoutThinking(req)
	}
	ephemeral, mark := &cacheControl{"ephemeral"}, lastBlock
	if made[noCache] {
		ephemeral, mark = nil, ""
	}
	out := &request{Model: e.Name, MaxTokens: req.MaxTokens, Stream: true}
	if c := e.Cloud; c != nil {
		out.Model, out.Version, out.Stream = "", c.Version, !c.Unstreamed
		if betas := e.Header.Get("Anthropic-Beta"); c.Unstreamed && betas != "" {
			for beta := range strings.SplitSeq(betas, ",") {
				out.Betas = append(out.Betas, strings.TrimSpace(beta))
			}
		}
	}
	if out.MaxTokens <= 0 {
		out.MaxTokens = defaultLimit
		if e.Info.MaxOutput > 0 {
			out.MaxTokens = e.Info.MaxOutput
		}
	}
	for _, t := range m.mends.Tools(schema.Messages, req, made) {
		out.Tools = append(out.Tools, toolSpec{Name: t.Name, Description: t.Description, InputSchema: t.Schema})
	}
	if s := req.Search; s != nil {
		out.Tools = append(out.Tools, toolSpec{Type: searchType, Name: searchName, MaxUses: maxSearches, Allowed: s.Allowed,
			Blocked: s.Blocked})
	}
	if n := len(out.Tools); n > 0 {
		out.Tools[n-1].Cache = ephemeral
	}
	if strings.TrimSpace(req.System) != "" {
		out.System = []content{{Type: "text", Text: req.System, Cache: ephemeral}}
	}
	turns := wire.Turns(req.Messages)
	if !made[noThinking] {
		effort(e, req, out, turns)
	}
	if e.TaskBudget > 0 && !made[noTaskBudget] {
		if out.OutputConfig == nil {
			out.OutputConfig = new(outputConfig)
		}
		out.OutputConfig.Task = &taskBudget{"tokens", e.TaskBudget}
	}
	b := &wire.Body{
		Head: out, List: "messages", Mark: mark, Turns: turns, Memo: req.Memo,
		Owner: owner{m, made[wire.NoImages.Name], made[noThinkingBack]},
		Items: func(i int) []any { return []any{message{string(turns[i].Role), contents(e, turns[i])}} },
	}
	if m.perMessage(req, made) {
		b.Last = effortMessage{"system", []content{}, outputConfig{Effort: out.OutputConfig.Effort}}
		out.Thinking.Binding = &binding{"drop_block"}
		// The effort of the request is a part of what is cached, so it stays the same; the lowest is never refused.
		out.OutputConfig.Effort = "low"
	}
	if m.threads(req, made) {
		keep(b, out)
	}
	return b
}

// An owner is whose encoding a memo has.
type owner struct {
	*model
	blind, thoughtless bool
}

// withoutThinking returns a copy of a request whose answers have no thinking.
func withoutThinking(req *llm.Request) *llm.Request {
	out := *req
	out.Messages = slices.Clone(req.Messages)
	for i := range out.Messages {
		m := &out.Messages[i]
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool { return p.Thinking != nil })
	}
	return &out
}

// effort asks for thinking. If the request's effort is empty, the model decides.
func effort(e *llm.Endpoint, req *llm.Request, out *request, turns []llm.Message) {
	if req.Effort == "" {
		return
	}
	if !e.Budget {
		if level := llm.EffortLevel(req.Effort); level != "" {
			out.Thinking = &thinking{Type: "adaptive", Display: "summarized"}
			out.OutputConfig = &outputConfig{Effort: level}
		}
		return
	}
	// The budget must be less than max_tokens. An answer that already called tools must begin with
	// its thinking, which is impossible if another model wrote it.
	budget := min(llm.EffortTokens(req.Effort), out.MaxTokens-minBudget)
	if budget < minBudget || callsWithoutThinking(e, turns) {
		return
	}
	out.Thinking = &thinking{Type: "enabled", Budget: budget}
}

func callsWithoutThinking(e *llm.Endpoint, turns []llm.Message) bool {
	for _, turn := range slices.Backward(turns) {
		if turn.Role != llm.Assistant {
			continue
		}
		blocks := contents(e, turn)
		return blocks[len(blocks)-1].Type == "tool_use" && blocks[0].Type != "thinking" &&
			blocks[0].Type != "redacted_thinking"
	}
	return false
}

func contents(e *llm.Endpoint, m llm.Message) []content {
	var out []content
	for _, p := range m.Parts {
		switch {
		case p.Thinking != nil:
			t := p.Thinking
			if t.From != e.Info.ID || t.Opaque == "" {
				continue
			}
			if data, ok := strings.CutPrefix(t.Opaque, Redacted); ok {
				out = append(out, content{Type: "redacted_thinking", Data: data})
				continue
			}
			out = append(out, content{Type: "thinking", Thinking: &t.Text, Signature: t.Opaque})
		case p.Media != nil && m.Role == llm.Assistant:
			out = append(out, content{Type: "text", Text: wire.Placeholder(p.Media)})
		case p.Media != nil:
			out = append(out, media(e, p.Media))
		case p.Call != nil:
			out = append(out, content{Type: "tool_use", ID: wire.ID(p.Call.ID, maxID),
				Name: wire.Name(p.Call.Name, maxName), Input: wire.Object(p.Call.Input)})
		case p.Result != nil:
			out = append(out, result(e, p.Result))
		default:
			out = append(out, content{Type: "text", Text: p.Text})
		}
	}
	if m.Role == llm.Assistant {
		for n := len(out); n > 0 && strings.Contains(out[n-1].Type, "thinking"); n = len(out) {
			out = out[:n-1] // the API rejects thinking at the end, where an interrupted answer has it
		}
		if n := len(out); out[n-1].Type == "text" {
			out[n-1].Text = strings.TrimRight(out[n-1].Text, " \t\r\n") // the API rejects trailing blanks at the end
		}
	}
	return out
}

func result(e *llm.Endpoint, r *llm.ToolResult) content {
	out := content{Type: "tool_result", ToolUseID: wire.ID(r.ID, maxID), IsError: r.IsError}
	for _, p := range r.Parts {
		switch {
		case p.Media != nil && r.IsError: // an error may contain only text
			out.Content = append(out.Content, content{Type: "text", Text: wire.Placeholder(p.Media)})
		case p.Media != nil:
			out.Content = append(out.Content, media(e, p.Media))
		case strings.TrimSpace(p.Text) != "":
			out.Content = append(out.Content, content{Type: "text", Text: p.Text})
		}
	}
	if r.IsError && len(out.Content) == 0 { // the API rejects an error without text
		out.Content = []content{{Type: "text", Text: llm.NoOutput}}
	}
	return out
}

func media(e *llm.Endpoint, m *llm.Media) content {
	switch kind := wire.MediaKind(&e.Info, m); {
	case kind == wire.Image:
		return content{Type: "image", Source: &source{"base64", m.MIME, m.Data}}
	case kind == wire.PDF:
		return content{Type: "document", Source: &source{"base64", m.MIME, m.Data}, Title: m.Name}
	case kind == wire.TextFile:
		return content{Type: "document", Source: &source{"text", "text/plain",
			string(bytes.ToValidUTF8(m.Data, []byte("\ufffd")))}, Title: m.Name}
	}
	return content{Type: "text", Text: wire.Placeholder(m)}
}
