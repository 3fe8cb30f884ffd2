package tui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClaudeBindings: Claude Code's key bindings are added to the default ones, and the user's own file comes last.
func TestClaudeBindings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	claude := write("claude.json", `{"$schema": "x", "bindings": [
		{"context": "Chat", "bindings": {"Control+E": "chat:externalEditor", "ctrl+g": null, "meta+shift+m": "chat:cycleMode",
			"ctrl+x ctrl+e": "chat:externalEditor", "cmd+k": "chat:submit", "ctrl+y": "chat:stash", "escape": "chat:cancel"}},
		{"context": "Select", "bindings": {"ctrl+j": "select:next"}},
		{"context": "Global", "bindings": {"ctrl+t": "app:toggleTodos"}}]}`)
	own := write("own.json", `{"editor": "f2"}`)
	b, err := loadBindings(filepath.Join(dir, "missing"), claude)
	if err != nil {
		t.Fatal(err)
	}
	for act, want := range map[action]string{actEditor: "ctrl+e", actMode: "alt+shift+m shift+tab", actInterrupt: "esc",
		actSteps: "alt+t ctrl+t", actThinking: "", actNewline: "alt+enter ctrl+j shift+enter", actSubmit: "enter"} {
		if got := b.keys(act); got != want {
			t.Errorf("%s: %q, want %q", act, got, want)
		}
	}
	if b, err = loadBindings(own, claude); err != nil || b.keys(actEditor) != "f2" || b.keys(actSteps) != "alt+t ctrl+t" {
		t.Errorf("the user's own file does not come last: %q, %v", b.keys(actEditor), err)
	}
	none := write("none.json", `{"bindings": [{"context": "Chat", "bindings": {"enter": null}}]}`)
	if b, err = loadBindings("", none); err == nil || !strings.Contains(err.Error(), "no key is left") ||
		b.keys(actSubmit) != "enter" {
		t.Errorf("without a key to send: %v", err)
	}
	if _, err = loadBindings("", write("bad.json", `[`)); err == nil {
		t.Error("a damaged file is not reported")
	}
}
