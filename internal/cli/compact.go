package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/llm/offline"
	"github.com/knack-agent/knack/session"
)

// slashCompact is /compact: focus, which may be empty, is what the summary is
// to look to above all.
func (s *sessionRun) slashCompact(ctx context.Context, focus string, say func(string)) (string, error) {
	if s.agent.Model.Info().ID == offline.ID {
		return "", errors.New("the offline model cannot summarise; /clear empties the context")
	}
	c, err := s.agent.Compact(ctx, s.log, focus)
	if err != nil {
		return "", s.explain(err)
	}
	say(c.Line())
	return "", nil
}

// slashClear is /clear.
func (s *sessionRun) slashClear(_ context.Context, _ string, say func(string)) (string, error) {
	c, err := agent.Clear(s.log)
	if err != nil {
		return "", err
	}
	say(c.Line())
	return "", nil
}

// compacted says what a compaction did to the text of a skill, "" for nothing
// that it says.
func compacted(c *session.Compaction, name string) string {
	i := slices.IndexFunc(c.Skills, func(k session.KeptText) bool { return k.Skill == name })
	switch {
	case i >= 0 && c.Skills[i].Cut > 0:
		return fmt.Sprintf("cut to %d of %d tokens in a compaction", c.Skills[i].Left(), c.Skills[i].Tokens)
	case i >= 0:
		return "kept in a compaction"
	case slices.Contains(c.Dropped, name):
		return "released in a compaction"
	}
	return ""
}
