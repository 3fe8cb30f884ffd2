package cli

import (
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/goal"
)

// setGoal gives a session the goal of --goal.
func setGoal(s *engine.Session, text string) error { return goal.Of(s).Set(s, text) }
