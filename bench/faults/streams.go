package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/google"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/llm/openai"
)

// formats are the adapters, each with the path of its server.
var formats = []struct {
	name, path string
	open       func(llm.Endpoint) llm.Model
}{
	{"anthropic", "", anthropic.New},
	{"responses", "/v1", openai.Responses},
	{"chat", "/v1", openai.Chat},
	{"gemini", "", google.New},
}

// answers are the streams to damage: text, calls, and both with thinking.
func answers() []llmtest.Answer {
	return []llmtest.Answer{
		{Text: "A short answer with 你好 and \"quotes\"."},
		{Thinking: "I should look.", Text: "Let me see.", Calls: []llmtest.Call{
			{ID: "call_a", Name: "read", Input: map[string]any{"path": "a b.txt"}},
			{ID: "call_b", Name: "ls", Input: map[string]any{"path": "."}}}},
	}
}

// streams damages the streams of all formats.
func streams(random *rand.Rand) ([]*tally, error) {
	kinds := []*tally{}
	for _, f := range formats {
		byKind := map[string]*tally{}
		for _, what := range []string{"cut", "left out", "doubled", "swapped", "changed", "delayed"} {
			byKind[what] = &tally{What: f.name + ", " + what}
			kinds = append(kinds, byKind[what])
		}
		for _, a := range answers() {
			data, err := recorded(f.open, f.path, a)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			try := func(what string, body io.Reader) {
				t := byKind[what]
				t.Runs++
				t.judge(what, data, f.open, body)
			}
			for n := range data { // at every byte
				try("cut", bytes.NewReader(data[:n]))
			}
			events := bytes.SplitAfter(data, []byte("\n\n"))
			events = slices.DeleteFunc(events, func(e []byte) bool { return len(e) == 0 })
			for i := range events {
				rest := slices.Clone(events)
				try("left out", bytes.NewReader(bytes.Join(slices.Delete(rest, i, i+1), nil)))
				try("doubled", bytes.NewReader(bytes.Join(slices.Insert(slices.Clone(events), i, events[i]), nil)))
				if i > 0 {
					swapped := slices.Clone(events)
					swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
					try("swapped", bytes.NewReader(bytes.Join(swapped, nil)))
				}
			}
			for range 1000 {
				changed := bytes.Clone(data)
				changed[random.IntN(len(changed))] ^= byte(1 << random.IntN(8))
				try("changed", bytes.NewReader(changed))
			}
			try("delayed", &slowly{events: events})
		}
	}
	return kinds, nil
}

// judge decodes a damaged stream and compares the answer with that of the whole one.
func (t *tally) judge(what string, whole []byte, open func(llm.Endpoint) llm.Model, body io.Reader) {
	want, _ := answer(open, bytes.NewReader(whole))
	done := make(chan struct{})
	var got string
	var err error
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		got, err = answer(open, body)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.wrong("the stream did not end")
		return
	}
	var e *llm.Error
	switch {
	case errors.As(err, &e):
		if t.Errors++; what == "delayed" {
			t.wrong("an error: %v", err)
		}
	case err != nil:
		t.wrong("%v", err)
	case got == want:
		t.Whole++
	case what == "cut", what == "delayed":
		t.wrong("an answer that is not whole: %s", got)
	default:
		t.Another++
	}
}

// answer returns the text and the calls of an answer as one string.
func answer(open func(llm.Endpoint) llm.Model, body io.Reader) (string, error) {
	m := open(llm.Endpoint{Name: "m", BaseURL: "http://host", Key: "k", Client: &http.Client{Transport: replay{body}},
		Info: llm.Info{ID: "test/m", Window: 100_000, Thinking: true}})
	r, err := llm.Ask(context.Background(), m, ask())
	if err != nil {
		return "", err
	}
	out := llm.TextOf(r.Message.Parts)
	for _, p := range r.Message.Parts {
		if p.Call != nil {
			out += fmt.Sprintf("\n%s %s %s", p.Call.ID, p.Call.Name, p.Call.Input)
		}
	}
	return out, nil
}

func ask() *llm.Request {
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	return &llm.Request{MaxTokens: 1000, Tools: []llm.ToolSpec{{Name: "read", Schema: schema},
		{Name: "ls", Schema: schema}},
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text("go")}}}}
}

// recorded returns the stream of an answer in a format.
func recorded(open func(llm.Endpoint) llm.Model, path string, a llmtest.Answer) ([]byte, error) {
	s := llmtest.NewServer(a)
	defer s.Close()
	rec := &recorder{}
	m := open(llm.Endpoint{Name: "m", BaseURL: s.URL + path, Key: llmtest.Key, Client: &http.Client{Transport: rec},
		Info: llm.Info{ID: "test/m", Window: 100_000, Thinking: true}})
	_, err := llm.Ask(context.Background(), m, ask())
	return rec.data, err
}

type recorder struct{ data []byte }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if r.data, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(r.data))
	return resp, nil
}

type replay struct{ body io.Reader }

func (r replay) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(r.body)}, nil
}

// slowly sends events with a pause before each, in two pieces.
type slowly struct {
	events [][]byte
	piece  *strings.Reader
}

func (s *slowly) Read(p []byte) (int, error) {
	if s.piece != nil && s.piece.Len() > 0 {
		return s.piece.Read(p)
	}
	if len(s.events) == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Millisecond)
	e := s.events[0]
	half := len(e) / 2
	if s.events = s.events[1:]; half > 0 {
		s.events = slices.Insert(s.events, 0, e[half:])
		e = e[:half]
	}
	s.piece = strings.NewReader(string(e))
	return s.piece.Read(p)
}
