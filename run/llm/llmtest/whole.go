package llmtest

import (
	"encoding/json"
	"strings"
)

// whole joins the frames of a stream into the answer to a request that does not stream.
func whole(frames []string) string {
	w := wholeAnswer{out: map[string]any{}}
	for _, f := range frames {
		_, data, _ := strings.Cut(f, "data: ")
		var e map[string]any
		if json.Unmarshal([]byte(data), &e) == nil { // not the [DONE] of Chat Completions
			w.add(e)
		}
	}
	data, _ := json.Marshal(w.out)
	return string(data)
}

// A wholeAnswer is an answer so far, as JSON in Go's types.
type wholeAnswer struct {
	out   map[string]any
	block map[string]any // the last block or part
	input string         // JSON of its input
}

func (w *wholeAnswer) add(e map[string]any) {
	switch kind, _ := e["type"].(string); kind {
	case "response.completed", "response.incomplete":
		w.out = e["response"].(map[string]any)
	case "message_start":
		w.out = e["message"].(map[string]any)
	case "content_block_start":
		w.block, w.input = e["content_block"].(map[string]any), ""
		w.out["content"] = append(w.out["content"].([]any), w.block)
	case "content_block_delta":
		w.delta(e["delta"].(map[string]any))
	case "message_delta":
		for k, v := range e["delta"].(map[string]any) {
			w.out[k] = v
		}
		for k, v := range e["usage"].(map[string]any) {
			w.out["usage"].(map[string]any)[k] = v
		}
	case "":
		if e["object"] == "chat.completion.chunk" {
			w.chat(e)
		} else {
			w.gemini(e)
		}
	}
}

// delta adds to a block of Anthropic's.
func (w *wholeAnswer) delta(d map[string]any) {
	switch d["type"] {
	case "input_json_delta":
		w.input += d["partial_json"].(string)
		var input any
		if json.Unmarshal([]byte(w.input), &input) == nil {
			w.block["input"] = input
		}
	case "citations_delta":
		cited, _ := w.block["citations"].([]any)
		w.block["citations"] = append(cited, d["citation"])
	default:
		appendText(w.block, d, "text", "thinking", "signature")
	}
}

// chat adds a chunk of Chat Completions.
func (w *wholeAnswer) chat(e map[string]any) {
	choices := e["choices"].([]any)
	if len(choices) == 0 {
		w.out["usage"] = e["usage"]
		return
	}
	c := choices[0].(map[string]any)
	d := c["delta"].(map[string]any)
	if w.block == nil {
		w.block, w.out = d, e
		e["object"], c["message"] = "chat.completion", d
		delete(c, "delta")
		return
	}
	appendText(w.block, d, "content", "reasoning_content")
	w.out["choices"].([]any)[0].(map[string]any)["finish_reason"] = c["finish_reason"]
	calls, _ := d["tool_calls"].([]any)
	for _, call := range calls {
		call := call.(map[string]any)
		all, _ := w.block["tool_calls"].([]any)
		if call["id"] != nil {
			w.block["tool_calls"] = append(all, call)
			continue
		}
		last := all[len(all)-1].(map[string]any)
		appendText(last["function"].(map[string]any), call["function"].(map[string]any), "arguments")
	}
}

// gemini adds a piece of an answer of Gemini's. Texts of one kind are one part.
func (w *wholeAnswer) gemini(e map[string]any) {
	c := e["candidates"].([]any)[0].(map[string]any)
	content, _ := c["content"].(map[string]any)
	delete(c, "content")
	first, _ := w.out["candidates"].([]any)
	if first == nil {
		first = []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{}}}}
	}
	for k, v := range e {
		w.out[k] = v
	}
	w.out["candidates"] = first
	all := first[0].(map[string]any)
	for k, v := range c {
		all[k] = v
	}
	parts, _ := content["parts"].([]any)
	for _, p := range parts {
		part := p.(map[string]any)
		if w.block != nil && w.block["text"] != nil && part["text"] != nil && w.block["thought"] == part["thought"] {
			appendText(w.block, part, "text", "thoughtSignature")
			continue
		}
		kept := all["content"].(map[string]any)
		have := kept["parts"].([]any)
		if len(have) > 0 && part["text"] == "" && part["thoughtSignature"] == nil { // only a stream ends with one
			continue
		}
		w.block = part
		kept["parts"] = append(have, part)
	}
}

// appendText appends the texts of from with these keys to those of to.
func appendText(to, from map[string]any, keys ...string) {
	for _, k := range keys {
		if more, ok := from[k].(string); ok {
			have, _ := to[k].(string)
			to[k] = have + more
		}
	}
}
