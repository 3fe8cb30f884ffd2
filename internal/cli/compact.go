package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/line"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/llm/offline"
	"github.com/knack-agent/knack/session"
)

// compact is /compact: args say what the summary is to look to.
func (s *sessionRun) compact(ctx context.Context, out *line.Front, args string) error {
	if id := s.agent.Model.Info().ID; id == offline.ID {
		return &failure{errors.New("the offline model cannot summarise"), "/clear empties the context", exitFailed}
	}
	c, err := s.agent.Compact(ctx, s.log, args)
	if err != nil {
		return err
	}
	out.Say(plain.Line(c.Line()))
	return nil
}

// clear is /clear.
func (s *sessionRun) clear(_ context.Context, out *line.Front, _ string) error {
	c, err := agent.Clear(s.log)
	if err != nil {
		return err
	}
	out.Say(plain.Line(c.Line()))
	return nil
}

// compacted says what a compaction did to the text of a skill, "" for nothing
// that it says.
func compacted(c *session.Compaction, name string) string {
	for _, k := range c.Skills {
		switch {
		case k.Skill != name:
		case k.Cut > 0:
			return fmt.Sprintf("cut to %d bytes in a compaction", k.Cut)
		default:
			return "kept in a compaction"
		}
	}
	if slices.Contains(c.Dropped, name) {
		return "released in a compaction"
	}
	return ""
}
