//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestScreenVim: editorMode of Claude Code's settings gives the prompt Vim's keys. Esc ends insert mode and does not
// interrupt; in normal mode it interrupts if nothing is typed, and k goes to an earlier prompt.
func TestScreenVim(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "say two", Text: "Three words."},
		llmtest.Answer{When: "wait", Calls: []llmtest.Call{{Name: "bash", Input: map[string]any{"command": "sleep 1000"}}}},
	))
	d.file(t, "../.claude/settings.json", `{"editorMode": "vim", "permissions": {"allow": ["Bash(sleep *)"]}}`)
	const w, h = 80, 24
	k := d.onScreen(t, w, h)
	k.shows(w, h, `(?m)^INSERT  anthropic`)
	k.types("say one three")
	k.types("\x1b")
	k.shows(w, h, `(?m)^NORMAL  anthropic`)
	k.types("bc2")
	k.shows(w, h, `(?m)^NORMAL c2  anthropic`)
	k.types("b")
	k.shows(w, h, `(?m)^INSERT  `)
	k.types("say two ")
	k.types("\x1b")
	k.shows(w, h, `(?m)^❯ say two three\n\nNORMAL  `)
	k.types("\r")
	k.shows(w, h, `(?s)› say two three.*Three words\..*INSERT  `)
	k.types("wait\r")
	k.shows(w, h, `esc interrupts`)
	k.types("more")
	k.types("\x1b")
	k.shows(w, h, `(?m)^❯ more\n\nNORMAL  `)
	k.types("\x1b")
	k.shows(w, h, `Esc interrupts when the prompt is empty`)
	k.types("dd")
	k.shows(w, h, `(?m)^❯\n\nNORMAL  `)
	k.types("\x1b")
	k.shows(w, h, `(?s)sleep 1000  aborted.*NORMAL  `)
	k.types("k")
	k.shows(w, h, `(?m)^❯ wait\n\nNORMAL  `)
	k.types("S/vim\r")
	k.shows(w, h, `(?s)usual keys.*\n❯( Ask[^\n]*)?\n\nanthropic`)
	data, err := os.ReadFile(filepath.Join(d.home(), ".config/knack/settings.json"))
	if err != nil || !strings.Contains(string(data), `"editorMode": "normal"`) {
		t.Error(err, string(data))
	}
	k.quits()
}
