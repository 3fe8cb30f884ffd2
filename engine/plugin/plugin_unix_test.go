//go:build unix

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipe: a pipe in the place of a file is an error, and does not stop the program.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, "hooks"))
	mkdir(t, filepath.Join(dir, ".claude-plugin"))
	mkdir(t, filepath.Join(dir, "skills"))
	for _, name := range []string{"hooks/hooks.json", ".mcp.json", ".claude-plugin/plugin.json"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Skip(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	p := Read(FS(root), Options{Name: "x"})
	if got := show(p); len(p.Skills) != 1 || strings.Count(got, "not a regular file") != 3 {
		t.Error(got)
	}
}
