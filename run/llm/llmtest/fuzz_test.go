package llmtest_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

type replies []byte

func (r replies) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(r))}, nil
}

// FuzzStream: whatever a server sends, a stream ends with one complete answer or an error that explains why, and the
// answer can be sent back.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\ndata: " +
			"{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\"," +
			"\"name\":\"ls\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"partial_json\":\"{}\"}}\n\n" +
			"data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\"," +
			"\"delta\":{\"stop_reason\":\"tool_use\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n", "data: {\"type\":" +
			"\"content_block_delta\",\"index\":-1}\n\n",
		"data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{\"index\":0,\"type\":\"t\",\"text\":\"a\"},{\"index\":0," +
			"\"type\":\"t\",\"text\":\"b\"}],\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"ls\"}},{\"id\":\"x\"," +
			"\"function\":{\"name\":\"ls\"}}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		"data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"reasoning\",\"id\":\"r\"," +
			"\"encrypted_content\":\"e\"}}\n\ndata: {\"type\":\"response.output_item.done\"," +
			"\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"ls\",\"arguments\":\"\"}}\n\n" +
			"data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\",\"thought\":true},{\"thoughtSignature\":\"s\"}," +
			"{\"functionCall\":{\"name\":\"ls\"}},{\"text\":\"b\"}]},\"finishReason\":\"STOP\"}]}\n\n",
		"data: {\"error\":{\"code\":503}}\n\n", "data: {\"error\":\"text\"}\n\n", "event: error\ndata: {}\n\n",
		"data: null\n\n", "data: []\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, x := range formats {
			e := endpoint("http://nowhere")
			e.Client = &http.Client{Transport: replies(in)}
			e.Idle = -1
			m := x.open(e)
			req := &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}}
			var done *llm.Response
			var last error
			for ev, err := range m.Stream(t.Context(), req) {
				if done != nil || last != nil {
					t.Fatalf("%s: an event after the end", x.name)
				}
				done, last = ev.Done, err
			}
			var le *llm.Error
			if done == nil && (!errors.As(last, &le) || le.Error() == "" || le.Kind == "") {
				t.Fatalf("%s: ended with %v", x.name, last)
			}
			if done == nil {
				continue
			}
			for _, p := range done.Message.Parts {
				if p.Call != nil && len(p.Call.Input) == 0 {
					t.Fatalf("%s: a call without input", x.name)
				}
			}
			req.Messages = append(req.Messages, done.Message, user(llm.Text("go on")))
			for range m.Stream(t.Context(), req) { // must not panic
				break
			}
		}
	})
}

// BenchmarkTurn measures an adapter's share of one request: encoding a history of 200 messages, and decoding an
// answer of 200 pieces.
func BenchmarkTurn(b *testing.B) {
	s := llmtest.NewServer(llmtest.Answer{Text: strings.Repeat("word ", 480)},
		llmtest.Answer{Text: strings.Repeat("word ", 480)}, llmtest.Answer{Text: strings.Repeat("word ", 480)},
		llmtest.Answer{Text: strings.Repeat("word ", 480)})
	defer s.Close()
	var history []llm.Message
	for range 100 {
		history = append(history, user(llm.Text(strings.Repeat("question ", 100))),
			llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text(strings.Repeat("answer ", 100))}})
	}
	history = append(history, user(llm.Text("now")))
	for _, x := range formats {
		b.Run(x.name, func(b *testing.B) {
			rec := &recorder{}
			e := endpoint(s.URL + x.path)
			e.Client = &http.Client{Transport: rec}
			if a := ask(b.Context(), x.open(e), &llm.Request{Messages: history}); a.err != nil {
				b.Fatal(a.err)
			}
			e.Client = &http.Client{Transport: replies(rec.body)}
			m := x.open(e)
			b.ReportAllocs()
			for b.Loop() {
				if a := ask(b.Context(), m, &llm.Request{Messages: history, Tools: tools}); a.err != nil {
					b.Fatal(a.err)
				}
			}
		})
	}
}

// A recorder keeps the body of an answer.
type recorder struct{ body []byte }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if r.body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(r.body))
	return resp, nil
}
