package llmtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// talk is a conversation with n calls, in which disturb may change the request before the answer of each.
func talk(t *testing.T, s *llmtest.Server, m llm.Model, n int, disturb func(i int, req *llm.Request)) {
	t.Helper()
	req := &llm.Request{System: strings.Repeat("You are careful. ", 400), Tools: tools, Memo: new(llm.Memo),
		Messages: []llm.Message{user(llm.Text("go"))}, Effort: "high"}
	for i := range n {
		disturb(i, req)
		a := ask(t.Context(), m, req)
		if a.err != nil {
			t.Fatalf("request %d: %v; refused: %q", i, a.err, s.Refused())
		}
		var results []llm.Part
		for _, p := range a.done.Message.Parts {
			if p.Call != nil {
				results = append(results, llm.Part{Result: &llm.ToolResult{ID: p.Call.ID, Name: p.Call.Name,
					Parts: []llm.Part{llm.Text(strings.Repeat("line\n", 100))}}})
			}
		}
		if results == nil {
			results = []llm.Part{llm.Text("and then?")}
		}
		req.Messages = append(req.Messages, a.done.Message, user(results...))
	}
}

// talked returns the server after a conversation of 8 answers.
func talked(t *testing.T, on, calls bool, kind llmtest.Threads,
	disturb func(s *llmtest.Server, i int, req *llm.Request)) (s *llmtest.Server, sent int) {
	t.Helper()
	var script []llmtest.Answer
	for i := range 8 {
		a := llmtest.Answer{Thinking: fmt.Sprint("step ", i), Text: "I look. "}
		if calls {
			a.Calls = []llmtest.Call{{ID: fmt.Sprint("toolu_", i), Name: "ls"}}
		}
		script = append(script, a)
	}
	s = llmtest.NewServer(append(script, script[0])...) // one more, for an answer that is not used
	t.Cleanup(s.Close)
	s.Threads(kind)
	e := endpoint(s.URL)
	e.Threads = on
	talk(t, s, anthropic.New(e), 8, func(i int, req *llm.Request) { disturb(s, i, req) })
	for _, r := range s.Requests() {
		sent += len(r.Body)
	}
	return s, sent
}

func undisturbed(*llmtest.Server, int, *llm.Request) {}

// TestThreads: with threads, the model sees what it sees without them, whatever changes, and far less is sent.
func TestThreads(t *testing.T) {
	for name, disturb := range map[string]func(s *llmtest.Server, i int, req *llm.Request){
		"undisturbed": undisturbed,
		"forgotten": func(s *llmtest.Server, i int, _ *llm.Request) {
			if i == 4 {
				s.Threads(llmtest.KeepThreads)
			}
		},
		"other system text": func(_ *llmtest.Server, i int, req *llm.Request) {
			if i == 3 {
				req.System += "And short."
			}
		},
		"fewer tools": func(_ *llmtest.Server, i int, req *llm.Request) {
			if i == 5 {
				req.Tools = tools[1:]
			}
		},
		"compaction": func(_ *llmtest.Server, i int, req *llm.Request) {
			if i == 4 {
				req.Messages = slices.Clone(req.Messages[6:])
				req.Messages[0] = user(llm.Text("what was before"))
			}
		},
		"effort": func(_ *llmtest.Server, i int, req *llm.Request) {
			if i == 2 {
				req.Effort = "low"
			}
		},
		"another conversation between": func(_ *llmtest.Server, i int, req *llm.Request) {
			if i == 2 {
				req.Messages[len(req.Messages)-1].Parts[0].Result.Parts[0].Text = "changed"
				req.Memo = new(llm.Memo)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			without, whole := talked(t, false, true, llmtest.KeepThreads, disturb)
			with, sent := talked(t, true, true, llmtest.KeepThreads, disturb)
			a, b := without.Wholes(), with.Wholes()
			for i := range a {
				if string(a[i]) != string(b[i]) {
					t.Errorf("request %d:\n%s\nwant\n%s", i, b[i], a[i])
				}
			}
			if sent*3 > whole*2 {
				t.Errorf("%d bytes with threads, %d without", sent, whole)
			}
			if n := len(with.Refused()); n > 0 && name != "forgotten" || n > 1 {
				t.Errorf("refused: %q", with.Refused())
			}
		})
	}
}

// TestNoThreads: a server that refuses threads is asked once, and so is one that ignores them; the model sees all.
func TestNoThreads(t *testing.T) {
	for _, calls := range []bool{true, false} {
		for _, kind := range []llmtest.Threads{llmtest.NoThreads, llmtest.IgnoreThreads} {
			said := ""
			s, _ := talked(t, true, calls, kind, func(_ *llmtest.Server, _ int, req *llm.Request) {
				req.Whole = func(reason string) { said = reason }
			})
			if said == "" {
				t.Errorf("%v, %v: nobody is told that requests are sent whole", kind, calls)
			}
			all := s.Requests()
			if len(all) != 8+1 {
				t.Errorf("%v, %v: %d requests; refused: %q", kind, calls, len(all), s.Refused())
			}
			last := all[len(all)-1]
			if got := string(last.Body); strings.Contains(got, `"thread"`) ||
				strings.Contains(last.Header.Get("Anthropic-Beta"), "threads") || !strings.Contains(got, "step 0") {
				t.Errorf("%v, %v: %.300s", kind, calls, got)
			}
		}
	}
}

// TestEffortOfAnswers: where a model takes an effort for each answer, another effort changes nothing of what was sent.
func TestEffortOfAnswers(t *testing.T) {
	var script []llmtest.Answer
	for i := range 8 {
		script = append(script, llmtest.Answer{Text: fmt.Sprint("answer ", i)})
	}
	levels := []string{"high", "high", "low", "low", "max", "high", "high", "high"}
	s := llmtest.NewServer(script...)
	defer s.Close()
	e := endpoint(s.URL)
	e.Threads, e.Efforts = true, true
	talk(t, s, anthropic.New(e), len(levels), func(i int, req *llm.Request) { req.Effort = levels[i] })
	for i, r := range s.Requests() {
		kind := `"thread":{"type":"create"}`
		if i > 0 {
			kind = `"type":"continue"`
		}
		if !strings.Contains(string(r.Body), kind) {
			t.Errorf("request %d: %s", i, r.Body)
		}
	}
	var got []string
	var whole struct {
		Messages []struct {
			Role   string
			Config struct{ Effort string } `json:"output_config"`
		}
		Config struct{ Effort string } `json:"output_config"`
	}
	if err := json.Unmarshal(s.Wholes()[7], &whole); err != nil || whole.Config.Effort != "low" {
		t.Errorf("%v: %+v", err, whole)
	}
	for _, m := range whole.Messages {
		if m.Role == "system" {
			got = append(got, m.Config.Effort)
		}
	}
	if !slices.Equal(got, levels) {
		t.Errorf("efforts %q, want %q", got, levels)
	}
}

// A refusing is a transport to a server that refuses requests with a text.
type refusing struct{ text, message string }

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil || !strings.Contains(string(body), r.text) {
		req.Body = io.NopCloser(bytes.NewReader(body))
		return http.DefaultTransport.RoundTrip(req)
	}
	answer := `{"error":{"type":"invalid_request_error","message":"` + r.message + `"}}`
	return &http.Response{StatusCode: 400, Header: http.Header{}, Request: req,
		Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// TestNoEfforts: a server without an effort for each answer is asked once, and threads go on.
func TestNoEfforts(t *testing.T) {
	s := llmtest.NewServer(llmtest.Reply("a"), llmtest.Reply("b"), llmtest.Reply("c"))
	defer s.Close()
	e := endpoint(s.URL)
	e.Threads, e.Efforts = true, true
	e.Client = &http.Client{Transport: refusing{"block_binding",
		"thinking.adaptive.block_binding: Extra inputs are not permitted"}}
	talk(t, s, anthropic.New(e), 3, func(int, *llm.Request) {})
	for i, r := range s.Requests() {
		if got := string(r.Body); strings.Contains(got, `"low"`) || !strings.Contains(got, `"effort":"high"`) ||
			strings.Contains(got, "continue") != (i > 0) {
			t.Errorf("request %d: %s", i, got)
		}
	}
}
