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

// responsesFormat is the OpenAI Responses format.
type responsesFormat struct{}

type responsesRequest struct {
	Model        string   `json:"model"`
	Instructions string   `json:"instructions"`
	Stream       bool     `json:"stream"`
	Store        *bool    `json:"store"`
	Include      []string `json:"include"`
	Reasoning    *struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	MaxOutputTokens int    `json:"max_output_tokens"`
	PromptCacheKey  string `json:"prompt_cache_key"`
	Tools           []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
		Filters     *struct {
			Allowed []string `json:"allowed_domains"`
			Blocked []string `json:"blocked_domains"`
		} `json:"filters"`
	} `json:"tools"`
	Input []struct {
		Type      string          `json:"type"`
		ID        string          `json:"id"`
		Status    string          `json:"status"` // of an item that is sent back as it came
		Role      string          `json:"role"`
		Phase     string          `json:"phase"`
		Content   json.RawMessage `json:"content"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments *string         `json:"arguments"`
		Output    json.RawMessage `json:"output"`
		Encrypted string          `json:"encrypted_content"`
		Summary   []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"summary"`
	} `json:"input"`
}

func (responsesFormat) fail(status int, kind llm.ErrorKind, message string) []byte {
	return chatFormat{}.fail(status, kind, message)
}

func (responsesFormat) check(s *Server, _ *http.Request, body []byte) (v requestText, refusal string) {
	no := func(format string, args ...any) (requestText, string) {
		return requestText{}, fmt.Sprintf(format, args...)
	}
	var req responsesRequest
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return no("%v", err)
	}
	switch {
	case req.Model == "":
		return no("Missing required parameter: 'model'.")
	case req.Store == nil || *req.Store:
		return no("store: this server keeps nothing")
	case len(req.Input) == 0:
		return no("Invalid 'input': empty array.")
	case req.MaxOutputTokens != 0 && req.MaxOutputTokens < 16:
		return no("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16")
	case req.Reasoning != nil && req.Reasoning.Effort != "" && !slices.Contains(efforts, req.Reasoning.Effort):
		return no("Invalid value: %q for reasoning.effort", req.Reasoning.Effort)
	}
	all := []string{req.Instructions}
	names := map[string]bool{}
	for i, t := range req.Tools {
		if t.Type == "web_search" {
			if t.Name != "" || t.Parameters != nil || !slices.Contains(req.Include, "web_search_call.action.sources") {
				return no("Invalid 'tools[%d]': web_search", i)
			}
			all = append(all, t.Type)
			if f := t.Filters; f != nil {
				all = append(append(all, f.Allowed...), f.Blocked...)
			}
			continue
		}
		if t.Type != "function" || !plain(t.Name, 64) || names[t.Name] {
			return no("Invalid 'tools[%d].name': %q", i, t.Name)
		}
		if why := rootObject(t.Parameters); why != "" {
			return no("Invalid schema for function '%s': %s", t.Name, why)
		}
		names[t.Name] = true
		all = append(all, t.Name, t.Description)
	}
	calls, answered := map[string]bool{}, map[string]bool{}
	lastUser := -1
	for i, it := range req.Input {
		var text string
		if it.Type == "" && it.Role != "" { // the short form of a message
			it.Type = "message"
		}
		switch it.Type {
		case "message":
			kinds := "input_text input_image input_file"
			if it.Role == "assistant" {
				kinds = "output_text"
			} else if it.Role != "user" && it.Role != "developer" {
				return no("Invalid value: %q for input[%d].role", it.Role, i)
			}
			if it.Phase != "" && (it.Role != "assistant" || it.Phase != "commentary" && it.Phase != "final_answer") {
				return no("Invalid value: %q for input[%d].phase", it.Phase, i)
			}
			var why string
			if text, why = responsesContent(it.Content, kinds); why != "" {
				return no("Invalid 'input[%d].content': %s", i, why)
			}
		case "reasoning":
			if it.ID == "" || it.Encrypted == "" || it.Summary == nil {
				return no("Item 'input[%d]' of type 'reasoning' needs id, summary and encrypted_content, because items are not "+
					"persisted when `store` is set to false", i)
			}
			var sum []string
			for _, p := range it.Summary {
				sum = append(sum, p.Text)
			}
			if !s.signedBy(it.Encrypted, strings.Join(sum, "\n\n")) {
				return no("The encrypted content for item %s could not be verified.", it.ID)
			}
			if i+1 == len(req.Input) || req.Input[i+1].Type != "function_call" && req.Input[i+1].Role != "assistant" &&
				req.Input[i+1].Type != "reasoning" {
				return no("Item '%s' of type 'reasoning' was provided without its required following item.", it.ID)
			}
			continue
		case "function_call":
			var args map[string]any
			switch {
			case it.CallID == "" || len(it.CallID) > 64 || calls[it.CallID]:
				return no("Invalid 'input[%d].call_id': %q", i, it.CallID)
			case it.Arguments == nil || json.Unmarshal([]byte(*it.Arguments), &args) != nil:
				return no("Invalid 'input[%d].arguments': not a JSON object", i)
			case !plain(it.Name, 64):
				return no("Invalid 'input[%d].name': %q", i, it.Name)
			}
			calls[it.CallID] = true
			text = it.Name + " " + *it.Arguments
		case "function_call_output":
			if !calls[it.CallID] {
				return no("No tool call found for function call output with call_id %s.", it.CallID)
			}
			if answered[it.CallID] {
				return no("Duplicate function call output for call_id %s.", it.CallID)
			}
			answered[it.CallID] = true
			if json.Unmarshal(it.Output, &text) != nil {
				var why string
				if text, why = responsesContent(it.Output, "input_text input_image input_file"); why != "" {
					return no("Invalid 'input[%d].output': %s", i, why)
				}
			}
		default:
			return no("Invalid value: %q for input[%d].type", it.Type, i)
		}
		if it.Type == "function_call_output" || it.Role == "user" {
			if lastUser == i-1 && lastUser >= 0 {
				text = v.last + "\n" + text
			}
			v.last, lastUser = text, i
		}
		all = append(all, text)
	}
	for id := range calls {
		if !answered[id] {
			return no("No tool output found for function call %s.", id)
		}
	}
	v.texts = all
	return v, ""
}

func responsesContent(raw json.RawMessage, kinds string) (text, refusal string) {
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image string `json:"image_url"`
		Name  string `json:"filename"`
		Data  string `json:"file_data"`
	}
	if json.Unmarshal(raw, &text) == nil && strings.TrimSpace(text) != "" {
		return text, ""
	}
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return "", "expected a text or an array of parts"
	}
	var out []string
	for _, p := range parts {
		switch {
		case !slices.Contains(strings.Fields(kinds), p.Type):
			return "", fmt.Sprintf("invalid value: %q. Supported values are: %s", p.Type, kinds)
		case strings.HasSuffix(p.Type, "_text") && strings.TrimSpace(p.Text) == "":
			return "", "text is empty"
		case p.Type == "input_image" && !dataURL(p.Image, "image/"):
			return "", "image_url"
		case p.Type == "input_file" && (p.Name == "" || !dataURL(p.Data, "application/pdf")):
			return "", "file_data"
		}
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n"), ""
}

func (responsesFormat) frames(s *Server, a *Answer) []string {
	var out []string
	seq := 0
	add := func(name string, data object) {
		data["type"], data["sequence_number"] = name, seq
		seq++
		out = append(out, sse(name, data))
	}
	response := func(status string) object {
		return object{"id": "resp_test", "object": "response", "status": status, "model": "gpt-test", "output": []any{},
			"error": nil, "incomplete_details": nil, "usage": nil}
	}
	add("response.created", object{"response": response("in_progress")})
	index := 0
	items := []object{} // of the whole answer
	done := func(item object) {
		add("response.output_item.done", object{"output_index": index, "item": item})
		items = append(items, item)
		index++
	}
	if a.Thinking != "" {
		id := fmt.Sprintf("rs_%d", index)
		add("response.output_item.added", object{"output_index": index, "item": object{"type": "reasoning", "id": id,
			"summary": []any{}}})
		add("response.reasoning_summary_part.added", object{"item_id": id, "output_index": index, "summary_index": 0,
			"part": object{"type": "summary_text", "text": ""}})
		for _, p := range pieces(a.Thinking, a.Piece) {
			add("response.reasoning_summary_text.delta", object{"item_id": id, "output_index": index, "summary_index": 0,
				"delta": p})
		}
		done(object{"type": "reasoning", "id": id, "summary": []object{{"type": "summary_text", "text": a.Thinking}},
			"encrypted_content": s.signature(a.Thinking), "status": "completed"})
	}
	annotations := []object{}
	if len(a.Found) > 0 {
		var pages []object
		for _, f := range a.Found {
			pages = append(pages, object{"type": "url", "url": f.URL})
			if f.Title != "" {
				annotations = append(annotations, object{"type": "url_citation", "url": f.URL, "title": f.Title, "start_index": 0,
					"end_index": 1})
			}
		}
		it := object{"type": "web_search_call", "id": "ws_test", "status": "completed",
			"action": object{"type": "search", "query": "x", "sources": pages}}
		add("response.output_item.added", object{"output_index": index, "item": it})
		add("response.web_search_call.completed", object{"output_index": index, "item_id": "ws_test"})
		add("response.output_item.done", object{"output_index": index, "item": it})
		index++
	}
	if a.Text != "" {
		id := fmt.Sprintf("msg_%d", index)
		add("response.output_item.added", object{"output_index": index,
			"item": object{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []any{}}})
		add("response.content_part.added", object{"item_id": id, "output_index": index, "content_index": 0,
			"part": object{"type": "output_text", "text": "", "annotations": []any{}}})
		for _, p := range pieces(a.Text, a.Piece) {
			add("response.output_text.delta", object{"item_id": id, "output_index": index, "content_index": 0, "delta": p})
		}
		phase := "final_answer"
		if len(a.Calls) > 0 {
			phase = "commentary"
		}
		part := object{"type": "output_text", "text": a.Text, "annotations": annotations}
		add("response.content_part.done", object{"item_id": id, "output_index": index, "content_index": 0, "part": part})
		done(object{"type": "message", "id": id, "role": "assistant", "status": "completed", "phase": phase,
			"content": []object{part}})
	}
	for _, c := range a.Calls {
		id := fmt.Sprintf("fc_%d", index)
		it := object{"type": "function_call", "id": id, "call_id": c.ID, "name": c.Name, "arguments": "",
			"status": "in_progress"}
		add("response.output_item.added", object{"output_index": index, "item": it})
		for _, p := range pieces(string(c.json()), a.Piece) {
			add("response.function_call_arguments.delta", object{"item_id": id, "output_index": index, "delta": p})
		}
		done(object{"type": "function_call", "id": id, "call_id": c.ID, "name": c.Name, "arguments": string(c.json()),
			"status": "completed"})
	}
	u := a.Usage
	end, name := response("completed"), "response.completed"
	switch a.Stop {
	case llm.MaxTokens:
		end, name = response("incomplete"), "response.incomplete"
		end["incomplete_details"] = object{"reason": "max_output_tokens"}
	case llm.Refusal:
		end, name = response("incomplete"), "response.incomplete"
		end["incomplete_details"] = object{"reason": "content_filter"}
	}
	end["output"] = items
	end["usage"] = object{
		"input_tokens": u.Input + u.CacheRead + u.CacheWrite, "input_tokens_details": object{"cached_tokens": u.CacheRead,
			"cache_write_tokens": u.CacheWrite}, "output_tokens": u.Output,
		"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": u.Input + u.CacheRead + u.CacheWrite +
			u.Output,
	}
	add(name, object{"response": end})
	return out
}
