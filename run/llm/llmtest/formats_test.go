package llmtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/google"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/llm/openai"
)

var update = flag.Bool("update", false, "rewrite the golden requests")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// formats are the adapters, each with the path of its server.
var formats = []struct {
	name string
	path string
	open func(llm.Endpoint) llm.Model
}{
	{"anthropic", "", anthropic.New},
	{"responses", "/v1", openai.Responses},
	{"chat", "/v1", openai.Chat},
	{"gemini", "", google.New},
}

func each(t *testing.T, f func(t *testing.T, open func(*llmtest.Server) llm.Model)) {
	for _, x := range formats {
		t.Run(x.name, func(t *testing.T) {
			f(t, func(s *llmtest.Server) llm.Model { return x.open(endpoint(s.URL + x.path)) })
		})
	}
}

func endpoint(url string) llm.Endpoint {
	return llm.Endpoint{Name: "test", BaseURL: url, Key: llmtest.Key, Info: llm.Info{ID: "test/model", Window: 1000,
		Thinking: true, Vision: true, Documents: true}}
}

type answer struct {
	text, thinking string
	calls          []string
	done           *llm.Response
	err            error
}

func ask(ctx context.Context, m llm.Model, req *llm.Request) (a answer) {
	for ev, err := range m.Stream(ctx, req) {
		if err != nil {
			a.err = err
			return a
		}
		a.text += ev.Text
		a.thinking += ev.Thinking
		if ev.Call != nil {
			a.calls = append(a.calls, ev.Call.Name+string(ev.Call.Input))
		}
		if ev.Done != nil {
			if a.done != nil {
				a.err = errors.New("done twice")
			}
			a.done = ev.Done
		}
	}
	return a
}

var tools = []llm.ToolSpec{
	{Name: "read", Description: "Reads a file",
		Schema: json.RawMessage(
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"path":{"type":"string",` +
				`"pattern":"."},"mode":{"const":"x"}},"required":["path"],"additionalProperties":false}`)},
	{Name: "ls", Description: "Lists a directory", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
}

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.User, Parts: parts} }

func result(c *llm.ToolCall, isError bool, parts ...llm.Part) llm.Part {
	return llm.Part{Result: &llm.ToolResult{ID: c.ID, Name: c.Name, IsError: isError, Parts: parts}}
}

var png = &llm.Media{MIME: "image/png", Data: []byte("\x89PNG")}

// TestConversation is a whole turn: thinking, parallel calls, results with an image and an error, text of a skill, a
// second round, an interrupted answer, and one of another model in the history. The request bodies are golden, and
// the servers refuse what the vendors refuse.
func TestConversation(t *testing.T) {
	each(t, func(t *testing.T, open func(*llmtest.Server) llm.Model) {
		s := llmtest.NewServer(
			llmtest.Answer{Thinking: "I should look at both.", Text: "Let me see 你好.",
				Usage: llm.Usage{Input: 10, Output: 5, CacheRead: 7, CacheWrite: 3},
				Calls: []llmtest.Call{{Name: "read", Input: map[string]any{"path": "a b.txt"}}, {Name: "ls"}}},
			llmtest.Answer{Thinking: "One more.", Calls: []llmtest.Call{{Name: "ls", Input: map[string]any{}}}},
			llmtest.Answer{Thinking: "Done.", Text: "It says hello."},
			llmtest.Reply("Bye."),
		)
		defer s.Close()
		m := open(s)
		req := &llm.Request{System: "Be brief.", Tools: tools, Effort: "high", Session: "s1", MaxTokens: 40000,
			Messages: []llm.Message{
				user(llm.Text("Earlier")),
				{Role: llm.Assistant, Parts: []llm.Part{
					{Thinking: &llm.Thinking{Text: "of another", Opaque: "x", From: "other/model"}},
					{Call: &llm.ToolCall{ID: "toolu|other:1", Name: "read", Input: json.RawMessage(`{"path": broken`),
						Opaque: "other"}}}},
				user(llm.Part{Result: &llm.ToolResult{ID: "toolu|other:1", Name: "read", IsError: true,
					Parts: []llm.Part{llm.Text("bad input"), {Media: png}}}}),
				{Role: llm.Assistant, Parts: []llm.Part{llm.Text("I will ")}}, // interrupted
				{Role: llm.Assistant, Parts: []llm.Part{{Thinking: &llm.Thinking{Text: "cut short", From: "test/model"}}}},
				user(llm.Text("  ")),
				user(llm.Text("Read it"), llm.Part{Media: &llm.Media{MIME: "application/pdf", Name: "a.pdf", Data: []byte("%PDF")}},
					llm.Part{Media: &llm.Media{MIME: "text/csv", Name: "a.csv", Data: []byte("a,b")}},
					llm.Part{Media: &llm.Media{MIME: "video/mp4", Name: "v.mp4", Data: []byte("x")}}),
			}}
		one := ask(t.Context(), m, req)
		if one.err != nil {
			t.Fatal(one.err)
		}
		if one.text != "Let me see 你好." || one.thinking != "I should look at both." ||
			!slices.Equal(one.calls, []string{`read{"path":"a b.txt"}`, `ls{}`}) {
			t.Errorf("streamed %+v", one)
		}
		if one.done.Stop != llm.ToolUse || one.done.Usage.Input+one.done.Usage.CacheWrite != 13 ||
			one.done.Usage.Output != 5 || one.done.Usage.CacheRead != 7 {
			t.Errorf("done %+v", one.done)
		}
		calls := callsOf(one.done)
		if len(calls) != 2 {
			t.Fatalf("%d calls", len(calls))
		}
		// The text of a skill comes before the results; the adapter puts the results first.
		req.Messages = append(req.Messages, one.done.Message,
			user(llm.Text("a skill's text"), result(calls[0], false, llm.Text("hello"), llm.Part{Media: png})),
			user(result(calls[1], true, llm.Text("no such directory"))))
		two := ask(t.Context(), m, req)
		if two.err != nil {
			t.Fatal(two.err)
		}
		if c := callsOf(two.done); len(c) != 1 || two.done.Stop != llm.ToolUse {
			t.Fatalf("second answer %+v", two.done)
		}
		req.Messages = append(req.Messages, two.done.Message, user(result(callsOf(two.done)[0], false)))
		three := ask(t.Context(), m, req)
		if three.err != nil || three.text != "It says hello." || three.done.Stop != llm.EndTurn {
			t.Fatalf("third answer %+v", three)
		}
		req.Messages = append(req.Messages, three.done.Message, user(llm.Text("Bye")))
		four := ask(t.Context(), m, req)
		if four.err != nil || four.text != "Bye." {
			t.Fatalf("fourth answer %+v", four)
		}
		if r := s.Refused(); len(r) > 0 {
			t.Errorf("refused: %q", r)
		}
		got := s.Requests()
		var all bytes.Buffer
		for _, i := range []int{0, 3} {
			if err := json.Indent(&all, got[i].Body, "", "  "); err != nil {
				t.Fatal(err)
			}
			all.WriteByte('\n')
		}
		golden(t, filepath.Join("testdata", filepath.Base(t.Name())+".golden"), all.Bytes())
		// A later request begins with the earlier one, so that the cache hits.
		if n := strings.Count(all.String(), llmtest.Key); n > 0 {
			t.Errorf("the key is in the body")
		}
	})
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")), got) {
		t.Errorf("%s differs (rewrite it with -update); got:\n%s", file, got)
	}
}

func callsOf(r *llm.Response) (out []*llm.ToolCall) {
	for _, p := range r.Message.Parts {
		if p.Call != nil {
			out = append(out, p.Call)
		}
	}
	return out
}

// TestErrors: the same failure is the same kind of error with every provider.
func TestErrors(t *testing.T) {
	cases := []struct {
		answer llmtest.Answer
		kind   llm.ErrorKind
		status int
		after  time.Duration
	}{
		{llmtest.Answer{Status: 400, Message: "bad"}, llm.Invalid, 400, 0},
		{llmtest.Answer{Status: 401, Message: "bad key " + llmtest.Key}, llm.Auth, 401, 0},
		{llmtest.Answer{Status: 403, Message: "no"}, llm.Auth, 403, 0},
		{llmtest.Answer{Status: 429, Message: "slow", Retry: 1.5}, llm.RateLimit, 429, 1500 * time.Millisecond},
		{llmtest.Answer{Status: 500, Message: "oops"}, llm.Server, 500, 0},
		{llmtest.Answer{Status: 503, Message: "busy", Retry: 2}, llm.Overloaded, 503, 2 * time.Second},
		{llmtest.Answer{Status: 529, Message: "busy"}, llm.Overloaded, 529, 0},
		{llmtest.Answer{Error: &llm.Error{Kind: llm.Overflow, Status: 413, Message: "too large"}}, llm.Overflow, 413, 0},
		{llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Status: 400, Message: "prompt is too long: 3 > 2"}},
			llm.Overflow, 400, 0},
		{llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Status: 400,
			Message: "This model's maximum context length is 8192 tokens."}}, llm.Overflow, 400, 0},
		{llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Status: 400,
			Message: "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}, llm.Overflow, 400, 0},
	}
	each(t, func(t *testing.T, open func(*llmtest.Server) llm.Model) {
		for _, c := range cases {
			s := llmtest.NewServer(c.answer)
			a := ask(t.Context(), open(s), &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}})
			var e *llm.Error
			if !errors.As(a.err, &e) {
				t.Fatalf("%+v: %v", c, a.err)
			}
			if e.Kind != c.kind || e.Status != c.status || e.RetryAfter != c.after {
				t.Errorf("%+v: got %+v", c, e)
			}
			if strings.Contains(e.Error(), llmtest.Key) {
				t.Errorf("the key is in the error: %v", e)
			}
			if len(s.Requests()) != 1 {
				t.Errorf("%d requests: adapters do not retry", len(s.Requests()))
			}
			s.Close()
		}
	})
}

// TestBroken: a stream that breaks is a retryable error after the events so far, and never an answer.
func TestBroken(t *testing.T) {
	each(t, func(t *testing.T, open func(*llmtest.Server) llm.Model) {
		for b, kind := range map[llmtest.Break]llm.ErrorKind{llmtest.Drop: llm.Broken, llmtest.Cut: llm.Broken,
			llmtest.Garble: llm.Broken, llmtest.Fail: llm.Overloaded} {
			s := llmtest.NewServer(llmtest.Answer{Text: strings.Repeat("half of this ", 20), Break: b})
			a := ask(t.Context(), open(s), &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}})
			var e *llm.Error
			if !errors.As(a.err, &e) || e.Kind != kind || !e.Temporary() || a.done != nil || a.text == "" {
				t.Errorf("%s: %v, %+v", b, a.err, a)
			}
			s.Close()
		}
	})
}

// TestLateBreak: an answer that is complete counts, even if the connection breaks afterwards.
func TestLateBreak(t *testing.T) {
	each(t, func(t *testing.T, open func(*llmtest.Server) llm.Model) {
		s := llmtest.NewServer(llmtest.Answer{Text: "all of it", Break: llmtest.Late})
		defer s.Close()
		a := ask(t.Context(), open(s), &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}})
		if a.err != nil || a.text != "all of it" || a.done == nil {
			t.Errorf("%+v", a)
		}
	})
}

// TestCancel: a request ends when its context does, or its caller stops.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, open func(*llmtest.Server) llm.Model) {
		s := llmtest.NewServer(llmtest.Answer{Text: strings.Repeat("x", 400), Break: llmtest.Hang},
			llmtest.Answer{Text: strings.Repeat("x", 400), Break: llmtest.Hang})
		defer s.Close()
		m := open(s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for ev, err := range m.Stream(ctx, &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}}) {
			if last = err; ev.Text != "" {
				cancel()
			}
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("got %v", last)
		}
		for range m.Stream(t.Context(), &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}}) {
			break
		}
	})
}

// TestIdle: a silent stream counts as broken.
func TestIdle(t *testing.T) {
	s := llmtest.NewServer(llmtest.Answer{Text: strings.Repeat("x", 100), Break: llmtest.Hang})
	defer s.Close()
	e := endpoint(s.URL)
	e.Idle = 30 * time.Millisecond
	a := ask(t.Context(), anthropic.New(e), &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}})
	var le *llm.Error
	if !errors.As(a.err, &le) || le.Kind != llm.Broken || !strings.Contains(le.Message, "sent nothing for") {
		t.Errorf("got %v", a.err)
	}
}

// TestStops: every format has its own names for the stop reasons.
func TestStops(t *testing.T) {
	each(t, func(t *testing.T, open func(*llmtest.Server) llm.Model) {
		for _, stop := range []llm.StopReason{llm.EndTurn, llm.MaxTokens, llm.Refusal} {
			s := llmtest.NewServer(llmtest.Answer{Text: "hm", Stop: stop})
			a := ask(t.Context(), open(s), &llm.Request{Messages: []llm.Message{user(llm.Text("hi"))}})
			if a.err != nil || a.done.Stop != stop {
				t.Errorf("%s: %+v", stop, a)
			}
			s.Close()
		}
	})
}

// TestBrokenInput: a call whose input is not JSON arrives unchanged, and can be sent back.
func TestBrokenInput(t *testing.T) {
	each(t, func(t *testing.T, open func(*llmtest.Server) llm.Model) {
		s := llmtest.NewServer(llmtest.Answer{Calls: []llmtest.Call{{Name: "read", Input: `{"path": "a`}}},
			llmtest.Reply("sorry"))
		defer s.Close()
		req := &llm.Request{Tools: tools, Messages: []llm.Message{user(llm.Text("hi"))}}
		a := ask(t.Context(), open(s), req)
		if strings.HasSuffix(t.Name(), "gemini") { // where the vendor itself reports it
			var e *llm.Error
			if !errors.As(a.err, &e) || e.Kind != llm.Broken {
				t.Errorf("got %v", a.err)
			}
			return
		}
		if a.err != nil || !slices.Equal(a.calls, []string{`read{"path": "a`}) {
			t.Fatalf("%+v", a)
		}
		req.Messages = append(req.Messages, a.done.Message, user(result(callsOf(a.done)[0], true, llm.Text("not JSON"))))
		if a = ask(t.Context(), open(s), req); a.err != nil || a.text != "sorry" {
			t.Errorf("%+v, %v", a, a.err)
		}
	})
}
