//go:build unix

package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestMemoryDir: only a directory that nobody else can write to is the user's: what is old in it is removed.
func TestMemoryDir(t *testing.T) {
	system, elsewhere := t.TempDir(), t.TempDir()
	name := memoryName(system)
	if got := memoryIn(system); got != "" {
		t.Errorf("without one: %s", got)
	}
	if err := os.Symlink(elsewhere, name); err != nil {
		t.Fatal(err)
	}
	if got := memoryIn(system); got != "" {
		t.Errorf("a link: %s", got)
	}
	if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o700)); err != nil {
		t.Fatal(err)
	}
	if got := memoryIn(system); got != filepath.Join(system, filepath.Base(name)) {
		t.Errorf("the user's: %q", got)
	}
	if err := os.Chmod(name, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := memoryIn(system); got != "" {
		t.Errorf("others can write to it: %s", got)
	}
}
