package command_test

import (
	"testing"

	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/enginetest"
)

// TestEffects: which lines a host's message runs although no user typed them.
func TestEffects(t *testing.T) {
	enginetest.Effects(t, command.All(""), []string{"quit", "help", "hotkeys", "session", "resume", "name A", "fork",
		"tree", "compact", "clear", "context", "cost", "model", "effort", "skills", "skill x", "why x", "release",
		"permissions", "agents", "agents 1", "hooks", "mcp", "mcp x", "plugin", "settings", "settings permissions", "logout",
		"add-dir", "output-style", "doctor", "review", "init", "changelog", "permissions plan"},
		[]string{"new", "resume 1", "clone", "fork 1", "tree 1", "export", "export x", "import x", "share", "copy",
			"model haiku", "effort low", "release all", "permissions acceptEdits", "permissions bypassPermissions",
			"permissions  bypassPermissions", "agents stop 1", "mcp login x", "mcp logout x", "mcp retry", "mcp retry x",
			"plugin add x", "plugin x off", "trust", "settings model haiku", "settings permissions.allow Bash",
			"config model haiku", "login", "login anthropic", "logout anthropic", "reload", "add-dir /", "output-style none"})
}
