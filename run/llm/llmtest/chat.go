package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
)

// chatFormat is the OpenAI Chat Completions format.
type chatFormat struct{}

type chatRequest struct {
	Model               string          `json:"model"`
	Stream              bool            `json:"stream"`
	StreamOptions       json.RawMessage `json:"stream_options"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	PromptCacheKey      string          `json:"prompt_cache_key"`
	Tools               []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Messages []struct {
		Role             string          `json:"role"`
		Content          json.RawMessage `json:"content"`
		ToolCallID       string          `json:"tool_call_id"`
		ReasoningContent string          `json:"reasoning_content"`
		ReasoningDetails json.RawMessage `json:"reasoning_details"`
		ToolCalls        []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
			Extra json.RawMessage `json:"extra_content"`
		} `json:"tool_calls"`
	} `json:"messages"`
}

func (chatFormat) fail(status int, kind llm.ErrorKind, message string) []byte {
	e := object{"message": message, "type": openAIType(kind), "param": nil, "code": nil}
	if kind == llm.Overflow {
		e["code"] = "context_length_exceeded"
	}
	data, _ := json.Marshal(object{"error": e})
	return data
}

func openAIType(kind llm.ErrorKind) string {
	switch kind {
	case llm.RateLimit:
		return "rate_limit_exceeded"
	case llm.Overloaded:
		return "server_is_overloaded"
	case llm.Server, llm.Broken:
		return "server_error"
	case llm.Auth:
		return "invalid_api_key"
	}
	return "invalid_request_error"
}

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

func (chatFormat) check(_ *Server, _ *http.Request, body []byte) (v requestText, refusal string) {
	no := func(format string, args ...any) (requestText, string) {
		return requestText{}, fmt.Sprintf(format, args...)
	}
	var req chatRequest
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return no("%v", err)
	}
	switch {
	case req.Model == "":
		return no("you must provide a model parameter")
	case len(req.Messages) == 0:
		return no("Invalid 'messages': empty array. Expected an array with minimum length 1")
	case req.MaxTokens != 0 && req.MaxCompletionTokens != 0:
		return no("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	case req.ReasoningEffort != "" && !slices.Contains(efforts, req.ReasoningEffort):
		return no("Invalid value: %q for reasoning_effort", req.ReasoningEffort)
	}
	var all []string
	names := map[string]bool{}
	for i, t := range req.Tools {
		f := t.Function
		if t.Type != "function" || !plain(f.Name, 64) || names[f.Name] {
			return no("Invalid 'tools[%d].function.name': %q", i, f.Name)
		}
		if why := rootObject(f.Parameters); why != "" {
			return no("Invalid schema for function '%s': %s", f.Name, why)
		}
		names[f.Name] = true
		all = append(all, f.Name, f.Description)
	}
	var open []string
	seen := map[string]bool{}
	for i, m := range req.Messages {
		text, why := chatContent(m.Role, m.Content)
		if why != "" {
			return no("Invalid 'messages[%d].content': %s", i, why)
		}
		if m.Role != "tool" && len(open) > 0 {
			return no("An assistant message with 'tool_calls' must be followed by tool messages responding to each "+
				"'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
		}
		switch m.Role {
		case "system", "developer":
		case "user":
			if text == "" && len(m.Content) == 0 {
				return no("Invalid 'messages[%d]': content is required", i)
			}
			v.last = text
		case "assistant":
			if len(m.Content) == 0 && len(m.ToolCalls) == 0 {
				return no("Invalid 'messages[%d]': content or tool_calls must be set", i)
			}
			for _, c := range m.ToolCalls {
				var args map[string]any
				switch {
				case c.ID == "" || seen[c.ID]:
					return no("Invalid 'messages[%d].tool_calls': id %q is not unique", i, c.ID)
				case c.Type != "function" || !plain(c.Function.Name, 64):
					return no("Invalid 'messages[%d].tool_calls': name %q", i, c.Function.Name)
				case json.Unmarshal([]byte(c.Function.Arguments), &args) != nil:
					return no("Invalid 'messages[%d].tool_calls': arguments are not valid JSON", i) // as llama.cpp and vLLM do
				}
				seen[c.ID] = true
				open = append(open, c.ID)
				text += "\n" + c.Function.Name + " " + c.Function.Arguments
			}
		case "tool":
			n := slices.Index(open, m.ToolCallID)
			if n < 0 {
				return no("Invalid parameter: messages with role 'tool' must be a response to a preceding message with " +
					"'tool_calls'.")
			}
			if strings.TrimSpace(text) == "" {
				return no("Invalid 'messages[%d].content': a result must not be blank", i)
			}
			open = slices.Delete(open, n, n+1)
			if i > 0 && req.Messages[i-1].Role == "tool" {
				text = v.last + "\n" + text
			}
			v.last = text
		default:
			return no("Invalid value: %q for messages[%d].role", m.Role, i)
		}
		all = append(all, text)
	}
	if len(open) > 0 {
		return no("An assistant message with 'tool_calls' must be followed by tool messages responding to each "+
			"'tool_call_id': %s", strings.Join(open, ", "))
	}
	v.texts = all
	return v, ""
}

// chatContent returns the text of content that is a string or a list of parts.
func chatContent(role string, raw json.RawMessage) (text, refusal string) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", ""
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, ""
	}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image *struct {
			URL string `json:"url"`
		} `json:"image_url"`
		File *struct {
			Name string `json:"filename"`
			Data string `json:"file_data"`
		} `json:"file"`
	}
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return "", "expected a string or an array of parts"
	}
	var out []string
	for _, p := range parts {
		switch {
		case p.Type == "text" && strings.TrimSpace(p.Text) != "":
			out = append(out, p.Text)
		case role != "user":
			return "", p.Type + " is only allowed in user messages"
		case p.Type == "image_url" && p.Image != nil && dataURL(p.Image.URL, "image/"):
		case p.Type == "file" && p.File != nil && p.File.Name != "" && dataURL(p.File.Data, "application/pdf"):
		default:
			return "", "part " + p.Type
		}
	}
	return strings.Join(out, "\n"), ""
}

func dataURL(s, mime string) bool {
	rest, ok := strings.CutPrefix(s, "data:"+mime)
	return ok && strings.Contains(rest, ";base64,") && !strings.HasSuffix(rest, ";base64,")
}

func (chatFormat) frames(_ *Server, a *Answer) []string {
	var out []string
	add := func(delta object, finish any) {
		out = append(out, sse("", object{
			"id": "chatcmpl-test", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", "usage": nil,
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
		}))
	}
	add(object{"role": "assistant", "content": ""}, nil)
	for _, p := range pieces(a.Thinking, a.Piece) {
		add(object{"reasoning_content": p}, nil)
	}
	for _, p := range pieces(a.Text, a.Piece) {
		add(object{"content": p}, nil)
	}
	for i, c := range a.Calls {
		add(object{"tool_calls": []object{{"index": i, "id": c.ID, "type": "function",
			"function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, p := range pieces(string(c.json()), a.Piece) {
			add(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	finish := map[llm.StopReason]string{llm.EndTurn: "stop", llm.ToolUse: "tool_calls", llm.MaxTokens: "length",
		llm.Refusal: "content_filter"}[a.Stop]
	add(object{}, finish)
	u := a.Usage
	out = append(out, sse("", object{"id": "chatcmpl-test", "object": "chat.completion.chunk", "model": "gpt-test",
		"choices": []any{}, "usage": object{
			"prompt_tokens": u.Input + u.CacheRead + u.CacheWrite, "completion_tokens": u.Output,
			"total_tokens":          u.Input + u.CacheRead + u.CacheWrite + u.Output,
			"prompt_tokens_details": object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		}}))
	return append(out, "data: [DONE]\n\n")
}
