package tasks

import (
	"context"
	_ "embed"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

//go:embed TaskCreate.json
var createSchema []byte

//go:embed TaskGet.json
var getSchema []byte

//go:embed TaskUpdate.json
var updateSchema []byte

//go:embed TaskList.json
var listSchema []byte

// The inputs are those of the Agent SDK's tools of these names, except that a description may be left out.
type (
	createInput struct {
		Subject     string         `json:"subject" jsonschema:"a short title"`
		Description string         `json:"description,omitempty" jsonschema:"what is to be done"`
		ActiveForm  string         `json:"activeForm,omitempty" jsonschema:"what is said meanwhile: Running tests"`
		Metadata    map[string]any `json:"metadata,omitempty"`
	}
	getInput struct {
		TaskID string `json:"taskId"`
	}
	updateInput struct {
		TaskID       string         `json:"taskId"`
		Subject      string         `json:"subject,omitempty"`
		Description  string         `json:"description,omitempty"`
		ActiveForm   string         `json:"activeForm,omitempty"`
		Status       string         `json:"status,omitempty" jsonschema:"pending, in_progress, completed or deleted"`
		AddBlocks    []string       `json:"addBlocks,omitempty" jsonschema:"IDs of tasks that wait for this one"`
		AddBlockedBy []string       `json:"addBlockedBy,omitempty" jsonschema:"IDs of tasks that this one waits for"`
		Owner        string         `json:"owner,omitempty"`
		Metadata     map[string]any `json:"metadata,omitempty" jsonschema:"keys to set; null removes one"`
	}
)

// tools returns the tools as they work in a place.
func (l *live) tools(in engine.Place, o coding.Options) tool.Set {
	on := list{l, in.Agent, o.State}
	set := tool.Set{
		tool.Define("TaskCreate", "Puts a task on the list of steps of a longer piece of work, which the user sees and all "+
			"agents share.", createSchema, func(ctx context.Context, in createInput, _ tool.Input) (tool.Result, error) {
			return on.create(ctx, in)
		}),
		tool.Define("TaskGet", "Shows a task with its description.", getSchema,
			func(_ context.Context, in getInput, _ tool.Input) (tool.Result, error) { return on.get(in.TaskID) }),
		tool.Define("TaskUpdate", "Changes a task. Mark it in_progress before the work on it and completed when it is done.",
			updateSchema, func(ctx context.Context, in updateInput, _ tool.Input) (tool.Result, error) {
				in.TaskID = strings.TrimPrefix(strings.TrimSpace(in.TaskID), "#")
				return on.update(ctx, in)
			}),
		tool.Define("TaskList", "Shows all tasks, in order.", listSchema,
			func(context.Context, struct{}, tool.Input) (tool.Result, error) { return on.all() }),
	}
	for i := range set {
		t := &set[i]
		t.Effect, t.Ordered, t.Subjects = tool.Reads, true, harmless(t.Name)
		if l.decides(in) {
			t.Unlisted = func() bool { return !l.known() }
		}
		t.Fields = []tool.Field{{Name: "taskId", Other: []string{"id", "task_id"}}}
	}
	set[0].Fields = []tool.Field{{Name: "subject", Other: []string{"title", "content"}}}
	set[3].Convert = tool.Only()
	set[0].Summary = tool.SummaryOf(func(in createInput) string { return in.Subject })
	set[2].Summary = tool.SummaryOf(func(in updateInput) string {
		return strings.TrimSpace("#" + in.TaskID + " " + in.Status)
	})
	return set
}
