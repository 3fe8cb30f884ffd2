package google_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/llm/google"
)

// ask sends one request to a server that answers with status and body. It returns the events of the stream as one
// line each, the answer and the request.
func ask(t *testing.T, status int, body string, req *llm.Request) (events string, done *llm.Response, sent string,
	err error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		sent = r.URL.String() + " " + r.Header.Get("X-Goog-Api-Key") + " " + string(data)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	defer s.Close()
	m := google.New(llm.Endpoint{Name: "m", BaseURL: s.URL + "/v1beta/", Key: "sk-secret",
		Info: llm.Info{ID: "test/m", Thinking: true, Window: 1000}})
	var b strings.Builder
	for ev, e := range m.Stream(t.Context(), req) {
		switch {
		case e != nil:
			err = e
		case ev.Call != nil:
			fmt.Fprintf(&b, "call %s %s %s\n", ev.Call.ID, ev.Call.Name, ev.Call.Input)
		case ev.Done != nil:
			done = ev.Done
			u := done.Usage
			fmt.Fprintf(&b, "%s %s in %d out %d read %d write %d\n", done.Stop, done.Model, u.Input, u.Output, u.CacheRead,
				u.CacheWrite)
		case ev.Thinking != "":
			fmt.Fprintf(&b, "thinking %q\n", ev.Thinking)
		default:
			fmt.Fprintf(&b, "text %q\n", ev.Text)
		}
	}
	return b.String(), done, sent, err
}

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.User, Parts: parts} }

func hello() *llm.Request { return &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}} }

// sse makes a stream from JSON objects, one per line.
func sse(lines string) string {
	return "data: " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\r\n\r\ndata: ") + "\r\n\r\n"
}

func TestStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		body   string // the events of the stream, one per line
		events string
		kind   llm.ErrorKind // "" if the stream ends without an error
	}{
		{"thinking, text, usage", `
{"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true}]}}],"usageMetadata":{"promptTokenCount":30},"modelVersion":"m-1"}
{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}
{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":30,"cachedContentTokenCount":20,"toolUsePromptTokenCount":2,"candidatesTokenCount":4,"thoughtsTokenCount":3}}`, `
thinking "Hm."
text "Hel"
text "lo"
end_turn m-1 in 12 out 7 read 20 write 0
`, ""},
		{"more cached than sent",
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"cachedContentTokenCount":9}}`,
			"end_turn  in 0 out 0 read 9 write 0\n", ""},
		{"parallel calls over chunks", `
{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"read","args":{"path":"é.txt"}},"thoughtSignature":"SIG"}]}}]}
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
		t.Run(c.name, func(t *testing.T) {
			events, done, _, err := ask(t, http.StatusOK, sse(c.body), hello())
			events = regexp.MustCompile(`call_[A-Z2-7]{20,}`).ReplaceAllString(events, "call_?")
			if want := strings.TrimPrefix(c.events, "\n"); events != want {
				t.Errorf("events:\n%swant:\n%s", events, want)
			}
			var e *llm.Error
			switch {
			case c.kind == "" && (err != nil || done == nil):
				t.Errorf("error %v, answer %v", err, done)
			case c.kind != "" && (!errors.As(err, &e) || e.Kind != c.kind || done != nil):
				t.Errorf("error %v, answer %v; want the kind %q and no answer", err, done, c.kind)
			}
		})
	}
}

// TestSignatures: a thought signature is sent back in its place, a call of another model gets the documented
// substitute, and thoughts themselves are not sent.
func TestSignatures(t *testing.T) {
	_, done, _, err := ask(t, http.StatusOK, sse(`
{"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true},{"text":" So.","thought":true}]}}]}
{"candidates":[{"content":{"parts":[{"text":"I will look.","thoughtSignature":"TEXT"}]}}]}
{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"ls","args":{}},"thoughtSignature":"CALL"},{"functionCall":{"id":"b","name":"ls","args":{}}}]},"finishReason":"STOP"}]}`), hello())
	if err != nil {
		t.Fatal(err)
	}
	if p := done.Message.Parts; len(p) != 5 || p[0].Thinking == nil || p[0].Thinking.Text != "Hm. So." {
		t.Errorf("parts %+v", p)
	}
	result := func(id string) llm.Part {
		return llm.Part{Result: &llm.ToolResult{ID: id, IsError: id == "b", Parts: []llm.Part{llm.Text("out")}}}
	}
	req := &llm.Request{Effort: "max", Messages: []llm.Message{
		user(llm.Text("hi")),
		{Role: llm.Assistant, Parts: []llm.Part{
			{Thinking: &llm.Thinking{Text: "of another", Opaque: "gemini:OTHER", From: "other/m"}},
			{Call: &llm.ToolCall{ID: "x", Name: "ls", Input: []byte(`{"broken`)}}}},
		user(result("x")),
		done.Message,
		user(result("a"), result("b")),
	}}
	_, _, sent, _ := ask(t, http.StatusOK, "", req)
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

// TestSchema: keywords that Gemini refuses are removed from a schema at every depth; a property may have the name of
// a keyword.
func TestSchema(t *testing.T) {
	for schema, want := range map[string]string{
		`{"$schema":"x","type":"object","properties":{"pattern":{"type":"string","pattern":"."},"k":{"const":1}}}`://
		`{"properties":{"k":{"enum":[1]},"pattern":{"type":"string"}},"type":"object"}`,
		`{"anyOf":[{"type":"string","maxLength":3},true],"items":{"not":{}},"additionalProperties":false}`://
		`{"additionalProperties":false,"anyOf":[{"type":"string"},true],"items":{}}`,
		`{"type":`: "",
	} {
		req := hello()
		req.Tools = []llm.ToolSpec{{Name: "t", Schema: []byte(schema)}}
		_, _, sent, _ := ask(t, http.StatusOK, "", req)
		full := `"functionDeclarations":[{"name":"t","parametersJsonSchema":` + want + `}]`
		if want == "" {
			full = `"functionDeclarations":[{"name":"t"}]`
		}
		if !strings.Contains(sent, full) {
			t.Errorf("%s\nsent %s\nwant %s", schema, sent, full)
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
		_, done, _, err := ask(t, c.status, c.body, hello())
		var e *llm.Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Status != c.status || done != nil {
			t.Errorf("%d %s: %#v", c.status, c.body, err)
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
