package openai_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/internal/wiretest"
	"github.com/knack-agent/knack/run/llm/openai"
)

// full returns a request with everything that servers refuse.
func full() *llm.Request {
	image := &llm.Media{MIME: "image/png", Data: []byte("not really")}
	call := func(id string) llm.Part {
		return llm.Part{Call: &llm.ToolCall{ID: id, Name: "ls", Input: []byte("{}")}}
	}
	result := func(id string) llm.Part {
		return llm.Part{Result: &llm.ToolResult{ID: id, Name: "ls", Parts: []llm.Part{llm.Text("x")}}}
	}
	thinking := func(opaque string) llm.Part {
		return llm.Part{Thinking: &llm.Thinking{Text: "Hm", Opaque: opaque, From: "test/m"}}
	}
	answer := func(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.Assistant, Parts: parts} }
	return &llm.Request{
		System: "Be brief.", MaxTokens: 100, Effort: "high", Session: "s", Memo: new(llm.Memo),
		Tools: []llm.ToolSpec{{Name: "ls", Schema: []byte(`{"type":"object"}`)}},
		Messages: []llm.Message{
			wiretest.User(llm.Text("hi"), llm.Part{Media: image}), answer(call("call_49c89af0")),
			wiretest.User(result("call_49c89af0"), llm.Text("go on")),
			answer(thinking("reasoning_content"), thinking("SIG"), llm.Text("I look."), call("b")),
			wiretest.User(result("b")),
		},
	}
}

// TestRefusals: a request that a server refuses is sent once more without what the refusal names, and so is every
// later one at once.
func TestRefusals(t *testing.T) {
	a, err := txtar.ParseFile("testdata/refusals.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(a.Files); i += 2 {
		f, change := a.Files[i], string(a.Files[i+1].Data)
		t.Run(f.Name, func(t *testing.T) {
			c := oddCase(t, txtar.File{Name: f.Name, Data: bytes.Replace(f.Data, []byte("\n"), []byte("\n# Refused.\n"), 1)})
			var sent []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if sent = append(sent, string(body)); len(sent) > 1 {
					io.WriteString(w, everyAnswer)
					return
				}
				w.WriteHeader(max(c.reply.Status, 400))
				io.WriteString(w, c.reply.Body)
			}))
			defer s.Close()
			open := map[string]func(llm.Endpoint) llm.Model{"messages": anthropic.New, "responses": openai.Responses}
			format, _, _ := strings.Cut(f.Name, ":")
			if open[format] == nil {
				open[format] = openai.Chat
			}
			m := open[format](llm.Endpoint{Name: "m", BaseURL: s.URL, Info: llm.Info{ID: "test/m", Window: 1000, Thinking: true,
				Vision: true}})
			req := full()
			for range 2 {
				if _, err := llm.Ask(t.Context(), m, req); err != nil {
					t.Fatal(err)
				}
			}
			if len(sent) != 3 || sent[1] != sent[2] {
				t.Fatalf("%d requests", len(sent))
			}
			for line := range strings.Lines(change) {
				with, without := sent[0], sent[1]
				if line[0] == '+' {
					with, without = without, with
				}
				if text := strings.TrimSpace(line[1:]); !strings.Contains(with, text) || strings.Contains(without, text) {
					t.Errorf("%sfirst %s\nsecond %s", line, sent[0], sent[1])
				}
			}
		})
	}
}

// everyAnswer is an answer in all formats: each adapter reads its own.
const everyAnswer = `data: {"type":"message","object":"response","status":"completed","model":"m",` +
	`"content":[{"type":"text","text":"Hi"}],"output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],` +
	`"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}],"stop_reason":"end_turn"}` + "\n\n" +
	`data: {"type":"response.completed","response":{}}` + "\n\n"

// TestRefusedForGood: a change that did not help is not kept, and the server's last words are the error.
func TestRefusedForGood(t *testing.T) {
	var sent []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		w.WriteHeader(400)
		io.WriteString(w, `{"error":{"message":"Extra inputs are not permitted, field: 'stream_options'"}}`)
	}))
	defer s.Close()
	m := openai.Chat(llm.Endpoint{Name: "m", BaseURL: s.URL, Info: llm.Info{ID: "test/m"}})
	for range 2 {
		if _, err := llm.Ask(t.Context(), m, wiretest.Hello()); err == nil || !strings.Contains(err.Error(), "Extra inputs") {
			t.Error(err)
		}
	}
	if len(sent) != 4 || !strings.Contains(sent[2], "stream_options") {
		t.Errorf("%d requests: %q", len(sent), sent)
	}
}

// TestBlind: it is told that a model gets no images, with each request that would have some.
func TestBlind(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte("image_url")) {
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, `{"error":{"code":500,"message":"image input is not supported","type":"server_error"}}`)
			return
		}
		io.WriteString(w, everyAnswer)
	}))
	defer s.Close()
	m := openai.Chat(llm.Endpoint{Name: "m", BaseURL: s.URL, Info: llm.Info{ID: "test/m"}})
	told := 0
	for _, req := range []*llm.Request{full(), full(), wiretest.Hello()} {
		req.LeftOut = func(tool, reason string) {
			if told++; tool != "" || reason == "" {
				t.Errorf("%q: %s", tool, reason)
			}
		}
		if _, err := llm.Ask(t.Context(), m, req); err != nil {
			t.Fatal(err)
		}
	}
	if told != 2 {
		t.Errorf("told %d times", told)
	}
}

// TestOneImage: a refusal of an image that cannot be read costs no other image, so the adapter does not mend it.
func TestOneImage(t *testing.T) {
	for _, words := range []string{
		"You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg'].",
		"messages.11.content.8.image.source.base64.data: Image format image/png not supported",
		"cannot identify image file <_io.BytesIO object at 0x7f>",
	} {
		sent := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if sent++; sent > 1 {
				io.WriteString(w, everyAnswer)
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":{"message":"`+words+`"}}`)
		}))
		m := openai.Chat(llm.Endpoint{Name: "m", BaseURL: s.URL, Info: llm.Info{ID: "test/m", Window: 1000, Vision: true}})
		if _, err := llm.Ask(t.Context(), m, full()); err == nil || sent != 1 {
			t.Errorf("%s: %v after %d requests", words, err, sent)
		}
		s.Close()
	}
}
