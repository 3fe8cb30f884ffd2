package llmtest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestStrict: the servers refuse what the vendors refuse. Each body has one mistake; `good` has none, so that the
// others fail for their own reason.
func TestStrict(t *testing.T) {
	const (
		aCall = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{}}]}`
		aHi   = `{"role":"user","content":[{"type":"text","text":"hi"}]}`
		cCall = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]}`
		cHi   = `{"role":"user","content":"hi"}`
		rCall = `{"type":"function_call","call_id":"a","name":"ls","arguments":"{}"}`
		rHi   = `{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}`
		gCall = `{"role":"model","parts":[{"functionCall":{"name":"ls","args":{}},` +
			`"thoughtSignature":"skip_thought_signature_validator"}]}`
		gResult = `{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{"output":"x"}}}]}`
		gHi     = `{"role":"user","parts":[{"text":"hi"}]}`
	)
	anthropic := func(msgs string, more string) string {
		return `{"model":"m","max_tokens":2000,"stream":true,"messages":[` + msgs + `]` + more + `}`
	}
	chat := func(msgs string, more string) string {
		return `{"model":"m","stream":true,"messages":[` + msgs + `]` + more + `}`
	}
	resp := func(in string, more string) string {
		return `{"model":"m","stream":true,"store":false,"input":[` + in + `]` + more + `}`
	}
	gem := func(c string, more string) string { return `{"contents":[` + c + `]` + more + `}` }
	for _, f := range []struct {
		name, path, good string
		bad              map[string]string // body to a word of the refusal
	}{
		{"anthropic", "/v1/messages", anthropic(aHi, ""), map[string]string{
			anthropic(``, ""):                    "at least one message",
			anthropic(aCall, ""):                 "first message",
			anthropic(aHi+","+aCall+","+aHi, ""): "without `tool_result`",
			anthropic(aHi+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`,
				""): "unexpected `tool_use_id`",
			anthropic(aHi+","+aCall+`,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result",`+
				`"tool_use_id":"a"}]}`, ""): "must come first",
			anthropic(aHi+`,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"forged"},`+
				`{"type":"text","text":"x"}]},`+aHi, ""): "Invalid `signature`",
			anthropic(aHi+`,{"role":"assistant","content":[{"type":"tool_use","id":"a b","name":"ls","input":{}}]},`+aHi,
				""): "should match pattern",
			anthropic(aHi+`,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":"x"}]},`+aHi,
				""): "valid dictionary",
			anthropic(`{"role":"user","content":[{"type":"text","text":" "}]}`,
				""): "non-whitespace",
			anthropic(aHi+`,{"role":"assistant","content":[{"type":"text","text":"x "}]}`,
				""): "trailing whitespace",
			anthropic(aHi+","+aCall+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true}]}`,
				""): "cannot be empty if `is_error`",
			anthropic(aHi+","+strings.Replace(aCall, `"ls"`, `"l.s"`, 1)+`,{"role":"user","content":[{"type":"tool_result",`+
				`"tool_use_id":"a"}]}`, ""): "tool_use.name",
			anthropic(`{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain",`+
				`"data":""}}]}`, ""): "source",
			anthropic(`{"role":"user","content":[{"type":"text","text":"\ud83d"}]}`, ""):          "no low surrogate",
			anthropic(aHi, `,"tools":[{"name":"a b","input_schema":{"type":"object"}}]`):          "pattern",
			anthropic(aHi, `,"tools":[{"name":"a","input_schema":{"type":"string"}}]`):            "'object'",
			anthropic(aHi, `,"tools":[{"name":"a","input_schema":{"type":"object","oneOf":[]}}]`): "oneOf",
			anthropic(aHi, `,"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a",`+
				`"input_schema":{"type":"object"}}]`): "unique",
			anthropic(aHi, `,"thinking":{"type":"enabled","budget_tokens":3000}`): "must be greater than",
			anthropic(aHi, `,"thinking":{"type":"enabled","budget_tokens":10}`):   "1024",
			anthropic(aHi+","+aCall+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`,
				`,"thinking":{"type":"enabled","budget_tokens":1500}`): "must start with a thinking block",
			anthropic(aHi, `,"temprature":1`): "unknown field",
			anthropic(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/bmp",`+
				`"data":"eA=="}}]}`, ""): "media_type",
			anthropic(aHi+","+aCall+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,`+
				`"content":[{"type":"image","source":{"type":"base64","media_type":"image/png",`+
				`"data":"eA=="}}]}]}`, ""): "must be type",
		}},
		{"chat", "/v1/chat/completions", chat(cHi, ""), map[string]string{
			chat("", ""):                    "empty array",
			chat(cHi+","+cCall+","+cHi, ""): "must be followed by tool messages",
			chat(cHi+","+cCall, ""):         "must be followed by tool messages",
			chat(cHi+`,{"role":"tool","tool_call_id":"a","content":"x"}`,
				""): "must be a response to a " +
				"preceding",
			chat(cHi+`,{"role":"assistant"}`,
				""): "content or tool_calls",
			chat(`{"role":"tool_call","content":""}`,
				""): "role",
			chat(cHi, `,"tools":[{"type":"function","function":{"name":"a b","parameters":{"type":"object"}}}]`): "name",
			chat(cHi, `,"tools":[{"type":"function","function":{"name":"a",`+
				`"parameters":{"type":"array"}}}]`): "Invalid schema",
			chat(cHi, `,"reasoning_effort":"huge"`):                           "reasoning_effort",
			chat(`{"role":"user","content":[{"type":"text","text":""}]}`, ""): "part text",
			chat(`{"role":"user","content":"\udc00"}`, ""):                    "no low surrogate",
			chat(cHi+","+strings.Replace(cCall, `"ls"`, `"l s"`, 1)+`,{"role":"tool","tool_call_id":"a","content":"x"}`,
				""): "name",
			chat(cHi+","+cCall+`,{"role":"tool","tool_call_id":"a","content":[{"type":"image_url",`+
				`"image_url":{"url":"data:image/png;base64,eA=="}}]}`, ""): "only allowed in user",
		}},
		{"responses", "/v1/responses", resp(rHi, ""), map[string]string{
			resp("", ""):            "empty array",
			resp(rHi+","+rCall, ""): "No tool output found",
			resp(rHi+`,{"type":"function_call_output","call_id":"a","output":"x"}`, ""): "No tool call found",
			resp(rHi+`,{"type":"reasoning","id":"r","summary":[],"encrypted_content":"forged"},`+rHi,
				""): "could not be verified",
			resp(rHi+`,{"type":"reasoning","id":"r","summary":[]},`+rHi, ""):                           "encrypted_content",
			resp(`{"type":"message","role":"user","content":[{"type":"output_text","text":"x"}]}`, ""): "Supported values",
			resp(rHi, `,"tools":[{"type":"function","name":"a","parameters":{"type":"string"}}]`):      "Invalid schema",
			resp(`{"type":"message","role":"user","phase":"commentary","content":[{"type":"input_text","text":"x"}]}`,
				""): "phase",
			resp(`{"type":"message","role":"user","content":[{"type":"input_text","text":""}]}`, ""): "text is empty",
			resp(rHi, `,"max_output_tokens":3`):                 "16",
			`{"model":"m","stream":true,"input":[` + rHi + `]}`: "store",
		}},
		{"gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", gem(gHi, ""), map[string]string{
			gem("", ""):                    "contents is not specified",
			gem(gHi+","+gCall+","+gHi, ""): "equal to the number of function call parts",
			gem(gHi+","+gResult, ""):       "equal to the number",
			gem(gCall+","+gResult, ""):     "immediately after a user turn",
			gem(gHi+`,{"role":"model","parts":[{"functionCall":{"name":"ls","args":{}}}]},`+gResult,
				""): "missing a thought_signature",
			gem(gHi+`,{"role":"model","parts":[{"functionCall":{"name":"ls","args":{}},"thoughtSignature":"eA=="}]},`+gResult,
				""): "Corrupted",
			gem(`{"role":"assistant","parts":[{"text":"x"}]}`,
				""): "valid role",
			gem(`{"role":"user","parts":[]}`,
				""): "must not be empty",
			gem(`{"role":"user","parts":[{"text":""}]}`,
				""): "oneof",
			gem(gHi+`,{"role":"model","parts":[{"text":"x"}]}`, ""):                                "end with a user turn",
			gem(gHi+","+gCall+`,{"role":"user","parts":[{"functionResponse":{"name":"ls"}}]}`, ""): "response: required",
			gem(gHi, `,"tools":[{"functionDeclarations":[{"name":"1a"}]}]`):                        "function name",
			gem(gHi, `,"tools":[{"functionDeclarations":[{"name":"a",`+
				`"parametersJsonSchema":{"type":"object","$schema":"x"}}]}]`): "Unknown name",
			gem(gHi, `,"tools":[{"functionDeclarations":[{"name":"a","parametersJsonSchema":{"type":"object",`+
				`"properties":{"p":{"type":"string","pattern":"x"}}}}]}]`): "Unknown name",
			gem(gHi, `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"low","thinkingBudget":5}}`): "only one",
		}},
	} {
		s := llmtest.NewServer(llmtest.Reply("yes"))
		post := func(body string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+f.path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range map[string]string{"Content-Type": "application/json", "Anthropic-Version": "2023-06-01",
				"X-Api-Key": llmtest.Key, "X-Goog-Api-Key": llmtest.Key} {
				req.Header.Set(k, v)
			}
			if strings.HasPrefix(f.name, "chat") || f.name == "responses" {
				req.Header.Set("Authorization", "Bearer "+llmtest.Key)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(data)
		}
		for body, word := range f.bad {
			status, text := post(body)
			plain := strings.NewReplacer(`\"`, `"`, `\u003e`, ">", `\u0026`, "&").Replace(text)
			if status != 400 || !strings.Contains(plain, word) {
				t.Errorf("%s: %s\n%d %s\nwant %q", f.name, body, status, plain, word)
			}
		}
		if status, text := post(f.good); status != 200 || !strings.Contains(text, "yes") {
			t.Errorf("%s: %s\n%d %s", f.name, f.good, status, text)
		}
		if n := len(s.Refused()); n != len(f.bad) {
			t.Errorf("%s: %d refused", f.name, n)
		}
		s.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestScript: the package's model fulfils its contract.
func TestScript(t *testing.T) {
	m := llmtest.New(
		llmtest.Answer{When: "second", Text: "2"},
		llmtest.Answer{Take: map[string]string{"x": "say (.*)"}, Text: "${x}",
			Calls: []llmtest.Call{{Name: "ls", Input: map[string]any{"p": []string{"${x}"}}}}},
		llmtest.Answer{Want: []string{"never"}},
	)
	req := func(s string) *llm.Request { return &llm.Request{Messages: []llm.Message{user(llm.Text(s))}} }
	if a := ask(t.Context(), m, req("say hello")); a.text != "hello" || len(a.calls) != 1 ||
		a.calls[0] != `ls{"p":["hello"]}` {
		t.Errorf("%+v", a)
	}
	if a := ask(t.Context(), m, req("the second")); a.text != "2" {
		t.Errorf("%+v", a)
	}
	if a := ask(t.Context(), m, req("x")); a.err == nil ||
		!strings.Contains(a.err.Error(), `answer 3: the request does not match "never"`) {
		t.Errorf("%+v", a)
	}
	if a := ask(t.Context(), m, req("x")); a.err == nil || m.Left() != 0 || len(m.Requests()) != 4 {
		t.Errorf("%+v, %d left", a, m.Left())
	}
}
