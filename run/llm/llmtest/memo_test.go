package llmtest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/knack-agent/knack/run/llm"
)

// A drain is a transport that keeps the body of the last request and answers with an error.
type drain struct {
	body  bytes.Buffer
	chunk [32 << 10]byte
	size  int64
}

func (r *drain) RoundTrip(req *http.Request) (*http.Response, error) {
	r.body.Reset()
	for {
		n, err := req.Body.Read(r.chunk[:])
		r.body.Write(r.chunk[:n])
		if err == io.EOF {
			break
		}
	}
	r.size = req.ContentLength
	return &http.Response{StatusCode: 400, Body: http.NoBody, Header: http.Header{}, Request: req}, nil
}

// sent returns what the adapter sends for a request.
func (r *drain) sent(t rapid.TB, m llm.Model, req *llm.Request) string {
	for _, err := range m.Stream(context.Background(), req) {
		if err == nil {
			t.Fatal("no error")
		}
	}
	if r.size != int64(r.body.Len()) {
		t.Fatalf("Content-Length %d, body of %d bytes", r.size, r.body.Len())
	}
	return r.body.String()
}

func anyPart(t *rapid.T, role llm.Role) llm.Part {
	text := rapid.SampledFrom([]string{"", "a", " b\n", "<&>", "\u2028ü"}).Draw(t, "text")
	id := rapid.SampledFrom([]string{"c1", "c2", "c/3"}).Draw(t, "id")
	kinds := []string{"text", "media", "result", "thinking"}
	if role == llm.Assistant {
		kinds = []string{"text", "media", "call", "thinking"}
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "media":
		mime := rapid.SampledFrom([]string{"image/png", "application/pdf", "text/plain", "x/y"}).Draw(t, "mime")
		return llm.Part{Media: &llm.Media{MIME: mime, Name: "f", Data: []byte(text + "x")}}
	case "call":
		return llm.Part{Call: &llm.ToolCall{ID: id, Name: "n" + id, Input: []byte(`{"a":"` + strings.TrimSpace(text) + `"}`)}}
	case "result":
		name := rapid.SampledFrom([]string{"", "n"}).Draw(t, "name")
		parts := []llm.Part{llm.Text(text)}
		return llm.Part{Result: &llm.ToolResult{ID: id, Name: name, Parts: parts, IsError: rapid.Bool().Draw(t, "error")}}
	case "thinking":
		opaque := rapid.SampledFrom([]string{
			"", "sig", "redacted_thinking:x", "reasoning_content", `reasoning_details:[{"a":1}]`,
			`reasoning:{"type":"reasoning"}`, "gemini:s",
		}).Draw(t, "opaque")
		from := rapid.SampledFrom([]string{"test/model", "other/model"}).Draw(t, "from")
		return llm.Part{Thinking: &llm.Thinking{Text: text, Opaque: opaque, From: from}}
	}
	return llm.Text(text)
}

// TestMemo: a request with a Memo has the same bytes as one without, however conversation, system text and
// tools changed since the last one.
func TestMemo(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := &drain{}
				e := endpoint("http://host.invalid" + f.path)
				e.Client = &http.Client{Transport: r}
				e.Budget = rapid.Bool().Draw(t, "budget")
				models := []llm.Model{f.open(e), f.open(e)}
				var memo llm.Memo
				var msgs []llm.Message
				for range rapid.IntRange(1, 8).Draw(t, "requests") {
					msgs = slices.Clone(msgs)
					if len(msgs) > 0 && rapid.IntRange(0, 3).Draw(t, "change") == 0 {
						i := rapid.IntRange(0, len(msgs)-1).Draw(t, "at")
						switch rapid.IntRange(0, 2).Draw(t, "how") {
						case 0: // a compaction
							msgs = msgs[i:]
						case 1: // a release
							msgs[i].Parts = append([]llm.Part{llm.Text("released")}, msgs[i].Parts...)
						case 2: // more of a message that was sent
							msgs[i].Parts = append(slices.Clip(msgs[i].Parts), anyPart(t, msgs[i].Role))
						}
					}
					for range rapid.IntRange(0, 4).Draw(t, "new") {
						m := llm.Message{Role: rapid.SampledFrom([]llm.Role{llm.User, llm.Assistant}).Draw(t, "role")}
						for range rapid.IntRange(0, 3).Draw(t, "parts") {
							m.Parts = append(m.Parts, anyPart(t, m.Role))
						}
						msgs = append(msgs, m)
					}
					m := models[rapid.IntRange(0, 5).Draw(t, "model")/5]
					req := llm.Request{
						System: rapid.SampledFrom([]string{"", "s"}).Draw(t, "system"), Messages: msgs,
						Effort: rapid.SampledFrom([]string{"", "high"}).Draw(t, "effort"),
						Tools:  slices.Clone(tools[:rapid.IntRange(0, len(tools)).Draw(t, "tools")]),
					}
					if len(req.Tools) > 0 && rapid.IntRange(0, 3).Draw(t, "changed") == 0 {
						req.Tools[0].Schema = []byte(`{"type":"object","properties":{"b":{"type":"string"}}}`)
					}
					want := r.sent(t, m, &req)
					req.Memo = &memo
					if got := r.sent(t, m, &req); got != want {
						t.Fatalf("with a Memo\n%s\nwithout\n%s", got, want)
					}
				}
			})
		})
	}
}

// longTalk returns a conversation with the given number of calls: a question, then calls with their results.
func longTalk(calls int) []llm.Message {
	msgs := []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text("go")}}}
	for i := range calls {
		id := fmt.Sprintf("call%05d", i)
		msgs = append(msgs,
			llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: id, Name: "read",
				Input: []byte(`{"path":"/w/a.txt"}`)}}}},
			llm.Message{Role: llm.User, Parts: []llm.Part{{Result: &llm.ToolResult{
				ID: id, Name: "read", Parts: []llm.Part{llm.Text(strings.Repeat("line\n", 100))},
			}}}})
	}
	return msgs
}

// TestLateRequest: with a Memo, a late request of a conversation allocates as often as an early one: what was sent
// before is not encoded again. Requests have exactly as many bytes as when each was encoded in full.
func TestLateRequest(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			r := &drain{}
			e := endpoint("http://host.invalid" + f.path)
			e.Client = &http.Client{Transport: r}
			m := f.open(e)
			msgs := longTalk(2100)
			measure := func(calls int) (size int, allocs float64) {
				var memo llm.Memo
				n := 1 + 2*calls
				send := func() {
					r.sent(t, m, &llm.Request{System: "s", Messages: msgs[:n:n], Memo: &memo})
					n += 2
				}
				send()
				return r.body.Len(), testing.AllocsPerRun(50, send)
			}
			early, some := measure(10)
			late, many := measure(2000)
			want := map[string][2]int{
				"anthropic": {8538, 1654268},
				"responses": {7876, 1530226},
				"chat":      {8087, 1588147},
				"gemini":    {8793, 1726163},
			}[f.name]
			if got := [2]int{early, late}; got != want {
				t.Errorf("requests after 10 and 2000 calls have %v bytes, want %v", got, want)
			}
			// Without the Memo there are 10,000 and more. A few depend on the garbage collector.
			if many > 2*some {
				t.Errorf("a request allocates %v times after 10 calls, %v times after 2000", some, many)
			}
		})
	}
}
