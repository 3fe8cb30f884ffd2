package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
)

// anthropicFormat is the Messages format. It rejects requests for the reasons in the vendor's
// documentation and error messages.
type anthropicFormat struct {
	thread *anthropicThread // of the request; nil: none
	code   string           // of the refusal; may be ""
	whole  anthropicRequest // the request, with what the server kept
	id     string           // of the answer
}

type anthropicRequest struct {
	Model        string             `json:"model"`
	MaxTokens    int                `json:"max_tokens"`
	Stream       bool               `json:"stream"`
	System       []anthropicContent `json:"system"`
	Messages     []anthropicMessage `json:"messages"`
	Metadata     json.RawMessage    `json:"metadata"`
	Thread       *anthropicThread   `json:"thread"`
	OutputConfig *struct {
		Effort *string `json:"effort"`
		Task   *struct {
			Type      string `json:"type"`
			Total     int    `json:"total"`
			Remaining *int   `json:"remaining"`
		} `json:"task_budget"`
	} `json:"output_config"`
	Thinking *struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
		Binding *struct {
			Mismatch string `json:"prefix_mismatch_behavior"`
		} `json:"block_binding"`
	} `json:"thinking"`
	Tools []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
		MaxUses     int             `json:"max_uses"`
		Allowed     []string        `json:"allowed_domains"`
		Blocked     []string        `json:"blocked_domains"`
		Cache       *anthropicCache `json:"cache_control"`
	} `json:"tools"`
}

type anthropicCache struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

type anthropicMessage struct {
	Role    string             `json:"role"`
	Content []anthropicContent `json:"content"`
	Config  *struct {
		Effort string `json:"effort"`
	} `json:"output_config"`
}

type anthropicContent struct {
	Type      string             `json:"type"`
	Text      string             `json:"text"`
	Thinking  *string            `json:"thinking"`
	Signature string             `json:"signature"`
	Data      string             `json:"data"`
	ID        string             `json:"id"`
	Name      string             `json:"name"`
	Input     json.RawMessage    `json:"input"`
	ToolUseID string             `json:"tool_use_id"`
	Content   []anthropicContent `json:"content"`
	IsError   bool               `json:"is_error"`
	Title     string             `json:"title"`
	Source    *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
	Cache *anthropicCache `json:"cache_control"`
}

func (f *anthropicFormat) fail(status int, kind llm.ErrorKind, message string) []byte {
	typ := map[llm.ErrorKind]string{
		llm.Invalid: "invalid_request_error", llm.Auth: "authentication_error", llm.RateLimit: "rate_limit_error",
		llm.Overloaded: "overloaded_error", llm.Server: "api_error", llm.Broken: "api_error",
		llm.Overflow: "invalid_request_error",
	}[kind]
	if kind == llm.Overflow && message == "" {
		message = "prompt is too long: 200001 tokens > 200000 maximum"
	}
	report := object{"type": typ, "message": message}
	if f.code != "" {
		report["details"] = object{"error_code": f.code}
	}
	data, _ := json.Marshal(object{"type": "error", "error": report, "request_id": "req_test"})
	return data
}

func (f *anthropicFormat) check(s *Server, r *http.Request, body []byte) (v requestText, refusal string) {
	no := func(format string, args ...any) (requestText, string) {
		return requestText{}, fmt.Sprintf(format, args...)
	}
	switch r.Header.Get("Anthropic-Version") {
	case "2023-06-01", "2026-10-21": // the vendor answers both; its SDKs send the later one
	default:
		return no("anthropic-version: header is required")
	}
	var req anthropicRequest
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return no("%v", err)
	}
	if why := f.expand(s, r, &req); why != "" {
		return no("%s", why)
	}
	switch {
	case req.Model == "":
		return no("model: Field required")
	case req.MaxTokens < 1:
		return no("max_tokens: must be greater than or equal to 1")
	case len(req.Messages) == 0:
		return no("messages: at least one message is required")
	case req.Messages[0].Role != "user":
		return no("messages: first message must use the \"user\" role")
	}
	if o := req.OutputConfig; o != nil {
		if e := o.Effort; e != nil && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, *e) {
			return no("output_config.effort: %q", *e)
		}
		if b := o.Task; b != nil && (b.Type != "tokens" || b.Total <= 0 ||
			!strings.Contains(r.Header.Get("Anthropic-Beta"), "task-budgets-")) {
			return no("output_config.task_budget: %+v", *b)
		}
	}
	budget := false
	if t := req.Thinking; t != nil {
		switch t.Type {
		case "adaptive", "disabled":
			if b := t.Binding; b != nil && (t.Type == "disabled" || b.Mismatch != "drop_block" ||
				!strings.Contains(r.Header.Get("Anthropic-Beta"), "thinking-binding-controls-2026-08-01")) {
				return no("thinking.%s.block_binding: Extra inputs are not permitted", t.Type)
			}
		case "enabled":
			budget = true
			if t.Budget < 1024 {
				return no("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
			}
			if t.Budget >= req.MaxTokens {
				return no("`max_tokens` must be greater than `thinking.budget_tokens`")
			}
		default:
			return no("thinking.type: %q", t.Type)
		}
	}
	marks := 0
	mark := func(c *anthropicCache) {
		if c != nil {
			marks++
		}
	}
	all := []string{}
	names := map[string]bool{}
	for i, t := range req.Tools {
		if !plain(t.Name, 128) {
			return no("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		}
		if names[t.Name] {
			return no("tools: Tool names must be unique.")
		}
		names[t.Name] = true
		if t.Type == "web_search_20250305" {
			if t.Name != "web_search" || t.MaxUses < 1 || len(t.Allowed) > 0 && len(t.Blocked) > 0 {
				return no("tools.%d.web_search_20250305: name, max_uses or domains", i)
			}
			all = append(append(append(all, t.Type), t.Allowed...), t.Blocked...)
			mark(t.Cache)
			continue
		}
		if t.Type != "" && t.Type != "custom" || t.MaxUses != 0 || t.Allowed != nil || t.Blocked != nil {
			return no("tools.%d: Input tag %q is not known", i, t.Type)
		}
		if why := rootObject(t.InputSchema); why != "" {
			return no("tools.%d.custom.input_schema: %s", i, why)
		}
		mark(t.Cache)
		all = append(all, t.Name, t.Description)
	}
	for i, c := range req.System {
		if c.Type != "text" || strings.TrimSpace(c.Text) == "" {
			return no("system.%d: text content blocks must be non-empty", i)
		}
		mark(c.Cache)
		all = append(all, c.Text)
	}
	seen := map[string]bool{} // IDs of all calls
	var open []string         // calls of the previous message, in order
	for i, m := range req.Messages {
		if m.Role == "system" {
			if why := effortOf(r, req.Messages, i); why != "" {
				return no("messages.%d.%s", i, why)
			}
			continue
		}
		if m.Role != "user" && m.Role != "assistant" {
			return no("messages.%d.role: %q", i, m.Role)
		}
		if len(m.Content) == 0 {
			return no("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		if i > 0 && m.Role == "assistant" && len(open) > 0 {
			return no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1,
				strings.Join(open, ", "))
		}
		var text []string
		var calls []string
		results, other := 0, false
		for j, c := range m.Content {
			at := fmt.Sprintf("messages.%d.content.%d", i, j)
			mark(c.Cache)
			switch c.Type {
			case "text":
				if strings.TrimSpace(c.Text) == "" {
					return no("%s: text content blocks must contain non-whitespace text", at)
				}
				other = true
				text = append(text, c.Text)
			case "image", "document":
				if m.Role != "user" {
					return no("%s: %s blocks are only permitted in user messages", at, c.Type)
				}
				if why := anthropicSource(c); why != "" {
					return no("%s: %s", at, why)
				}
				other = true
			case "thinking":
				if m.Role != "assistant" || c.Thinking == nil {
					return no("%s: thinking", at)
				}
				if c.Cache != nil {
					return no("%s.cache_control: Extra inputs are not permitted", at)
				}
				if !s.signedBy(c.Signature, *c.Thinking) {
					return no("%s: Invalid `signature` in `thinking` block", at)
				}
			case "redacted_thinking":
				if m.Role != "assistant" || c.Data == "" || c.Cache != nil {
					return no("%s: redacted_thinking", at)
				}
			case "tool_use":
				if m.Role != "assistant" {
					return no("%s: `tool_use` blocks can only be in `assistant` messages", at)
				}
				if !plain(c.ID, 256) {
					return no("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
				}
				if seen[c.ID] {
					return no("%s: `tool_use` ids must be unique", at)
				}
				if len(c.Input) == 0 || c.Input[0] != '{' {
					return no("%s.tool_use.input: Input should be a valid dictionary", at)
				}
				if !plain(c.Name, 128) {
					return no("%s.tool_use.name: %q", at, c.Name)
				}
				seen[c.ID] = true
				calls = append(calls, c.ID)
				text = append(text, c.Name+" "+string(c.Input))
			case "tool_result":
				if m.Role != "user" {
					return no("%s: `tool_result` blocks can only be in `user` messages", at)
				}
				if other {
					return no("%s: `tool_result` blocks must come first in the content", at)
				}
				n := slices.Index(open, c.ToolUseID)
				if n < 0 {
					return no("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have "+
						"a corresponding `tool_use` block in the previous message", at, c.ToolUseID)
				}
				open = slices.Delete(slices.Clone(open), n, n+1)
				results++
				if c.IsError && len(c.Content) == 0 {
					return no("%s: content cannot be empty if `is_error` is true", at)
				}
				for _, p := range c.Content {
					switch p.Type {
					case "text":
						if strings.TrimSpace(p.Text) == "" {
							return no("%s: text content blocks must be non-empty", at)
						}
						text = append(text, p.Text)
					case "image", "document":
						if c.IsError {
							return no("%s: all content must be type \"text\" if \"is_error\" is true", at)
						}
						if why := anthropicSource(p); why != "" {
							return no("%s: %s", at, why)
						}
					default:
						return no("%s: %s in a tool_result", at, p.Type)
					}
				}
			default:
				return no("%s: Input tag %q is not known", at, c.Type)
			}
		}
		if m.Role == "user" && len(open) > 0 {
			return no("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1,
				strings.Join(open, ", "))
		}
		if m.Role == "assistant" {
			open = calls
			last := m.Content[len(m.Content)-1]
			if last.Type == "thinking" || last.Type == "redacted_thinking" {
				return no("messages.%d: The final block in an assistant message cannot be `thinking`", i)
			}
			if i == len(req.Messages)-1 {
				if last.Type == "text" && strings.TrimRight(last.Text, " \n\t") != last.Text {
					return no("messages: final assistant content cannot end with trailing whitespace")
				}
				return no("messages.%d: this model does not support assistant message prefill: the conversation must end with a "+
					"user message", i)
			}
		} else {
			v.last = strings.Join(text, "\n")
		}
		all = append(all, text...)
	}
	if budget {
		if why := thinkingFirst(req.Messages); why != "" {
			return no("%s", why)
		}
	}
	if marks > 4 {
		return no("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	v.texts = all
	return v, ""
}

// effortOf explains why a message of the role system is refused. Only one that sets an effort is known here, and only
// before an answer.
func effortOf(r *http.Request, all []anthropicMessage, i int) string {
	switch m := all[i]; {
	case !strings.Contains(r.Header.Get("Anthropic-Beta"), "mid-conversation-output-config-2026-07-01"):
		return "role: system"
	case len(m.Content) > 0 || m.Config == nil || llm.EffortLevel(m.Config.Effort) != m.Config.Effort:
		return "output_config"
	case i+1 < len(all) && all[i+1].Role != "assistant":
		return "output_config: it must be before an answer"
	}
	return ""
}

// thinkingFirst checks that, with a thinking budget, the answer whose calls are being answered
// begins with its thinking. It returns the vendor's error, or "".
func thinkingFirst(msgs []anthropicMessage) string {
	for i := len(msgs) - 1; i >= 0; i-- {
		m := msgs[i]
		if m.Role != "assistant" {
			continue
		}
		if first := m.Content[0].Type; m.Content[len(m.Content)-1].Type == "tool_use" && first != "thinking" &&
			first != "redacted_thinking" {
			return fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When "+
				"`thinking` is enabled, a final `assistant` message must start with a thinking block", i, first)
		}
		break
	}
	return ""
}

func anthropicSource(c anthropicContent) string {
	src := c.Source
	if src == nil {
		return "source: Field required"
	}
	switch {
	case c.Type == "image" && src.Type == "base64":
		if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, src.MediaType) {
			return "source.base64.media_type: " + src.MediaType
		}
	case c.Type == "document" && src.Type == "base64" && src.MediaType == "application/pdf":
	case c.Type == "document" && src.Type == "text" && src.MediaType == "text/plain" && strings.TrimSpace(src.Data) != "":
		return ""
	default:
		return fmt.Sprintf("source: %s %s in %s", src.Type, src.MediaType, c.Type)
	}
	if data, err := base64.StdEncoding.DecodeString(src.Data); err != nil || len(data) == 0 {
		return "source.base64.data: not base64"
	}
	return ""
}

// plain reports whether s has 1 to n characters, all of them in [a-zA-Z0-9_-].
func plain(s string, n int) bool {
	return s != "" && len(s) <= n &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// rootObject explains why Anthropic and OpenAI would reject a schema as that of an object; "" if
// they would not.
func rootObject(schema json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(schema, &m) != nil {
		return "Input should be a valid dictionary"
	}
	if m["type"] != "object" {
		return "type: Input should be 'object'"
	}
	for _, k := range []string{"oneOf", "anyOf", "allOf"} {
		if _, ok := m[k]; ok {
			return "input_schema does not support oneOf, allOf, or anyOf at the top level"
		}
	}
	return ""
}

func (f *anthropicFormat) frames(s *Server, a *Answer) []string {
	var out []string
	add := func(name string, data object) {
		data["type"] = name
		out = append(out, sse(name, data))
	}
	u := a.Usage
	f.id = f.nextID(s)
	add("message_start", object{"message": object{
		"id": f.id, "type": "message", "role": "assistant", "model": "claude-test", "content": []any{},
		"stop_reason": nil, "usage": object{"input_tokens": u.Input, "cache_read_input_tokens": u.CacheRead,
			"cache_creation_input_tokens": u.CacheWrite, "output_tokens": 1},
	}})
	add("ping", object{})
	f.keep(s, a)
	index := 0
	blockOf := func(start object, deltas ...object) {
		add("content_block_start", object{"index": index, "content_block": start})
		for _, d := range deltas {
			add("content_block_delta", object{"index": index, "delta": d})
		}
		add("content_block_stop", object{"index": index})
		index++
	}
	if a.Thinking != "" {
		var deltas []object
		for _, p := range pieces(a.Thinking, a.Piece) {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": p})
		}
		deltas = append(deltas, object{"type": "signature_delta", "signature": s.signature(a.Thinking)})
		blockOf(object{"type": "thinking", "thinking": "", "signature": ""}, deltas...)
	}
	if len(a.Found) > 0 {
		blockOf(object{"type": "server_tool_use", "id": "srvtoolu_test", "name": "web_search", "input": object{}},
			object{"type": "input_json_delta", "partial_json": `{"query":"x"}`})
		var pages []object
		for _, f := range a.Found {
			pages = append(pages, object{"type": "web_search_result", "url": f.URL, "title": f.Title,
				"encrypted_content": "abc", "page_age": nil})
		}
		blockOf(object{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_test", "content": pages})
		for _, f := range a.Found {
			if f.Text != "" {
				blockOf(object{"type": "text", "text": ""}, object{"type": "citations_delta", "citation": object{
					"type": "web_search_result_location", "url": f.URL, "title": f.Title, "cited_text": f.Text,
					"encrypted_index": "abc"}}, object{"type": "text_delta", "text": "cited"})
			}
		}
	}
	if a.Text != "" {
		var deltas []object
		for _, p := range pieces(a.Text, a.Piece) {
			deltas = append(deltas, object{"type": "text_delta", "text": p})
		}
		blockOf(object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range a.Calls {
		deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
		for _, p := range pieces(string(c.json()), a.Piece) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
		}
		blockOf(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}, deltas...)
	}
	add("message_delta", object{"delta": object{"stop_reason": string(a.Stop), "stop_sequence": nil},
		"usage": object{"output_tokens": u.Output}})
	add("message_stop", object{})
	return out
}
