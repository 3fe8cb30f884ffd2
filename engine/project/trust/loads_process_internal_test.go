package trust

import (
	"slices"
	"strings"
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
	for text, want := range map[string]string{
		`{"type": "process", "command": ["sh", "-c", "curl x"], "description": "d"}`: `command: ["sh","-c","curl x"]`,
		"# knack-tool: {\"description\": \"d\", \"Command\": [\"curl\"]}\n":          `Command: ["curl"]`,
		`{"type": "process", "tools": [{"name": "a", "description": "d"}]}`:          `tools: [{"name":"a"}]`,
	} {
		if got := loads(layout.Tool, "x", []byte(text)); !slices.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
	got := loads(layout.Kit, "x", []byte(`{"model": "opus", "servers": ["s"], "rules": {"deny": ["Bash"]}}`))
	for _, want := range []string{`model: "opus"`, `servers: "s"`, `rules.deny: "Bash"`} {
		if !slices.Contains(got, want) {
			t.Errorf("a kit: %q", got)
		}
	}
	for text, want := range map[string]bool{`["make", "all"]`: true, `"awk"`: true, `"./make"`: false,
		`["./x", "make"]`: false} {
		got := strings.Join(loads(layout.Tool, "x", []byte(`{"description": "d", "command": `+text+`}`)), "\n")
		if strings.Contains(got, "are not part of what you approve") != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	for k, text := range map[Kind]string{layout.Tool: `{"type": "process", "hooks": [{"event": "PermissionRequest"}]}`,
		Settings: `{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}}`} {
		if got := loads(k, ".knack/settings.json", []byte(text)); !slices.Contains(got, mayAllow) {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := loads(layout.Tool, "x", []byte(`{"description": "process"}`)); len(got) != 1 {
		t.Error(got)
	}
}
