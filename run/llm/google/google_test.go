package google_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/google"
	"github.com/knack-agent/knack/run/llm/internal/wiretest"
)

func TestStream(t *testing.T) {
	for _, c := range []struct {
		name, stream, events string
		kind                 llm.ErrorKind // "": no error
	}{
		{"thinking, text, usage", `
{"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true}]}}],"usageMetadata":{"promptTokenCount":30},
 "modelVersion":"m-1"}
{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}
{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":30,
 "cachedContentTokenCount":20,"toolUsePromptTokenCount":2,"candidatesTokenCount":4,"thoughtsTokenCount":3}}`, `
thinking "Hm."
text "Hel"
text "lo"
end_turn m-1 in 12 out 7 read 20 write 0
`, ""},
		{"more cached than sent",
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"cachedContentTokenCount":9}}`,
			"end_turn  in 0 out 0 read 9 write 0\n", ""},
		{"parallel calls over chunks", `
{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"read","args":{"path":"é.txt"}},
 "thoughtSignature":"SIG"}]}}]}
{"candidates":[{"content":{"parts":[{"functionCall":{"id":"b","name":"ls"}}]},"finishReason":"STOP"}]}`, `
call a read {"path":"é.txt"}
call b ls {}
tool_use  in 0 out 0 read 0 write 0
`, ""},
		{"a call without an ID", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"ls","args":{}}}]},` +
			`"finishReason":"STOP"}]}`, `
call call_? ls {}
tool_use  in 0 out 0 read 0 write 0
`, ""},
		{"the limit", `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}]}`, `
text "a"
max_tokens  in 0 out 0 read 0 write 0
`, ""},
		{"a limit after a call", `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"ls"}}]},` +
			`"finishReason":"MAX_TOKENS"}]}`, `
call a ls {}
max_tokens  in 0 out 0 read 0 write 0
`, ""},
		{"a filtered answer", `{"candidates":[{"finishReason":"SAFETY"}]}`, "refusal  in 0 out 0 read 0 write 0\n", ""},
		{"a blocked prompt", `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`,
			"refusal  in 0 out 0 read 0 write 0\n", ""},
		{"no error", `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"error":null}`, `
text "a"
end_turn  in 0 out 0 read 0 write 0
`, ""},
		{"a call that Gemini cannot read",
			`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"no such thing"}]}`, "", llm.Broken},
		{"not JSON", `
{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}
{"candidates":[{"cont`, "text \"a\"\n", llm.Broken},
		{"JSON of another shape", `{"candidates":"none"}`, "", llm.Broken},
		{"cut off", `{"candidates":[{"content":{"parts":[{"text":"half"}]}}]}`, "text \"half\"\n", llm.Broken},
		{"cut off after a call", `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"ls"}}]}}]}`,
			"call a ls {}\n", llm.Broken},
		{"nothing", ``, "", llm.Broken},
		{"an error in the stream", `
{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}
{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, "text \"a\"\n", llm.Overloaded},
	} {
		t.Run(c.name, func(t *testing.T) { wiretest.Check(t, google.New, c.stream, c.events, c.kind) })
	}
}

// TestBreakAtEnd: an answer with a finish reason is complete, even if the connection breaks after it.
func TestBreakAtEnd(t *testing.T) {
	const text, end = "text \"a\"\n", "end_turn  in 0 out 0 read 0 write 0\n"
	for finish, want := range map[string]string{"": text, `,"finishReason":"STOP"`: text + end} {
		reply := wiretest.Stream(`{"candidates":[{"content":{"parts":[{"text":"a"}]}` + finish + `}]}`)
		reply.Breaks = true
		got := wiretest.Ask(t, google.New, reply, wiretest.Hello())
		if got.Events != want || (got.Err == nil) != (finish != "") {
			t.Errorf("with %q: %q, %v", finish, got.Events, got.Err)
		}
	}
}

// TestSignatures: a thought signature is sent back in its place, a call of another model gets the documented
// substitute, and thoughts themselves are not sent.
func TestSignatures(t *testing.T) {
	first := wiretest.Ask(t, google.New, wiretest.Stream(`
{"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true},{"text":" So.","thought":true}]}}]}
{"candidates":[{"content":{"parts":[{"text":"I will look.","thoughtSignature":"TEXT"}]}}]}
{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"ls","args":{}},"thoughtSignature":"CALL"},
 {"functionCall":{"id":"b","name":"ls","args":{}}}]},"finishReason":"STOP"}]}`), wiretest.Hello())
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	if p := first.Done.Message.Parts; len(p) != 5 || p[0].Thinking == nil || p[0].Thinking.Text != "Hm. So." {
		t.Errorf("parts %+v", p)
	}
	result := func(id string) llm.Part {
		return llm.Part{Result: &llm.ToolResult{ID: id, IsError: id == "b", Parts: []llm.Part{llm.Text("out")}}}
	}
	req := &llm.Request{Effort: "max", Messages: []llm.Message{
		wiretest.User(llm.Text("hi")),
		{Role: llm.Assistant, Parts: []llm.Part{
			{Thinking: &llm.Thinking{Text: "of another", Opaque: "gemini:OTHER", From: "other/m"}},
			{Call: &llm.ToolCall{ID: "x", Name: "ls", Input: []byte(`{"broken`)}}}},
		wiretest.User(result("x")),
		first.Done.Message,
		wiretest.User(result("a"), result("b")),
	}}
	sent := wiretest.Ask(t, google.New, wiretest.Reply{}, req).Sent
	for _, want := range []string{
		"/v1beta/models/m:streamGenerateContent?alt=sse sk-secret {",
		`{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"id":"x","name":"ls",` +
			`"args":{"not_a_json_object":"{\"broken"}}}`,
		`{"text":"I will look.","thoughtSignature":"TEXT"}`,
		`{"thoughtSignature":"CALL","functionCall":{"id":"a","name":"ls","args":{}}},{"functionCall":{"id":"b","name":"ls",` +
			`"args":{}}}`,
		`{"functionResponse":{"id":"a","name":"ls","response":{"output":"out"}}},{"functionResponse":{"id":"b","name":"ls",` +
			`"response":{"error":"out"}}}`,
		`"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"high"}`,
	} {
		if !strings.Contains(sent, want) {
			t.Errorf("not sent: %s", want)
		}
	}
	for _, no := range []string{"of another", "OTHER", "Hm."} {
		if strings.Contains(sent, no) {
			t.Errorf("%q was sent", no)
		}
	}
	if t.Failed() {
		t.Log(sent)
	}
}

// TestSchema: keywords that Gemini refuses are said in the description; a property may have the name of a keyword. A tool
// whose schema cannot be read is left out.
func TestSchema(t *testing.T) {
	for schema, want := range map[string]string{
		`{"$schema":"x","type":"object","properties":{"pattern":{"type":"string","pattern":"."},"k":{"const":1}}}`://
		`{"properties":{"k":{"enum":[1],"type":"integer"},"pattern":{"description":"(pattern: .)","type":"string"}},"type":"object"}`,
		`{"type":`: "",
	} {
		req := wiretest.Hello()
		leftOut := ""
		req.LeftOut = func(tool, _ string) { leftOut = tool }
		req.Tools = []llm.ToolSpec{{Name: "t", Schema: []byte(schema)}}
		sent := wiretest.Ask(t, google.New, wiretest.Reply{}, req).Sent
		if want != "" {
			want = `"functionDeclarations":[{"name":"t","parametersJsonSchema":` + want + `}]`
		}
		if !strings.Contains(sent, want) || strings.Contains(sent, "functionDeclarations") == (leftOut == "t") {
			t.Errorf("%s\nsent %s\nwant %s; left out %q", schema, sent, want, leftOut)
		}
	}
}

// TestRefusedRequest: an answer that is not a stream is an error with the server's message and without the key.
func TestRefusedRequest(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		kind   llm.ErrorKind
		want   string
	}{
		{400, `{"error":{"code":400,"message":"API key not valid: sk-secret","status":"INVALID_ARGUMENT",` +
			`"details":[{"reason":"API_KEY_INVALID"}]}}`, llm.Auth, "API key not valid"},
		{400, `[{"error":{"code":400,"message":"Bad field","status":"INVALID_ARGUMENT"}}]`, llm.Invalid, "Bad field"},
		{400, `{"error":{"code":400,` +
			`"message":"The input token count (9) exceeds the maximum number of tokens allowed (8)."}}`,
			llm.Overflow, "token count"},
		{404, `{"error":{"code":404,"message":"models/m is not found","status":"NOT_FOUND"}}`, llm.Invalid, "not found"},
		{429, `{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"7s"}` +
			`]}}`, llm.RateLimit, "Quota"},
		{502, `<html>Bad gateway</html>`, llm.Server, "HTTP 502"},
	} {
		a := wiretest.Ask(t, google.New, wiretest.Reply{Status: c.status, Body: c.body}, wiretest.Hello())
		var e *llm.Error
		if !errors.As(a.Err, &e) || e.Kind != c.kind || e.Status != c.status || a.Done != nil {
			t.Errorf("%d %s: %#v", c.status, c.body, a.Err)
			continue
		}
		if !strings.Contains(e.Error(), c.want) || strings.Contains(e.Error(), "secret") ||
			strings.Contains(e.Error(), "<html>") {
			t.Errorf("%d: message %q", c.status, e.Error())
		}
		if c.status == 429 && e.RetryAfter.Seconds() != 7 {
			t.Errorf("retry after %v", e.RetryAfter)
		}
	}
}
