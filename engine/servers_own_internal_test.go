package engine

import (
	"testing"

	"github.com/knack-agent/knack/run/mcp"
)

// TestOwnDir: the directory that a server needs is the one of its own, never one of all programs.
func TestOwnDir(t *testing.T) {
	for dir, want := range map[string]string{
		"/h/.name": "/h/.name", "/h/.name/db": "/h/.name", "/h/.config/name/a/b": "/h/.config/name",
		"/h/.local/share/name/x": "/h/.local/share/name", "/h/.local/share": "", "/h/.local": "", "/h/.config": "",
		"/h/.cache/name": "/h/.cache/name", "/h": "", "/h/work/x": "", "/srv/.name/x": "",
		"/h/Library/Caches/name/x": "/h/Library/Caches/name",
	} {
		if got := ownDir("/h", dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
	home := t.TempDir()
	if ownedBy(mcp.Server{Name: "srv", Command: "npx", Args: []string{"memory-server"}}, home) {
		t.Error("a directory that is there and has another name is taken for the server's own")
	}
	if !ownedBy(mcp.Server{Name: "srv"}, home+"/.new") || !ownedBy(mcp.Server{Name: home}, home) {
		t.Error("a directory of its own is not")
	}
}
