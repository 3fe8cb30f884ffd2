// Package monitor is the part with the tool Monitor: a background command whose lines the model is told. Models see it
// if a skill grants it; that a background command ends is told without it.
package monitor

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// Part is the tool Monitor. Its commands end with the conversation.
func Part() engine.Part {
	return engine.Part{Name: "monitor", Open: open, Known: func(engine.Brought) engine.PartTools {
		return engine.PartTools{Unlisted: tool.Set{coding.Monitor(nil, coding.Options{})}}
	}}
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	var mu sync.Mutex
	var options coding.Options
	here := func() tool.Tool {
		mu.Lock()
		defer mu.Unlock()
		return coding.Monitor(c.Here().Workspace, options)
	}
	t := coding.Monitor(nil, coding.Options{})
	t.Run = func(ctx context.Context, call tool.Input) (tool.Result, error) { return here().Run(ctx, call) }
	t.Subjects = func(ctx context.Context, in json.RawMessage) ([]permission.Subject, error) {
		return here().Subjects(ctx, in)
	}
	return &engine.Live{
		Placed: func(_ engine.Place, o coding.Options) tool.Set {
			mu.Lock()
			defer mu.Unlock()
			options = o
			return nil
		},
		Tools: func() engine.PartTools { return engine.PartTools{Unlisted: tool.Set{t}} },
	}, nil
}
