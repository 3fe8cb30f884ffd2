package background_test

import (
	"testing"

	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/background"
)

// TestEffects: which lines a host's message runs although no user typed them.
func TestEffects(t *testing.T) {
	enginetest.Effects(t, background.Part(nil).Commands, nil, []string{"background", "background x"})
}
