// Package schedule is the part with which a model runs prompts at certain times.
package schedule

import (
	"context"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/schedule"
)

// Part is CronCreate, CronList and CronDelete. k keeps the schedules; nil: the part is off. They run on this machine,
// so the part is off, too, where the workspace is elsewhere.
func Part(k schedule.Keeper) engine.Part {
	return engine.Part{Name: "schedule",
		Known: func(engine.Brought) engine.PartTools { return engine.PartTools{Unlisted: schedule.Tools(nil, "", nil)} },
		Open: func(_ context.Context, c *engine.Conv) (*engine.Live, error) {
			if _, local := c.Place().Workspace.(*workspace.Local); k == nil || !local {
				return nil, nil
			}
			marks := func(prompt string) session.Seen { return c.Reads().Marks(prompt) }
			tools := schedule.Tools(k, c.Project().Dir(), marks)
			return &engine.Live{Tools: func() engine.PartTools { return engine.PartTools{Unlisted: tools} }}, nil
		}}
}
