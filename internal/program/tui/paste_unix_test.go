//go:build unix

package tui

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/run/media/mediatest"
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

// TestPasteBroken: of what the clipboard has as an image, only what can be sent becomes a part of the prompt. The other
// doors are in TestMediaTable of the package control.
func TestPasteBroken(t *testing.T) {
	a := newApp(t.Context(), Options{})
	t.Cleanup(func() { os.RemoveAll(a.pastes.dir) })
	odd, all := mediatest.Odd(t), mediatest.Broken(t)
	maps.Copy(all, odd)
	for name, m := range all {
		file, err := a.imageFile(m.Data)
		if (err == nil) != (odd[name] != nil) {
			t.Errorf("%s: %q, %v", name, file, err)
		}
	}
}
