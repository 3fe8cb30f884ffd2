package goal_test

import (
	"testing"

	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/goal"
)

// TestEffects: which lines a host's message runs although no user typed them.
func TestEffects(t *testing.T) {
	enginetest.Effects(t, goal.Part().Commands, []string{"goal"}, []string{"goal x", "goal !true", "goal off"})
}
