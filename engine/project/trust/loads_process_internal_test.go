package trust

import (
	"slices"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/layout"
)

// TestLoadsProcess: who is asked to trust a program that stays is told what starts it, in whatever way it is written.
func TestLoadsProcess(t *testing.T) {
	const runs = "hooks: runs on PreToolUse, without a question"
	for _, text := range []string{
		`{"type": "process", "hooks": [{"event": "PreToolUse"}]}`,
		`{"Type": "\u0070rocess", "hooks": [{"event": "PreToolUse"}]}`,
		"#!/bin/sh\n# knack-tool: {\"type\": \"process\", \"hooks\": [{\"event\": \"PreToolUse\"}]} */\n",
	} {
		if got := loads(layout.Tool, "x", []byte(text)); !slices.Contains(got, runs) {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := loads(layout.Tool, "x", []byte(`{"description": "process"}`)); len(got) != 1 {
		t.Error(got)
	}
}
