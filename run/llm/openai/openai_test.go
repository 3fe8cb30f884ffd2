package openai_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wiretest"
	"github.com/knack-agent/knack/run/llm/openai"
)

func TestChatStream(t *testing.T) {
	for _, c := range []struct {
		name, stream, events string
		kind                 llm.ErrorKind // "": no error
	}{
		{"text and usage", `
{"model":"m-1","choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null,"error":null}
{"model":"m-1","choices":[{"delta":{"content":"Hel"}}]}
{"model":"m-1","choices":[{"delta":{"content":"lo"}}]}
{"model":"m-1","choices":[{"delta":{},"finish_reason":"stop"}]}
{"model":"m-1","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":4,
 "prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":3}}}
[DONE]`, `
text "Hel"
text "lo"
end_turn m-1 in 7 out 4 read 20 write 3
`, ""},
		{"more cached than sent", `
{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,
 "prompt_tokens_details":{"cached_tokens":9}}}
[DONE]`, `
text "a"
end_turn  in 0 out 1 read 9 write 0
`, ""},
		{"no usage and no [DONE]", `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, `
text "a"
end_turn  in 0 out 0 read 0 write 0
`, ""},
		{"parallel calls in pieces", `
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read",
 "arguments":""}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"ls",
 "arguments":"{}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"é.txt\"}"}}]}}]}
{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}
[DONE]`, `
call a read {"path":"é.txt"}
call b ls {}
tool_use  in 0 out 0 read 0 write 0
`, ""},
		{"whole calls of one index, ended with stop", `
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}},{"index":0,
 "id":"b","function":{"name":"ls","arguments":" "}}]},"finish_reason":"stop"}]}
[DONE]`, `
call a ls {}
call b ls {}
tool_use  in 0 out 0 read 0 write 0
`, ""},
		{"calls without an index", `
{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"ls","arguments":"{}"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"pwd","arguments":""}}]},
 "finish_reason":"tool_calls"}]}
[DONE]`, `
call a ls {}
call b pwd {}
tool_use  in 0 out 0 read 0 write 0
`, ""},
		{"a call cut by the limit", `
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":"}}]},
 "finish_reason":"length"}]}
[DONE]`, `
call a read {"path":
max_tokens  in 0 out 0 read 0 write 0
`, ""},
		{"reasoning in both spellings", `
{"choices":[{"delta":{"reasoning":"Hm","reasoning_content":"Hm"}}]}
{"choices":[{"delta":{"reasoning":" so"}}]}
{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}
[DONE]`, `
thinking "Hm"
thinking " so"
text "a"
end_turn  in 0 out 0 read 0 write 0
`, ""},
		{"a refusal stays one", `
{"choices":[{"delta":{"refusal":"I cannot."}}]}
{"choices":[{"delta":{},"finish_reason":"stop"}]}
[DONE]`, `
text "I cannot."
refusal  in 0 out 0 read 0 write 0
`, ""},
		{"not JSON", `
{"choices":[{"delta":{"content":"a"}}]}
{"choices":[{"delta":{"cont`, "text \"a\"\n", llm.Broken},
		{"JSON of another shape", `{"choices":"none"}`, "", llm.Broken},
		{"cut off in the text", `{"choices":[{"delta":{"content":"half"}}]}`, "text \"half\"\n", llm.Broken},
		{"cut off in a call",
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{"}}]}}]}`, "",
			llm.Broken},
		{"[DONE] without a reason", "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n[DONE]", `
text "a"
end_turn  in 0 out 0 read 0 write 0
`, ""},
		{"nothing", ``, "", llm.Broken},
		{"an error in the stream", `
{"choices":[{"delta":{"content":"a"}}]}
{"error":{"message":"The server is overloaded","code":503}}`, "text \"a\"\n", llm.Overloaded},
	} {
		t.Run(c.name, func(t *testing.T) { wiretest.Check(t, openai.Chat, c.stream, c.events, c.kind) })
	}
}

func TestResponsesStream(t *testing.T) {
	for _, c := range []struct {
		name, stream, events string
		kind                 llm.ErrorKind // "": no error
	}{
		{"thinking, text, usage", `
{"type":"response.created","response":{"model":"m-1"}}
{"type":"response.reasoning_summary_part.added","summary_index":0}
{"type":"response.reasoning_summary_text.delta","summary_index":0,"delta":"One."}
{"type":"response.reasoning_summary_part.added","summary_index":1}
{"type":"response.reasoning_summary_text.delta","summary_index":1,"delta":"Two."}
{"type":"response.output_text.delta","delta":"Hello"}
{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"Hello"}]}}
{"type":"response.completed","response":{"model":"m-1","usage":{"input_tokens":30,"output_tokens":4,
 "input_tokens_details":{"cached_tokens":20}}}}`, `
thinking "One."
thinking "\n\n"
thinking "Two."
text "Hello"
end_turn m-1 in 10 out 4 read 20 write 0
`, ""},
		{"arguments in pieces, one call", `
{"type":"response.output_item.added","item":{"type":"function_call","call_id":"a","name":"read","arguments":""}}
{"type":"response.function_call_arguments.delta","delta":"{\"path\":"}
{"type":"response.function_call_arguments.delta","delta":"\"x\"}"}
{"type":"response.output_item.done","item":{"type":"function_call","call_id":"a","name":"read",
 "arguments":"{\"path\":\"x\"}"}}
{"type":"response.output_item.done","item":{"type":"function_call","call_id":"b","name":"ls","arguments":""}}
{"type":"response.completed","response":{}}`, `
call a read {"path":"x"}
call b ls {}
tool_use  in 0 out 0 read 0 write 0
`, ""},
		{"the limit", `
{"type":"response.output_text.delta","delta":"a"}
{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`, `
text "a"
max_tokens  in 0 out 0 read 0 write 0
`, ""},
		{"a filter", `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`,
			"refusal  in 0 out 0 read 0 write 0\n", ""},
		{"a refusal", `
{"type":"response.refusal.delta","delta":"I cannot."}
{"type":"response.completed","response":{}}`, `
text "I cannot."
refusal  in 0 out 0 read 0 write 0
`, ""},
		{"unknown events and items", `
{"type":"response.new_thing","delta":"x"}
{"type":"response.output_item.done","item":{"type":"web_search_call","id":"w"}}
{"type":"response.completed","response":{}}`, "end_turn  in 0 out 0 read 0 write 0\n", ""},
		{"not JSON", `{"type":"response.output_te`, "", llm.Broken},
		{"an item of another shape", `{"type":"response.output_item.done","item":[]}`, "", llm.Broken},
		{"cut off after a call",
			`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"a","name":"ls","arguments":"{}"}}`,
			"call a ls {}\n", llm.Broken},
		{"failed", `{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Slow down"}}}`, "",
			llm.RateLimit},
		{"failed: the window is full",
			`{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Too long"}}}`, "",
			llm.Overflow},
		{"an error event", `{"type":"error","code":"server_error","message":"Oops"}`, "", llm.Server},
		{"an error without a type", `{"error":{"message":"no such model","code":"invalid_request_error"}}`, "", llm.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) { wiretest.Check(t, openai.Responses, c.stream, c.events, c.kind) })
	}
}

// TestReasoningReturns: reasoning and the phase of a message are sent back, unchanged, only to the model that produced
// them.
func TestReasoningReturns(t *testing.T) {
	const callDone = `"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"},` +
		`"extra_content":{"google":{"thought_signature":"SIG"}}}]`
	for _, c := range []struct {
		name, body, want string
		open             func(llm.Endpoint) llm.Model
	}{
		{"chat: content", `{"choices":[{"delta":{"reasoning_content":"Let me look."}}]}
{"choices":[{"delta":{` + callDone + `},"finish_reason":"tool_calls"}]}`,
			`"reasoning_content":"Let me look."`, openai.Chat},
		{"chat: details in pieces",
			`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"Let me "}]}}]}
{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"look.","signature":"SIG"},
 "odd"]}}]}
{"choices":[{"delta":{` + callDone + `},"finish_reason":"tool_calls"}]}`,
			`"reasoning_details":[{"index":0,"signature":"SIG","text":"Let me look.","type":"reasoning.text"}]`, openai.Chat},
		{"chat: a signature on the call", `{"choices":[{"delta":{` + callDone + `},"finish_reason":"tool_calls"}]}`,
			`"extra_content":{"google":{"thought_signature":"SIG"}}`, openai.Chat},
		{"responses: encrypted", `
{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs_1","status":"completed",
 "summary":[{"type":"summary_text","text":"Look."}],"encrypted_content":"ENC"}}
{"type":"response.output_item.done","item":{"type":"function_call","call_id":"a","name":"ls","arguments":"{}"}}
{"type":"response.completed","response":{}}`,
			`{"encrypted_content":"ENC","id":"rs_1","summary":[{"text":"Look.","type":"summary_text"}],"type":"reasoning"}`,
			openai.Responses},
		{"responses: the phase of a message", `
{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"First, a look."}
{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","role":"assistant",
 "phase":"commentary","content":[{"type":"output_text","text":"First, a look."}]}}
{"type":"response.output_item.done","item":{"type":"function_call","call_id":"a","name":"ls","arguments":"{}"}}
{"type":"response.completed","response":{}}`,
			`"phase":"commentary"`, openai.Responses},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := wiretest.Ask(t, c.open, wiretest.Stream(c.body), wiretest.Hello())
			if first.Err != nil {
				t.Fatal(first.Err)
			}
			done := first.Done
			sendBack := func(m llm.Message) string {
				result := llm.Part{Result: &llm.ToolResult{ID: "a", Name: "ls", Parts: []llm.Part{llm.Text("x")}}}
				req := &llm.Request{Messages: []llm.Message{wiretest.User(llm.Text("hi")), m, wiretest.User(result)}}
				return wiretest.Ask(t, c.open, wiretest.Reply{}, req).Sent
			}
			if sent := sendBack(done.Message); !strings.Contains(sent, c.want) {
				t.Errorf("sent %s\nwant %s in it", sent, c.want)
			}
			for i, p := range done.Message.Parts {
				if phase, ok := strings.CutSuffix(p.Opaque, ":commentary"); ok {
					done.Message.Parts[i].Opaque = phase + "-other:commentary"
					if sent := sendBack(done.Message); strings.Contains(sent, `"phase"`) {
						t.Errorf("the phase that another model gave was sent: %s", sent)
					}
				}
				if p.Thinking == nil {
					continue
				}
				other := *p.Thinking
				other.From = "other/model"
				done.Message.Parts[i].Thinking = &other
				if sent := sendBack(done.Message); strings.Contains(sent, c.want) {
					t.Errorf("the reasoning of another model was sent: %s", sent)
				}
			}
		})
	}
}

// TestRefusedRequest: an answer that is not a stream is an error with the server's message and without the key.
func TestRefusedRequest(t *testing.T) {
	for _, open := range []func(llm.Endpoint) llm.Model{openai.Chat, openai.Responses} {
		for _, c := range []struct {
			status int
			body   string
			kind   llm.ErrorKind
			want   string
		}{
			{401, `{"error":{"message":"Incorrect API key provided: sk-secret","type":"invalid_request_error",` +
				`"code":"invalid_api_key"}}`, llm.Auth, "Incorrect API key"},
			{400, `{"error":{"message":"Too long","code":"context_length_exceeded"}}`, llm.Overflow, "Too long"},
			{429, `{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}`, llm.RateLimit, "Rate limit"},
			{404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, llm.Invalid, "does not exist"},
			{502, `<html>Bad gateway</html>`, llm.Server, "HTTP 502"},
			{500, ``, llm.Server, "HTTP 500"},
		} {
			a := wiretest.Ask(t, open, wiretest.Reply{Status: c.status, Body: c.body}, wiretest.Hello())
			var e *llm.Error
			if !errors.As(a.Err, &e) || e.Kind != c.kind || e.Status != c.status || a.Done != nil {
				t.Errorf("%d %s: %#v", c.status, c.body, a.Err)
				continue
			}
			if !strings.Contains(e.Error(), c.want) || strings.Contains(e.Error(), "secret") ||
				strings.Contains(e.Error(), "<html>") {
				t.Errorf("%d: message %q", c.status, e.Error())
			}
		}
	}
}
