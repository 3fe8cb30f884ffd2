// Package batch provides the tool Batch, with which a model has many tasks done side by side, each by a run of its own
// that outlives the conversation.
//
// Each run costs money, so each call that starts some needs the user's answer, whatever the rules are, and names the
// most that they may cost. The runs have no more rights than the settings of the user and the project give: a run that
// must ask waits until the user answers. Who keeps and runs them is a [Keeper].
//
// Most programs start with package engine.
package batch

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed Batch.json
var schema []byte

// A Keeper keeps batches. Its methods are safe for concurrent use.
type Keeper interface {
	// Start adds the tasks of a batch of a directory that are not in it yet, and runs them. seen is what the conversation
	// has read, by the ID of the task; it goes wherever a task goes. The text is for the model.
	Start(ctx context.Context, dir string, b Input, seen map[string]session.Seen) (text string, err error)
	// Status describes a batch of a directory.
	Status(ctx context.Context, dir, name string) (text string, err error)
	// Waits calls told for each question for which a task of a batch of a directory waits, once, until all tasks have
	// ended or ctx is done.
	Waits(ctx context.Context, dir, name string, told func(Waiting))
}

// A Waiting is a task that waits for the user's answer.
type Waiting struct {
	Task     string // its ID
	Question string // in one line
	Command  string // with which the user answers
}

// An Input is what the model asks for.
type Input struct {
	Name      string  `json:"name" jsonschema:"of the batch; the same name adds tasks to it"`
	Tasks     []Task  `json:"tasks,omitempty" jsonschema:"none: report how the batch stands, and the results so far"`
	MaxCost   float64 `json:"max_cost,omitempty" jsonschema:"US dollars that all tasks together may cost; needed with tasks"`
	Jobs      int     `json:"jobs,omitempty" jsonschema:"how many run at a time; default 4"`
	Isolation string  `json:"isolation,omitempty" jsonschema:"none, worktree (a git branch for each task), or copy; default none"`
}

// A Task is one piece of work.
type Task struct {
	ID     string `json:"id" jsonschema:"unique in the batch"`
	Prompt string `json:"prompt" jsonschema:"what to do; the run knows nothing of this conversation"`
}

// most is how many tasks a call may have.
const most = 1000

func (in Input) check() error {
	if strings.TrimSpace(in.Name) == "" || len(in.Name) > 100 {
		return fmt.Errorf("name has 1 to 100 bytes")
	}
	if len(in.Tasks) == 0 {
		return nil
	}
	switch {
	case len(in.Tasks) > most:
		return fmt.Errorf("%d tasks are more than %d", len(in.Tasks), most)
	case !(in.MaxCost > 0):
		return fmt.Errorf("max_cost is needed: what all tasks together may cost, in US dollars")
	case in.Jobs < 0 || in.Jobs > 16:
		return fmt.Errorf("jobs is 1 to 16")
	case in.Isolation != "" && in.Isolation != "none" && in.Isolation != "worktree" && in.Isolation != "copy":
		return fmt.Errorf("isolation is none, worktree or copy, not %q", in.Isolation)
	}
	seen := map[string]bool{}
	for i, t := range in.Tasks {
		switch {
		case strings.TrimSpace(t.ID) == "" || len(t.ID) > 200:
			return fmt.Errorf("tasks[%d]: id has 1 to 200 bytes", i)
		case strings.TrimSpace(t.Prompt) == "":
			return fmt.Errorf("tasks[%d]: the prompt is empty", i)
		case seen[t.ID]:
			return fmt.Errorf("tasks[%d]: the id %q is there twice", i, t.ID)
		}
		seen[t.ID] = true
	}
	return nil
}

// Tools returns the tool for the batches of a directory. marks returns what the conversation has read, for the session
// that gets a prompt; nil: nothing. With a nil Keeper the tool must not be called.
func Tools(k Keeper, dir string, marks func(prompt string) session.Seen) tool.Set {
	if marks == nil {
		marks = func(string) session.Seen { return session.Seen{} }
	}
	t := tool.Define("Batch", "Has many independent tasks done side by side, each by a run of its own in this directory, "+
		"which goes on when this conversation ends. The user is asked before they start. Without tasks it reports how a "+
		"batch stands.", schema,
		func(ctx context.Context, in Input, _ tool.Input) (tool.Result, error) {
			err := in.check()
			text := ""
			switch {
			case err != nil:
			case len(in.Tasks) == 0:
				text, err = k.Status(ctx, dir, in.Name)
			default:
				seen := map[string]session.Seen{}
				for _, t := range in.Tasks {
					seen[t.ID] = marks(t.Prompt)
				}
				text, err = k.Start(ctx, dir, in, seen)
			}
			if err != nil {
				return tool.Result{}, err
			}
			return tool.Text(text), nil
		})
	t.Effect, t.Ordered = tool.Writes|tool.Runs, true
	t.Strangers = tool.SummaryOf(func(in Input) string {
		if len(in.Tasks) > 0 {
			return ""
		}
		return "another session, which may have it from the web"
	})
	t.Summary = tool.SummaryOf(func(in Input) string {
		if len(in.Tasks) == 0 {
			return in.Name
		}
		return fmt.Sprintf("%s: %s for at most $%.2f", in.Name, plain.Count(len(in.Tasks), "task"), in.MaxCost)
	})
	t.Subjects = func(_ context.Context, data json.RawMessage) ([]permission.Subject, error) {
		var in Input
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		if err := in.check(); err != nil {
			return nil, err
		}
		if len(in.Tasks) == 0 {
			return []permission.Subject{{Kind: "Batch", Text: in.Name, Default: permission.Allow, ReadOnly: true}}, nil
		}
		var ids, carry []string
		for _, t := range in.Tasks {
			ids = append(ids, plain.Line(t.ID))
			if marks(t.Prompt).Prompt {
				carry = append(carry, plain.Line(t.ID))
			}
		}
		note := fmt.Sprintf("each of %s runs in a session of its own in %s", plain.List(ids, 5), plain.Line(dir))
		if len(carry) > 0 {
			note = "the prompt of " + plain.List(carry, 5) + " carries text that this session read from a secret, and is stored; " +
				note
		}
		return []permission.Subject{{Kind: "Batch", Text: in.Name, EveryTime: true,
			Question: fmt.Sprintf("Start %s for at most $%.2f?", plain.Count(len(in.Tasks), "task"), in.MaxCost),
			Note:     note}}, nil
	}
	t.Unlisted = func() bool { return true } // few conversations need it: skills name it
	return tool.Set{t}
}
