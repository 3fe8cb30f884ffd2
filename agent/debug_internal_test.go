package agent

import (
	"log/slog"
	"testing"

	"github.com/knack-agent/knack/llm"
)

// TestDebugOff: a log that is off costs nothing, however long the conversation is.
func TestDebugOff(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "a"}, {Text: "b"}}}}}
	a := &Agent{Debug: slog.New(slog.DiscardHandler)}
	if n := testing.AllocsPerRun(10, func() { a.debugRequest(nil, req) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
