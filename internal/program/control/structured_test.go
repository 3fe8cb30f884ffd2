package control

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestStructuredOutput: the answer is the input of a tool, or text; five answers are checked.
func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	give := func(input map[string]any) llmtest.Answer { return llmtest.Use("StructuredOutput", input) }
	wrong, right := give(map[string]any{"count": "x"}), give(map[string]any{"count": 3})
	text := llmtest.Reply("three")
	for name, c := range map[string]struct {
		answers []llmtest.Answer
		want    []string
	}{
		"first": {[]llmtest.Answer{right}, []string{`"subtype":"success"`, `"structured_output":{"count":3}`,
			`"result":"{\"count\":3}"`, `"terminal_reason":"completed"`}},
		"second": {[]llmtest.Answer{wrong, right}, []string{`"structured_output":{"count":3}`}},
		"text":   {[]llmtest.Answer{llmtest.Reply(`{"count": 3}`)}, []string{`"structured_output":{"count":3}`}},
		"mixed":  {[]llmtest.Answer{text, wrong, text, right}, []string{`"structured_output":{"count":3}`}},
		"never": {[]llmtest.Answer{wrong, wrong, wrong, wrong, wrong},
			[]string{"error_max_structured_output_retries", "5 attempts"}},
		"no call": {[]llmtest.Answer{text, text, text, text, text}, []string{"error_max_structured_output_retries"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := llmtest.New(c.answers...)
			h := newHost(t, model, nil)
			h.ask("1", `{"subtype":"initialize","jsonSchema":{"type":"object","properties":{"count":{"type":"number"}},`+
				`"required":["count"],"additionalProperties":false}}`)
			h.user("count")
			h.must(h.expect(`"type":"result"`), c.want...)
			h.end()
			if n := len(model.Requests()); n != len(c.answers) {
				t.Errorf("%d requests", n)
			}
			if all := strings.Join(h.lines(), "\n"); strings.Count(all, `"type":"result"`) != 1 {
				t.Error(all)
			}
		})
	}
}
