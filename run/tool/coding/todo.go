package coding

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed todo.md
var todoText string

//go:embed todo.json
var todoSchema []byte

// The states of a Todo.
const (
	TodoPending = "pending"
	TodoActive  = "active"
	TodoDone    = "done"
)

// A Todo is one step of a task.
type Todo struct {
	Text  string `json:"text"`
	State string `json:"state,omitempty" jsonschema:"pending, active or done; pending if left out"`
}

// A todoInput is the input of the tool. Without items and item, the call only shows the list.
type todoInput struct {
	Items *[]Todo     `json:"items,omitempty" jsonschema:"the whole list, in order"`
	Item  *todoChange `json:"item,omitempty" jsonschema:"instead of items: one step to add or, with its id, to change"`
}

// A todoChange adds a step, or changes the step with the given ID, which is its number
// in the list.
type todoChange struct {
	ID    string `json:"id,omitempty" jsonschema:"the step's number"`
	Text  string `json:"text,omitempty"`
	State string `json:"state,omitempty" jsonschema:"pending, active or done"`
}

// todoDetails are the Details of a result: the list after the call. Sessions store them,
// and [Memory.RestoreTodos] reads them.
type todoDetails struct {
	Items []Todo `json:"items"`
}

// Form implements the method by which front ends know how to show the result.
func (todoDetails) Form() session.Form { return session.FormTodos }

// todoTool returns the tool todo, which keeps its list in m.
func todoTool(m *Memory) tool.Tool {
	t := tool.Define("todo", strings.TrimSpace(todoText), todoSchema,
		func(_ context.Context, in todoInput, _ tool.Input) (tool.Result,
			error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			items, err := in.apply(m.todos)
			if err != nil {
				return tool.Result{}, err
			}
			m.todos = items
			res := tool.Text(todoList(items))
			res.Details = todoDetails{Items: append([]Todo{}, items...)}
			done := 0
			for _, it := range items {
				if it.State == TodoDone {
					done++
				}
			}
			res.People = fmt.Sprintf("%d of %s done", done, count(len(items), "step"))
			return res, nil
		})
	t.Effect = tool.Reads // it changes nothing outside the session
	t.Aliases = []string{"TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate", "TaskList"}
	t.Ordered = true // each call changes the list that the previous call left
	t.Fields = []tool.Field{{Name: "items", Other: []string{"todos"}}, {Name: "items.text",
		Other: []string{"content", "subject"}}, {Name: "items.state", Other: []string{"status"}}}
	t.Convert = convertTodo
	t.Summary = tool.SummaryOf(func(in todoInput) string {
		switch {
		case in.Items != nil:
			return count(len(*in.Items), "step")
		case in.Item != nil && in.Item.ID != "":
			return strings.TrimSpace("step " + in.Item.ID + " " + in.Item.State)
		case in.Item != nil:
			return in.Item.Text
		}
		return "the list"
	})
	t.Subjects = toolSubject("todo")
	return t
}

// apply returns the list after the call.
func (in todoInput) apply(items []Todo) ([]Todo, error) {
	items = slices.Clone(items)
	switch c := in.Item; {
	case in.Items != nil && c != nil:
		return nil, fmt.Errorf("items and item are both set: use one of them")
	case in.Items != nil:
		items = *in.Items
	case c != nil && c.ID == "":
		items = append(items, Todo{Text: c.Text, State: c.State})
	case c != nil:
		n, err := strconv.Atoi(c.ID)
		if err != nil || n < 1 || n > len(items) {
			return nil, fmt.Errorf("there is no step %q: the list has %s", c.ID, count(len(items), "step"))
		}
		if c.Text != "" {
			items[n-1].Text = c.Text
		}
		if c.State != "" {
			items[n-1].State = c.State
		}
	}
	for i := range items {
		t := &items[i]
		if strings.TrimSpace(t.Text) == "" {
			return nil, fmt.Errorf("step %d has no text", i+1)
		}
		switch t.State {
		case "":
			t.State = TodoPending
		case TodoPending, TodoActive, TodoDone:
		default:
			return nil, fmt.Errorf("step %d: the state must be pending, active or done, not %q", i+1, t.State)
		}
	}
	return items, nil
}

// todoList formats the list as the model and the user see it.
func todoList(items []Todo) string {
	if len(items) == 0 {
		return "The list is empty."
	}
	var b strings.Builder
	for i, t := range items {
		fmt.Fprintf(&b, "%d. [%s] %s\n", i+1, t.State, t.Text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// convertTodo accepts the inputs of TodoWrite, and those of TaskCreate (subject) and TaskUpdate (taskId, status).
func convertTodo(in tool.Object) {
	if steps := in.Objects("items"); steps != nil {
		for _, step := range steps {
			convertState(step)
			for _, name := range []string{"id", "taskId", "activeForm", "priority"} {
				delete(step, name)
			}
		}
		in.Set("items", steps)
	}
	if in.Has("items") || in.Has("item") {
		return
	}
	step := tool.Object{}
	for other, name := range map[string]string{"taskId": "id", "subject": "text", "status": "state"} {
		if in.Has(other) {
			step[name] = in[other]
			delete(in, other)
		}
	}
	if len(step) == 0 {
		return
	}
	for _, name := range []string{"description", "activeForm", "metadata", "owner", "addBlocks", "addBlockedBy"} {
		delete(in, name)
	}
	convertState(step)
	in.Set("item", step)
}

// convertState replaces the states of other agents.
func convertState(step tool.Object) {
	switch string(step["state"]) {
	case `"in_progress"`:
		step.Set("state", TodoActive)
	case `"completed"`:
		step.Set("state", TodoDone)
	}
}

// AddTodos adds steps that are not on the list, by their texts.
func (m *Memory) AddTodos(texts []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.todos = slices.Clone(m.todos)
	for _, text := range texts {
		if !slices.ContainsFunc(m.todos, func(t Todo) bool { return t.Text == text }) {
			m.todos = append(m.todos, Todo{Text: text, State: TodoPending})
		}
	}
}

// RestoreTodos sets the list from the Details of a todo result. If details is nil or malformed, the list is empty.
func (m *Memory) RestoreTodos(details json.RawMessage) {
	var d todoDetails
	if json.Unmarshal(details, &d) != nil {
		d.Items = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.todos = d.Items
}
