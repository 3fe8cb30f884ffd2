// Package schedule provides the tools CronCreate, CronList and CronDelete, with which a model schedules prompts.
//
// The tools have the names and inputs that skills for other agents use. A schedule outlives its conversation, runs
// without a user, and costs money each time; so each call that makes or deletes one needs the user's answer, whatever
// the rules are. Who keeps and runs schedules is a [Keeper].
//
// Most programs start with package engine.
package schedule

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/cron"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

var (
	//go:embed CronCreate.json
	createSchema []byte
	//go:embed CronList.json
	listSchema []byte
	//go:embed CronDelete.json
	deleteSchema []byte
)

// A Keeper keeps the schedules of a directory. Its methods are safe for concurrent use.
type Keeper interface {
	// Create adds a schedule of five cron fields in the time zone of the machine, and completes it. note is for the
	// model, such as that nothing runs schedules now.
	Create(ctx context.Context, dir string, s Schedule) (created Schedule, note string, err error)
	// List returns the schedules of a directory.
	List(ctx context.Context, dir string) ([]Schedule, error)
	// Delete removes a schedule of a directory.
	Delete(ctx context.Context, dir, id string) error
}

// A Schedule is a prompt that runs at certain times.
type Schedule struct {
	ID     string
	Rule   string // when: five cron fields, or what else the user may write
	Prompt string
	Once   bool
	Paused bool
	Next   time.Time // zero: it does not run any more
	// Seen is what the conversation that creates it has read: its runs count as having read it, too.
	Seen session.Seen
}

type createInput struct {
	Cron      string `json:"cron" jsonschema:"minute hour day-of-month month day-of-week, in the user's time zone"`
	Prompt    string `json:"prompt" jsonschema:"what to do then; the run knows nothing of this conversation"`
	Recurring *bool  `json:"recurring,omitempty" jsonschema:"false: only at the next of these times; default true"`
}

func (in createInput) once() bool { return in.Recurring != nil && !*in.Recurring }

func (in createInput) check() error {
	if len(strings.Fields(in.Cron)) != 5 {
		return fmt.Errorf("cron has five fields (minute hour day-of-month month day-of-week), not %q", in.Cron)
	}
	if strings.TrimSpace(in.Prompt) == "" {
		return fmt.Errorf("the prompt is empty")
	}
	_, err := cron.Parse(in.Cron)
	return err
}

type deleteInput struct {
	ID string `json:"id" jsonschema:"as CronCreate and CronList give it"`
}

// Tools returns the tools for the schedules of a directory. marks returns what the conversation has read, for the session
// that gets a prompt; nil: nothing. With a nil Keeper they must not be called.
func Tools(k Keeper, dir string, marks func(prompt string) session.Seen) tool.Set {
	if marks == nil {
		marks = func(string) session.Seen { return session.Seen{} }
	}
	create := tool.Define("CronCreate",
		"Runs a prompt at certain times, in a session of its own in this directory, without "+
			"the user: what no permission rule allows is refused there. The user is asked before it is stored. It outlives "+
			"this "+"conversation; CronDelete ends it.", createSchema,
		func(ctx context.Context, in createInput, _ tool.Input) (tool.Result, error) {
			if err := in.check(); err != nil {
				return tool.Result{}, err
			}
			s, note, err := k.Create(ctx, dir, Schedule{Rule: in.Cron, Prompt: in.Prompt, Once: in.once(),
				Seen: marks(in.Prompt)})
			if err != nil {
				return tool.Result{}, err
			}
			text := "Created the schedule " + line(s) + "."
			if note != "" {
				text += " " + note
			}
			return tool.Text(text), nil
		})
	create.Effect, create.Ordered = tool.Writes|tool.Runs, true
	create.Convert = tool.Only("cron", "prompt", "recurring")
	create.Summary = tool.SummaryOf(func(in createInput) string { return in.Cron + ": " + in.Prompt })
	create.Subjects = func(_ context.Context, data json.RawMessage) ([]permission.Subject, error) {
		var in createInput
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		if err := in.check(); err != nil {
			return nil, err
		}
		often := "at each of the times " + in.Cron
		if in.once() {
			often = "at the next of the times " + in.Cron
		}
		note := "it runs in " + plain.Line(dir) + " " + plain.Line(often) + ", without you, and each run costs"
		if marks(in.Prompt).Prompt {
			note = "the prompt carries text that this session read from a secret, and is stored; " + note
		}
		return []permission.Subject{{Kind: "CronCreate", Text: in.Cron + ": " + in.Prompt, EveryTime: true,
			Question: "Create this schedule?", Note: note}}, nil
	}
	list := tool.Define("CronList", "Lists the schedules of this directory.", listSchema,
		func(ctx context.Context, _ struct{}, _ tool.Input) (tool.Result, error) {
			all, err := k.List(ctx, dir)
			if err != nil {
				return tool.Result{}, err
			}
			if len(all) == 0 {
				return tool.Text("This directory has no schedules."), nil
			}
			lines := make([]string, len(all))
			for i, s := range all {
				lines[i] = line(s) + ": " + plain.Line(s.Prompt)
			}
			return tool.Text(strings.Join(lines, "\n")), nil
		})
	list.Effect, list.Strangers = tool.Reads, tool.From("another session, which may have it from the web")
	list.Convert = tool.Only()
	list.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: "CronList", Default: permission.Allow, ReadOnly: true}}, nil
	}
	remove := tool.Define("CronDelete", "Deletes a schedule of this directory. The user is asked.", deleteSchema,
		func(ctx context.Context, in deleteInput, _ tool.Input) (tool.Result, error) {
			if err := k.Delete(ctx, dir, in.ID); err != nil {
				return tool.Result{}, err
			}
			return tool.Text("Deleted the schedule " + plain.Line(in.ID) + "."), nil
		})
	remove.Effect, remove.Ordered = tool.Writes, true
	remove.Convert = tool.Only("id")
	remove.Subjects = func(_ context.Context, data json.RawMessage) ([]permission.Subject, error) {
		var in deleteInput
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		return []permission.Subject{{Kind: "CronDelete", Text: in.ID, EveryTime: true,
			Question: "Delete the schedule " + plain.Line(in.ID) + "?"}}, nil
	}
	set := tool.Set{create, list, remove}
	for i := range set {
		// Few conversations need them: skills name them.
		set[i].Unlisted = func() bool { return true }
	}
	return set
}

// line describes a schedule without its prompt.
func line(s Schedule) string {
	text := s.ID + " (" + plain.Line(s.Rule)
	if s.Once {
		text += ", once"
	}
	switch {
	case s.Paused:
		text += ", paused"
	case s.Next.IsZero():
		text += ", over"
	default:
		text += ", next " + s.Next.Format("Mon 2006-01-02 15:04 MST")
	}
	return text + ")"
}
