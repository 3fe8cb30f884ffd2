// Package tasks is the part with the tools TaskCreate, TaskGet, TaskUpdate and TaskList, by which models of Anthropic
// know a list of steps, and with the hooks TaskCreated and TaskCompleted.
//
// The list is that of the tool todo; the agents of a session share it through these tools. A model sees either the one
// or the others: models of Anthropic are trained on these, and for all others todo says the same in half of the text.
// Whichever it does not see it can still call, because skills name it.
package tasks

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

//go:embed help.md
var helpText string

// Part is the part.
func Part() engine.Part {
	return engine.Part{Name: "tasks", Open: open, Help: map[string]string{"tools": helpText},
		Known: func(engine.Brought) engine.PartTools {
			return engine.PartTools{Placed: (&live{both: true}).tools(engine.Place{}, coding.Options{})}
		}}
}

// live is the part in a session.
type live struct {
	conv *engine.Conv
	both bool // the session has these tools and todo: the model decides which it sees
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	l := &live{conv: c, both: true}
	if spec := c.Options().Tools; spec != "" {
		all := append(coding.Tools(nil, coding.Options{}), l.tools(engine.Place{}, coding.Options{})...)
		chosen, _ := tool.Select(all, coding.All, coding.Choice(spec, coding.All))
		_, todo := chosen.Find("todo")
		_, create := chosen.Find("TaskCreate")
		l.both = todo && create
	}
	return &engine.Live{Placed: l.placed, Wrap: l.wrap}, nil
}

// decides reports whether the model decides which tools it sees in a place: an agent whose definition names only the
// one or the others sees these.
func (l *live) decides(in engine.Place) bool {
	names := func(all ...string) bool {
		return slices.ContainsFunc(in.Named, func(rule string) bool { return slices.Contains(all, rule) })
	}
	return l.both && names("todo", "TodoWrite", "TodoRead") == names("TaskCreate", "TaskGet", "TaskUpdate", "TaskList")
}

// known reports whether the model of the session knows these tools by heart.
func (l *live) known() bool {
	return l.conv != nil && strings.Contains(strings.ToLower(l.conv.LastModel().ID), "claude")
}

func (l *live) placed(in engine.Place, o coding.Options) tool.Set {
	if in.Agent == nil {
		o.State.CheckTodos(l.check)
	}
	return l.tools(in, o)
}

// wrap hides todo where the model sees these tools.
func (l *live) wrap(set tool.Set, in engine.Place) tool.Set {
	i := slices.IndexFunc(set, func(t tool.Tool) bool { return t.Name == "todo" })
	if i < 0 || !l.decides(in) {
		return set
	}
	set = slices.Clone(set)
	set[i].Unlisted = l.known
	return set
}

// agentKey is the key of the *agent.Sub that changes a list.
type agentKey struct{}

// check asks the hooks about a step.
func (l *live) check(ctx context.Context, t coding.Todo, what coding.TodoEvent) error {
	in := hook.Input{Event: hook.TaskCreated, Task: &hook.Task{ID: t.ID, Subject: t.Text, Description: t.Description}}
	text := "it was not created"
	if what == coding.TodoCompleted {
		in.Event, text = hook.TaskCompleted, "it was not marked as done"
	}
	if sub, _ := ctx.Value(agentKey{}).(*agent.Sub); sub != nil {
		in.AgentID, in.AgentType = sub.Log, sub.Name
	}
	if err := l.conv.Hook(ctx, in); err != nil {
		return fmt.Errorf("#%s %s: %s: %w", t.ID, t.Text, text, err)
	}
	return nil
}

// A list is the list of a session as the tools of one place work on it.
type list struct {
	*live
	of    *agent.Sub // whose calls change it; nil: those of the session
	state *coding.Memory
}

// shared are the details of a call of an agent.
type shared struct{ coding.TodoDetails }

// Form implements the method by which front ends know how to show the result.
func (shared) Form() session.Form { return session.FormShared }

// change changes the list. That of an agent's call is recorded in the session, whose list it is.
func (l list) change(ctx context.Context, change func(*coding.TodoDetails) error) (coding.TodoDetails, error) {
	if l.of == nil {
		return l.state.ChangeTodos(ctx, change, nil)
	}
	ctx = context.WithValue(ctx, agentKey{}, l.of)
	return l.state.ChangeTodos(ctx, change, func(now coding.TodoDetails) error {
		data, err := json.Marshal(now)
		if err != nil {
			return err
		}
		_, err = l.conv.Log().Append(session.Entry{Type: session.TypeNote, Note: &session.Note{Todos: data}})
		return err
	})
}

// result is that of a call after which the list is now.
func (l list) result(now coding.TodoDetails, text string, structured any) tool.Result {
	res := tool.Text(text)
	res.Structured, res.People, res.Details = structured, now.Line(), now
	if l.of != nil {
		res.Details = shared{now}
	}
	return res
}

// at returns the index of the step with an ID.
func at(all []coding.Todo, id string) (int, error) {
	id = strings.TrimPrefix(strings.TrimSpace(id), "#")
	i := slices.IndexFunc(all, func(t coding.Todo) bool { return t.ID == id })
	if i < 0 {
		return 0, fmt.Errorf("there is no task %q: TaskList shows which there are", id)
	}
	return i, nil
}

// status is what these tools call a state.
func status(state string) string {
	switch state {
	case coding.TodoActive:
		return "in_progress"
	case coding.TodoDone:
		return "completed"
	}
	return "pending"
}

// stateOf is the reverse of status; the states of todo are accepted, too.
func stateOf(status string) (string, error) {
	switch status {
	case "pending":
		return coding.TodoPending, nil
	case "in_progress", coding.TodoActive:
		return coding.TodoActive, nil
	case "completed", coding.TodoDone:
		return coding.TodoDone, nil
	}
	return "", fmt.Errorf("status must be pending, in_progress, completed or deleted, not %q", status)
}

// A taskRef is how results name a task.
type taskRef struct {
	ID          string    `json:"id"`
	Subject     string    `json:"subject"`
	Description *string   `json:"description,omitempty"`
	Status      string    `json:"status,omitempty"`
	Owner       string    `json:"owner,omitempty"`
	Blocks      *[]string `json:"blocks,omitempty"`
	BlockedBy   *[]string `json:"blockedBy,omitempty"`
}

func (l list) create(ctx context.Context, in createInput) (tool.Result, error) {
	now, err := l.change(ctx, func(d *coding.TodoDetails) error {
		if strings.TrimSpace(in.Subject) == "" {
			return errors.New("subject is empty")
		}
		d.Items = append(d.Items, coding.Todo{Text: in.Subject, State: coding.TodoPending, Description: in.Description,
			ActiveForm: in.ActiveForm, Metadata: merged(nil, in.Metadata)})
		return nil
	})
	if err != nil {
		return tool.Result{}, err
	}
	all := now.WithIDs()
	made := all[len(all)-1]
	return l.result(now, fmt.Sprintf("Created task #%s: %s", made.ID, made.Text),
		map[string]any{"task": taskRef{ID: made.ID, Subject: made.Text, Description: &made.Description}}), nil
}

func (l list) update(ctx context.Context, in updateInput) (tool.Result, error) {
	var fields []string
	now, err := l.change(ctx, func(d *coding.TodoDetails) (err error) {
		fields, err = in.apply(d)
		return err
	})
	if err != nil {
		return tool.Result{}, err
	}
	text := "Nothing to change in task #" + in.TaskID
	if len(fields) > 0 {
		text = fmt.Sprintf("Updated task #%s: %s", in.TaskID, strings.Join(fields, ", "))
	}
	if open := openBefore(now.WithIDs(), in.TaskID); in.Status == "in_progress" && len(open) > 0 {
		text += "\nIt is blocked by #" + strings.Join(open, ", #") + ": complete that first."
	}
	return l.result(now, text, map[string]any{"success": true, "taskId": in.TaskID,
		"updatedFields": append([]string{}, fields...)}), nil
}

// apply changes a step, and returns the names of the fields that have changed.
func (in updateInput) apply(d *coding.TodoDetails) (fields []string, err error) {
	i, err := at(d.Items, in.TaskID)
	if err != nil {
		return nil, err
	}
	id := d.Items[i].ID
	if in.Status == "deleted" {
		d.Items = slices.Delete(d.Items, i, i+1)
		for k, t := range d.Items {
			d.Items[k].BlockedBy = without(t.BlockedBy, id)
		}
		return []string{"deleted"}, nil
	}
	t := &d.Items[i]
	set := func(name string, to *string, value string) {
		if value != "" && value != *to {
			*to, fields = value, append(fields, name)
		}
	}
	set("subject", &t.Text, strings.TrimSpace(in.Subject))
	set("description", &t.Description, in.Description)
	set("activeForm", &t.ActiveForm, in.ActiveForm)
	set("owner", &t.Owner, in.Owner)
	if in.Status != "" {
		state, err := stateOf(in.Status)
		if err != nil {
			return nil, err
		}
		set("status", &t.State, state)
	}
	if len(in.Metadata) > 0 {
		t.Metadata, fields = merged(t.Metadata, in.Metadata), append(fields, "metadata")
	}
	for _, other := range in.AddBlocks {
		if fields, err = block(d, fields, "addBlocks", other, id); err != nil {
			return nil, err
		}
	}
	for _, other := range in.AddBlockedBy {
		if fields, err = block(d, fields, "addBlockedBy", id, other); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// block makes a step wait for another one, as a field says, and adds the field's name to those that have changed.
func block(d *coding.TodoDetails, fields []string, name, blocked, by string) ([]string, error) {
	i, err := at(d.Items, blocked)
	j, bad := at(d.Items, by)
	if err = cmp.Or(err, bad); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if i == j {
		return nil, fmt.Errorf("%s: a task cannot wait for itself", name)
	}
	if t := &d.Items[i]; !slices.Contains(t.BlockedBy, d.Items[j].ID) {
		t.BlockedBy = append(slices.Clone(t.BlockedBy), d.Items[j].ID)
		if !slices.Contains(fields, name) {
			fields = append(fields, name)
		}
	}
	return fields, nil
}

// merged returns metadata with the values of more; null removes a key. The result is a copy.
func merged(into, more map[string]any) map[string]any {
	if len(more) == 0 {
		return into
	}
	into = maps.Clone(into)
	if into == nil {
		into = map[string]any{}
	}
	maps.Copy(into, more)
	maps.DeleteFunc(into, func(_ string, value any) bool { return value == nil })
	return into
}

// without returns a list without a text. The list itself stays as it is.
func without(all []string, text string) (left []string) {
	for _, x := range all {
		if x != text {
			left = append(left, x)
		}
	}
	return left
}

// openBefore returns the IDs of what is to be done before a step and is not done.
func openBefore(all []coding.Todo, id string) (open []string) {
	i, err := at(all, id)
	if err != nil {
		return nil
	}
	for _, by := range all[i].BlockedBy {
		if k, err := at(all, by); err == nil && all[k].State != coding.TodoDone {
			open = append(open, by)
		}
	}
	return open
}

func (l list) get(id string) (tool.Result, error) {
	now := l.state.Todos()
	all := now.WithIDs()
	i, err := at(all, id)
	if err != nil {
		return tool.Result{}, err
	}
	t := all[i]
	ref := taskRef{ID: t.ID, Subject: t.Text, Description: &t.Description, Status: status(t.State), Owner: t.Owner,
		Blocks: &[]string{}, BlockedBy: &[]string{}}
	*ref.BlockedBy = append(*ref.BlockedBy, t.BlockedBy...)
	for _, other := range all {
		if slices.Contains(other.BlockedBy, t.ID) {
			*ref.Blocks = append(*ref.Blocks, other.ID)
		}
	}
	text := "Task " + line(all, t)
	for _, more := range [...]struct{ name, text string }{{"Description", t.Description},
		{"Blocks", strings.Join(*ref.Blocks, ", ")}, {"Blocked by", strings.Join(t.BlockedBy, ", ")}} {
		if more.text != "" {
			text += "\n" + more.name + ": " + more.text
		}
	}
	if len(t.Metadata) > 0 {
		if data, err := json.Marshal(t.Metadata); err == nil {
			text += "\nMetadata: " + string(data)
		}
	}
	return l.result(now, text, map[string]any{"task": ref}), nil
}

// line describes a step in one line.
func line(all []coding.Todo, t coding.Todo) string {
	text := fmt.Sprintf("#%s [%s] %s", t.ID, status(t.State), t.Text)
	if t.Owner != "" {
		text += " (" + t.Owner + ")"
	}
	if open := openBefore(all, t.ID); len(open) > 0 {
		text += " [blocked by #" + strings.Join(open, ", #") + "]"
	}
	return text
}

func (l list) all() (tool.Result, error) {
	now := l.state.Todos()
	all := now.WithIDs()
	lines, refs := []string{}, []taskRef{}
	for _, t := range all {
		open := append([]string{}, openBefore(all, t.ID)...)
		lines = append(lines, line(all, t))
		refs = append(refs, taskRef{ID: t.ID, Subject: t.Text, Status: status(t.State), Owner: t.Owner, BlockedBy: &open})
	}
	return l.result(now, cmp.Or(strings.Join(lines, "\n"), "There are no tasks."), map[string]any{"tasks": refs}), nil
}

// harmless returns the subjects of a tool about whose calls nobody is asked.
func harmless(name string) func(context.Context, json.RawMessage) ([]permission.Subject, error) {
	return func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: permission.Kind(name), Default: permission.Allow}}, nil
	}
}
