package llmtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestWhole: a request that does not stream gets what a stream would have brought, in one piece.
func TestWhole(t *testing.T) {
	const long = "a text of several pieces"
	for _, x := range []struct {
		path, body string
		want       []string
	}{
		{"/v1/messages", `{"model":"m","max_tokens":2000,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
			[]string{`"text":"` + long + `"`, `"thinking":"a thought of several pieces"`, `"signature":"`,
				`"input":{"path":"a long name of a file"},"name":"read"`, `"name":"ls","type":"tool_use"`,
				`"stop_reason":"tool_use"`, `"output_tokens":7`, `"input_tokens":5`}},
		{"/v1/responses", `{"model":"m","store":false,"input":[{"type":"message","role":"user","content":"hi"}]}`,
			[]string{`"text":"` + long + `"`, `"arguments":"{\"path\":\"a long name of a file\"}"`, `"name":"ls"`,
				`"status":"completed"`, `"output_tokens":7`}},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
			[]string{`"content":"` + long + `"`, `"reasoning_content":"a thought of several pieces"`,
				`"arguments":"{\"path\":\"a long name of a file\"}","name":"read"`, `"name":"ls"`,
				`"finish_reason":"tool_calls"`, `"object":"chat.completion"`, `"completion_tokens":7`}},
		{"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
			[]string{`{"text":"a thought of several pieces","thought":true},{"text":"` + long + `"}`,
				`"args":{"path":"a long name of a file"}`, `"name":"ls"}}],"role"`, `"thoughtSignature":"`, `"finishReason":"STOP"`,
				`"candidatesTokenCount":7`}},
	} {
		s := llmtest.NewServer(llmtest.Answer{Thinking: "a thought of several pieces", Text: long,
			Calls: []llmtest.Call{{Name: "read", Input: map[string]any{"path": "a long name of a file"}}, {Name: "ls",
				Input: map[string]any{}}}, Usage: llm.Usage{Input: 5, Output: 7}})
		req, err := http.NewRequest(http.MethodPost, s.URL+x.path, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + llmtest.Key,
			"X-Goog-Api-Key": llmtest.Key, "Anthropic-Version": "2023-06-01"} {
			req.Header.Set(k, v)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != 200 || !json.Valid(got) || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v %s", x.path, r.StatusCode, err, got)
		}
		for _, want := range x.want {
			if !strings.Contains(string(got), want) {
				t.Errorf("%s: %s is missing in\n%s", x.path, want, got)
			}
		}
		s.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}
