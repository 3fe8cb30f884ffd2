package work

import (
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// TestUncertain: a call that was cut off when the run was stopped may have happened, as one without a result.
func TestUncertain(t *testing.T) {
	r := &running{log: session.New(session.Header{})}
	add := func(e session.Entry) {
		if _, err := r.log.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	var calls []llm.Part
	for _, id := range []string{"done", "cut", "open", "never"} {
		calls = append(calls, llm.Part{Call: &llm.ToolCall{ID: id, Name: "bash",
			Input: json.RawMessage(`{"command":"` + id + `"}`)}})
	}
	add(session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text("x")}}})
	answer := llm.Message{Role: llm.Assistant, Parts: calls}
	add(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{Message: answer}})
	for _, id := range []string{"done", "cut", "open"} {
		add(session.Entry{Type: session.TypeStarted, Started: &session.Started{Call: id, Name: "bash"}})
	}
	for id, people := range map[string]string{"done": "", "cut": tool.Aborted, "never": tool.Aborted} {
		add(session.Entry{Type: session.TypeResult, Result: &session.Result{People: people,
			ToolResult: llm.ToolResult{ID: id, Name: "bash"}}})
	}
	got := batch.UncertainCalls(batch.Run{Rows: r.uncertain()})
	if len(got) != 2 || got[0] != `bash {"command":"cut"}` || got[1] != `bash {"command":"open"}` {
		t.Errorf("%q", got)
	}
}
