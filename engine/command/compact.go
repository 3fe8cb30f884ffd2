package command

import (
	"context"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
)

// compact implements /compact. The summary pays most attention to focus, which may be empty.
func compact(ctx context.Context, s *engine.Session, focus string) (engine.Reply, error) {
	e, err := s.Summarise(ctx, engine.Summary{Focus: focus})
	if err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Text: e.Compaction.Line(), Value: e.Compaction}, nil
}

func clearContext(_ context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	c, err := agent.Clear(s.Log())
	if err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Text: c.Line(), Value: c}, nil
}
