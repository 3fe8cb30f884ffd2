package session

import (
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// TestTodosByForm: a list of steps is one because its tool says so, whatever the tool is called; only in a log from
// before forms were recorded does the name count, and never for results that a hook has replaced.
func TestTodosByForm(t *testing.T) {
	list := json.RawMessage(`{"items":[]}`)
	for _, x := range []struct {
		result Result
		want   bool
	}{
		{Result{ToolResult: llm.ToolResult{Name: "steps"}, Form: FormTodos, Details: list}, true},
		{Result{ToolResult: llm.ToolResult{Name: "todo"}, Details: list}, true},
		{Result{ToolResult: llm.ToolResult{Name: "TaskUpdate"}, Details: list}, true},
		{Result{ToolResult: llm.ToolResult{Name: "todo"}, Form: FormOutput, Details: list}, false},
		{Result{ToolResult: llm.ToolResult{Name: "todo"}, Details: list, Original: &Original{}}, false},
		{Result{ToolResult: llm.ToolResult{Name: "todo", IsError: true}, Form: FormTodos, Details: list}, false},
		{Result{ToolResult: llm.ToolResult{Name: "read"}, Details: list}, false},
	} {
		if got := x.result.Todos() != nil; got != x.want {
			t.Errorf("%+v: %v", x.result, got)
		}
		l := New(Header{})
		mustAppend(t, l, Entry{Type: TypeResult, Result: &x.result})
		if got := l.State().Details[x.result.Name].Form == FormTodos; got != x.want && !x.result.IsError {
			t.Errorf("%+v in the state: %v", x.result, got)
		}
	}
}
