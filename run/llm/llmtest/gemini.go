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

// geminiFormat is the format of Gemini's streamGenerateContent.
type geminiFormat struct{}

type geminiRequest struct {
	System *struct {
		Parts []geminiPart `json:"parts"`
	} `json:"systemInstruction"`
	Contents []geminiContent `json:"contents"`
	Tools    []struct {
		Functions []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
		Search *struct{} `json:"googleSearch"`
	} `json:"tools"`
	Config *struct {
		MaxOutputTokens int `json:"maxOutputTokens"`
		Thinking        *struct {
			Include bool   `json:"includeThoughts"`
			Level   string `json:"thinkingLevel"`
			Budget  int    `json:"thinkingBudget"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      string `json:"text"`
	Thought   bool   `json:"thought"`
	Signature string `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string         `json:"id"`
		Name     string         `json:"name"`
		Response map[string]any `json:"response"`
		Parts    []geminiPart   `json:"parts"`
	} `json:"functionResponse"`
	Inline *struct {
		MIME string `json:"mimeType"`
		Data string `json:"data"`
	} `json:"inlineData"`
}

func (geminiFormat) fail(status int, kind llm.ErrorKind, message string) []byte {
	word := map[llm.ErrorKind]string{
		llm.Auth: "UNAUTHENTICATED", llm.RateLimit: "RESOURCE_EXHAUSTED", llm.Overloaded: "UNAVAILABLE",
		llm.Server: "INTERNAL", llm.Broken: "INTERNAL",
	}[kind]
	if word == "" {
		word = "INVALID_ARGUMENT"
	}
	if kind == llm.Overflow && message == "" {
		message = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
	}
	data, _ := json.Marshal(object{"error": object{"code": status, "message": message, "status": word}})
	return data
}

func (geminiFormat) check(s *Server, r *http.Request, body []byte) (v requestText, refusal string) {
	no := func(format string, args ...any) (requestText, string) {
		return requestText{}, fmt.Sprintf(format, args...)
	}
	if strings.HasSuffix(r.URL.Path, ":streamGenerateContent") && r.URL.Query().Get("alt") != "sse" {
		return no("alt: this server streams events")
	}
	var req geminiRequest
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return no("Invalid JSON payload received. %v", err)
	}
	if len(req.Contents) == 0 {
		return no("* GenerateContentRequest.contents: contents is not specified")
	}
	if c := req.Config; c != nil && c.Thinking != nil {
		t := c.Thinking
		if t.Level != "" && t.Budget != 0 {
			return no("You can only set only one of thinking budget and thinking level.")
		}
		if t.Level != "" && !slices.Contains([]string{"minimal", "low", "medium", "high"}, strings.ToLower(t.Level)) {
			return no("Invalid value at 'generation_config.thinking_config.thinking_level': %q", t.Level)
		}
	}
	var all []string
	if req.System != nil {
		for _, p := range req.System.Parts {
			all = append(all, p.Text)
		}
	}
	for _, t := range req.Tools {
		if t.Search != nil {
			all = append(all, "googleSearch")
		}
		for i, f := range t.Functions {
			if !geminiName(f.Name) {
				return no("* GenerateContentRequest.tools[0].function_declarations[%d].name: Invalid function name. Must start "+
					"with a letter or an underscore", i)
			}
			if why := geminiSchema(f.Schema); why != "" {
				return no("* GenerateContentRequest.tools[0].function_declarations[%d].parameters_json_schema: %s", i, why)
			}
			all = append(all, f.Name, f.Description)
		}
	}
	turn := 0 // where the current turn starts: the last content written by the user
	for i, c := range req.Contents {
		if c.Role == "user" && !slices.ContainsFunc(c.Parts, func(p geminiPart) bool { return p.Response != nil }) {
			turn = i
		}
	}
	var open []string // names of the previous content's calls
	for i, c := range req.Contents {
		if c.Role != "user" && c.Role != "model" {
			return no("Please use a valid role: user, model.")
		}
		if len(c.Parts) == 0 {
			return no("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
		}
		var text, calls, answers []string
		for j, p := range c.Parts {
			set := 0
			for _, is := range []bool{p.Text != "", p.Call != nil, p.Response != nil, p.Inline != nil} {
				if is {
					set++
				}
			}
			if set != 1 {
				return no("* GenerateContentRequest.contents[%d].parts[%d].data: required oneof field 'data' must have one "+
					"initialized field", i, j)
			}
			if p.Signature != "" && p.Signature != "skip_thought_signature_validator" && !s.signedBy(p.Signature, "") {
				return no("Corrupted thought signature.")
			}
			switch {
			case p.Call != nil:
				if c.Role != "model" || len(p.Call.Args) == 0 || p.Call.Args[0] != '{' || !geminiName(p.Call.Name) {
					return no("contents[%d].parts[%d].function_call is not valid", i, j)
				}
				if len(calls) == 0 && p.Signature == "" && i > turn {
					return no("Function call is missing a thought_signature in functionCall parts. This is required for tools to "+
						"work correctly. Function call `%s`, position %d", p.Call.Name, j)
				}
				calls = append(calls, p.Call.Name)
				text = append(text, p.Call.Name+" "+string(p.Call.Args))
			case p.Response != nil:
				if p.Response.Response == nil {
					return no("contents[%d].parts[%d].function_response.response: required", i, j)
				}
				if c.Role != "user" {
					return no("contents[%d].parts[%d]: function_response in a turn of the model", i, j)
				}
				answers = append(answers, p.Response.Name)
				for _, k := range []string{"output", "error"} {
					if t, ok := p.Response.Response[k].(string); ok {
						if strings.TrimSpace(t) == "" && len(p.Response.Parts) == 0 {
							return no("contents[%d].parts[%d].function_response.response: must not be blank", i, j)
						}
						text = append(text, t)
					}
				}
				for _, q := range p.Response.Parts {
					if why := geminiInline(q); why != "" {
						return no("contents[%d].parts[%d].function_response: %s", i, j, why)
					}
				}
			case p.Inline != nil:
				if why := geminiInline(p); why != "" {
					return no("contents[%d].parts[%d]: %s", i, j, why)
				}
			default:
				text = append(text, p.Text)
			}
		}
		if (len(open) > 0 || len(answers) > 0) && !slices.Equal(open, answers) {
			return no("Please ensure that the number of function response parts is equal to the number of function call " +
				"parts of the function call turn.")
		}
		if len(calls) > 0 && (i == 0 || req.Contents[i-1].Role != "user") {
			return no("Please ensure that function call turn comes immediately after a user turn or after a function " +
				"response turn.")
		}
		open = calls
		if c.Role == "user" {
			v.last = strings.Join(text, "\n")
		}
		all = append(all, text...)
	}
	if len(open) > 0 {
		return no("Please ensure that the number of function response parts is equal to the number of function call parts " +
			"of the function call turn.")
	}
	if req.Contents[len(req.Contents)-1].Role != "user" {
		return no("Please ensure that multiturn requests end with a user turn or a function response.")
	}
	v.texts = all
	return v, ""
}

func geminiName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsAny(s[:1], "0123456789.:-") &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-") == ""
}

func geminiInline(p geminiPart) string {
	if p.Inline == nil {
		return "inline_data is missing"
	}
	if !strings.HasPrefix(p.Inline.MIME, "image/") && p.Inline.MIME != "application/pdf" {
		return "Unsupported MIME type: " + p.Inline.MIME
	}
	if data, err := base64.StdEncoding.DecodeString(p.Inline.Data); err != nil || len(data) == 0 {
		return "inline_data.data is not base64"
	}
	return ""
}

// geminiSchema explains why Gemini would reject a schema, such as an unknown keyword; "" if it
// would not.
func geminiSchema(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var root map[string]any
	if json.Unmarshal(raw, &root) != nil || root["type"] != "object" {
		return "parameters schema should be of type OBJECT"
	}
	return geminiKeywords(root)
}

func geminiKeywords(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	for k, v := range m {
		switch k {
		case "$id", "$ref", "$anchor", "type", "format", "title", "description", "enum", "minItems", "maxItems", "minimum",
			"maximum", "required":
		case "properties", "$defs":
			named, _ := v.(map[string]any)
			for _, s := range named {
				if why := geminiKeywords(s); why != "" {
					return why
				}
			}
		case "items", "additionalProperties":
			if why := geminiKeywords(v); why != "" {
				return why
			}
		case "anyOf", "oneOf", "prefixItems":
			list, _ := v.([]any)
			for _, s := range list {
				if why := geminiKeywords(s); why != "" {
					return why
				}
			}
		default:
			return fmt.Sprintf("Unknown name %q: Cannot find field.", k)
		}
	}
	return ""
}

func (geminiFormat) frames(s *Server, a *Answer) []string {
	var out []string
	add := func(p object, finish string, usage object) {
		c := object{"index": 0, "content": object{"role": "model", "parts": []object{p}}}
		if p == nil {
			delete(c, "content")
		}
		if finish != "" {
			c["finishReason"] = finish
		}
		chunk := object{"candidates": []object{c}, "modelVersion": "gemini-test", "responseId": "test"}
		if usage != nil {
			chunk["usageMetadata"] = usage
		}
		out = append(out, sse("", chunk))
	}
	for _, p := range pieces(a.Thinking, a.Piece) {
		add(object{"text": p, "thought": true}, "", nil)
	}
	for _, p := range pieces(a.Text, a.Piece) {
		add(object{"text": p}, "", nil)
	}
	for i, c := range a.Calls {
		var args any
		if json.Unmarshal(c.json(), &args) != nil {
			// This format cannot transport invalid JSON: the vendor reports it instead.
			add(nil, "MALFORMED_FUNCTION_CALL", nil)
			return out
		}
		p := object{"functionCall": object{"id": c.ID, "name": c.Name, "args": args}}
		if i == 0 { // only the first of parallel calls has the signature
			sig := base64.StdEncoding.EncodeToString([]byte("signature of " + c.ID))
			s.mu.Lock()
			s.signed[sig+"\x00"] = true
			s.mu.Unlock()
			p["thoughtSignature"] = sig
		}
		add(p, "", nil)
	}
	if len(a.Calls) == 0 && a.Thinking != "" { // the signature of a text comes at its end
		sig := base64.StdEncoding.EncodeToString([]byte("signature of " + a.Thinking))
		s.mu.Lock()
		s.signed[sig+"\x00"] = true
		s.mu.Unlock()
		add(object{"text": "", "thoughtSignature": sig}, "", nil)
	}
	if len(a.Found) > 0 {
		var chunks, supports []object
		for i, f := range a.Found {
			chunks = append(chunks, object{"web": object{"uri": f.URL, "title": f.Site}})
			if f.Text != "" {
				supports = append(supports, object{"segment": object{"startIndex": 0, "endIndex": 1, "text": f.Text},
					"groundingChunkIndices": []int{i}})
			}
		}
		out = append(out, sse("", object{"modelVersion": "gemini-test", "candidates": []object{{"index": 0,
			"groundingMetadata": object{"webSearchQueries": []string{"x"}, "groundingChunks": chunks,
				"groundingSupports": supports}}}}))
	}
	u := a.Usage
	finish := map[llm.StopReason]string{llm.EndTurn: "STOP", llm.ToolUse: "STOP", llm.MaxTokens: "MAX_TOKENS",
		llm.Refusal: "SAFETY"}[a.Stop]
	end := object{"text": ""} // the last piece is empty, not missing: the vendor's library forgets a turn without one
	if a.Stop == llm.Refusal {
		end = nil
	}
	add(end, finish, object{"promptTokenCount": u.Input + u.CacheRead + u.CacheWrite,
		"cachedContentTokenCount": u.CacheRead, "candidatesTokenCount": u.Output, "totalTokenCount": u.Input + u.CacheRead +
			u.CacheWrite + u.Output})
	return out
}
