package coding

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/run/tool"
)

//go:embed todo.md
var todoText string

//go:embed todo.json
var todoSchema []byte

// A todoItem is a step in the input of the tool.
type todoItem struct {
	Text  string `json:"text"`
	State string `json:"state,omitempty" jsonschema:"pending, active or done; pending if left out"`
}

// A todoInput is the input of the tool. Without items and item, the call only shows the list.
type todoInput struct {
	Items *[]todoItem `json:"items,omitempty" jsonschema:"the whole list, in order"`
	Item  *todoChange `json:"item,omitempty" jsonschema:"instead of items: one step to add or, with its id, to change"`
}

// A todoChange adds a step, or changes the step with the given ID, which is its number
// in the list.
type todoChange struct {
	ID    string `json:"id,omitempty" jsonschema:"the step's number"`
	Text  string `json:"text,omitempty"`
	State string `json:"state,omitempty" jsonschema:"pending, active or done"`
}

// todoTool returns the tool todo, which keeps its list in m.
func todoTool(m *Memory) tool.Tool {
	t := tool.Define("todo", strings.TrimSpace(todoText), todoSchema,
		func(ctx context.Context, in todoInput, _ tool.Input) (tool.Result, error) {
			list, err := m.todos.change(ctx, in.apply, nil)
			if err != nil {
				return tool.Result{}, err
			}
			return list.result(), nil
		})
	t.Effect = tool.Reads // it changes nothing outside the session
	t.Aliases = []string{"TodoWrite", "TodoRead"}
	t.Ordered = true // each call changes the list that the previous call left
	t.Fields = []tool.Field{{Name: "items", Other: []string{"todos"}}, {Name: "items.text",
		Other: []string{"content"}}, {Name: "items.state", Other: []string{"status"}}}
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
func (in todoInput) apply(d *TodoDetails) error {
	switch c := in.Item; {
	case in.Items != nil && c != nil:
		return fmt.Errorf("items and item are both set: use one of them")
	case in.Items != nil:
		d.Items, d.Last = replaced(d.Items, *in.Items), 0
	case c != nil && c.ID == "":
		d.Items = append(d.Items, Todo{Text: c.Text, State: c.State})
	case c != nil:
		n := slices.IndexFunc(d.Items, func(t Todo) bool { return t.ID == c.ID })
		if n < 0 {
			return fmt.Errorf("there is no step %q: the list has %s", c.ID, count(len(d.Items), "step"))
		}
		t := &d.Items[n]
		t.Text, t.State = cmp.Or(c.Text, t.Text), cmp.Or(c.State, t.State)
	}
	for i := range d.Items {
		t := &d.Items[i]
		if strings.TrimSpace(t.Text) == "" {
			return fmt.Errorf("step %d has no text", i+1)
		}
		switch t.State {
		case "":
			t.State = TodoPending
		case TodoPending, TodoActive, TodoDone:
		default:
			return fmt.Errorf("step %d: the state must be pending, active or done, not %q", i+1, t.State)
		}
	}
	return nil
}

// replaced returns the list that takes the place of another. It is numbered anew; a step whose text was there before
// keeps what tools other than todo said about it.
func replaced(old []Todo, by []todoItem) []Todo {
	all, ids := make([]Todo, len(by)), map[string]string{}
	for i, item := range by {
		if at := slices.IndexFunc(old, func(t Todo) bool { return t.Text == item.Text }); at >= 0 {
			all[i] = old[at]
			ids[old[at].ID] = strconv.Itoa(i + 1)
		}
		all[i].ID, all[i].Text, all[i].State = strconv.Itoa(i+1), item.Text, item.State
	}
	for i := range all {
		var left []string
		for _, id := range all[i].BlockedBy {
			if ids[id] != "" {
				left = append(left, ids[id])
			}
		}
		all[i].BlockedBy = left
	}
	return all
}

// result is the list as the model and the user see it.
func (d TodoDetails) result() tool.Result {
	if len(d.Items) == 0 {
		res := tool.Text("The list is empty.")
		res.Details, res.People = d, d.Line()
		return res
	}
	var b strings.Builder
	for _, t := range d.WithIDs() {
		fmt.Fprintf(&b, "%s. [%s] %s\n", t.ID, t.State, t.Text)
	}
	res := tool.Text(strings.TrimSuffix(b.String(), "\n"))
	res.Details, res.People = d, d.Line()
	return res
}

// Line says how much of the list is done.
func (d TodoDetails) Line() string {
	done := 0
	for _, t := range d.Items {
		if t.State == TodoDone {
			done++
		}
	}
	return fmt.Sprintf("%d of %s done", done, count(len(d.Items), "step"))
}

// convertTodo accepts the inputs of TodoWrite.
func convertTodo(in tool.Object) {
	if steps := in.Objects("items"); steps != nil {
		for _, step := range steps {
			convertState(step)
			for _, name := range []string{"id", "activeForm", "priority"} {
				delete(step, name)
			}
		}
		in.Set("items", steps)
	}
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
