package engine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/knack-agent/knack/engine/project/config"
)

// TestOtherFiles: each file of another program, of which nothing is read, is named with what to do.
func TestOtherFiles(t *testing.T) {
	home, root := t.TempDir(), t.TempDir()
	want := map[string][]string{}
	for _, d := range config.OtherDirs() {
		for _, at := range [][2]string{{home, d.Home}, {root, d.Project}} {
			if at[1] == "" {
				continue
			}
			dir := filepath.Join(at[0], filepath.FromSlash(at[1]))
			for _, name := range d.Files() {
				if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			want[dir] = d.Files()
		}
	}
	got := otherFiles(home, root)
	for _, u := range got {
		if !slices.Equal(u.Keys, want[u.Path]) {
			t.Errorf("%s: %q, want %q", u.Path, u.Keys, want[u.Path])
		}
		for _, line := range u.Lines() {
			if line[:min(len(line), 11)] == "not a thing" {
				t.Errorf("%s: %s", u.Path, line)
			}
		}
	}
	if len(got) != len(want) || len(otherFiles("", "")) != 0 || len(otherFiles(t.TempDir(), t.TempDir())) != 0 {
		t.Errorf("%d, want %d", len(got), len(want))
	}
}
