package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestBudget: models with a budget of thinking tokens get one within their limit, and none where the history does not
// allow thinking.
func TestBudget(t *testing.T) {
	ask := llm.Message{Role: llm.User, Parts: []llm.Part{llm.Text("hi")}}
	foreign := []llm.Message{ask,
		{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "a", Name: "ls", Input: []byte("{}")}}}},
		{Role: llm.User, Parts: []llm.Part{{Result: &llm.ToolResult{ID: "a"}}}}}
	for _, c := range []struct {
		effort string
		limit  int
		msgs   []llm.Message
		want   int
	}{
		{"", 9000, []llm.Message{ask}, 0},
		{"medium", 20000, []llm.Message{ask}, 8192},
		{"max", 9000, []llm.Message{ask}, 9000 - 1024},
		{"5000", 20000, []llm.Message{ask}, 5000},
		{"200", 20000, []llm.Message{ask}, 0},
		{"high", 1500, []llm.Message{ask}, 0},
		{"high", 20000, foreign, 0},
	} {
		s := llmtest.NewServer(llmtest.Reply("ok"))
		m := anthropic.New(llm.Endpoint{Name: "old", BaseURL: s.URL + "/v1/", Key: llmtest.Key, Bearer: true, Budget: true})
		for _, err := range m.Stream(t.Context(), &llm.Request{Messages: c.msgs, Effort: c.effort, MaxTokens: c.limit}) {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
		var body struct {
			Thinking struct {
				Budget int `json:"budget_tokens"`
			} `json:"thinking"`
		}
		if err := json.Unmarshal(s.Requests()[0].Body, &body); err != nil || body.Thinking.Budget != c.want {
			t.Errorf("%+v: budget %d, %v", c, body.Thinking.Budget, err)
		}
		s.Close()
	}
}

// TestBreakpoints: whatever the number of calls in an answer, a breakpoint is where the previous request ended, and
// there are at most four.
func TestBreakpoints(t *testing.T) {
	var calls []llmtest.Call
	for range 30 {
		calls = append(calls, llmtest.Call{Name: "ls"})
	}
	s := llmtest.NewServer(llmtest.Answer{Calls: calls}, llmtest.Answer{Calls: calls}, llmtest.Reply("done"))
	defer s.Close()
	m := anthropic.New(llm.Endpoint{Name: "new", BaseURL: s.URL, Key: llmtest.Key})
	req := &llm.Request{System: "Be brief.", Memo: new(llm.Memo),
		Tools:    []llm.ToolSpec{{Name: "ls", Schema: []byte(`{"type":"object"}`)}},
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text("hi")}}}}
	for range 3 {
		answer, err := llm.Ask(t.Context(), m, req)
		if err != nil {
			t.Fatal(err)
		}
		results := llm.Message{Role: llm.User}
		for _, p := range answer.Message.Parts {
			if p.Call != nil {
				results.Parts = append(results.Parts, llm.Part{Result: &llm.ToolResult{ID: p.Call.ID,
					Parts: []llm.Part{llm.Text("x")}}})
			}
		}
		req.Messages = append(req.Messages, answer.Message, results)
	}
	var ends []int // by request: the number of its messages
	for i, r := range s.Requests() {
		var body struct {
			Messages []struct {
				Content []struct {
					Cache json.RawMessage `json:"cache_control"`
				} `json:"content"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		marked := map[int]bool{}
		for n, m := range body.Messages {
			for j, c := range m.Content {
				if c.Cache != nil {
					marked[n+1] = true
					if j < len(m.Content)-1 {
						t.Errorf("request %d: a breakpoint inside message %d", i, n)
					}
				}
			}
		}
		ends = append(ends, len(body.Messages))
		if !marked[ends[i]] || i > 0 && !marked[ends[i-1]] || len(marked) > 2 {
			t.Errorf("request %d: breakpoints after the messages %v, the requests ended after %v", i, marked, ends)
		}
	}
}
