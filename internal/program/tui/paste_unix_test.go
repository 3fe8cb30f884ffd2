//go:build unix

package tui

import (
	"os"
	"path/filepath"
	"testing"
)

// TestClipboardLate: what a child of the program prints after the program has ended is read too.
func TestClipboardLate(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\n(sleep 0.05; echo late) &\n"
	if err := os.WriteFile(filepath.Join(bin, "paste"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	path := bin + string(filepath.ListSeparator) + os.Getenv("PATH")
	if data, err := clipboard(t.Context(), []string{"paste"}, path, t.TempDir()); err != nil || string(data) != "late\n" {
		t.Errorf("got %q, %v", data, err)
	}
}
