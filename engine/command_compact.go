package engine

import (
	"context"
	"errors"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/llm/offline"
)

// compact implements /compact. The summary pays most attention to focus, which may be empty.
func compact(ctx context.Context, s *Session, focus string) (Reply, error) {
	t := s.newTurn()
	if err := t.useModel(ctx); err != nil {
		return Reply{}, err
	}
	if t.agent.Model.Info().ID == offline.ID {
		return Reply{}, errors.New("the offline model cannot summarise; /clear empties the context")
	}
	c, err := t.agent.Compact(ctx, s.log, focus)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Text: c.Line(), Value: c}, nil
}

func clearContext(_ context.Context, s *Session, _ string) (Reply, error) {
	c, err := agent.Clear(s.log)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Text: c.Line(), Value: c}, nil
}
