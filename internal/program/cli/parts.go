package cli

import (
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/part/background"
	"github.com/knack-agent/knack/engine/part/batch"
	"github.com/knack-agent/knack/engine/part/propose"
	"github.com/knack-agent/knack/engine/part/schedule"
)

// parts returns the parts of conversations, with the queue of this machine. args are the flags that tasks get. leave,
// if not nil, takes the conversation to the background.
func parts(args []string, leave background.Leave) []engine.Part {
	return part.With(part.All(), schedule.Part(keeper{}), batch.Part(&batchKeeper{args: args}), background.Part(leave),
		propose.Part(foundBy))
}
