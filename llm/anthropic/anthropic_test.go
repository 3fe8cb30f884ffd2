package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/llm/anthropic"
	"github.com/knack-agent/knack/llm/llmtest"
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
