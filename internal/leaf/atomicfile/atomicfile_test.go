package atomicfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A canceled write leaves the old file and no other.
func TestWriteContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	data := make([]byte, 2*block+1)
	if err := WriteContext(t.Context(), path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for checks := range 3 { // one for each block
		err := WriteContext(&canceledAfter{t.Context(), checks}, path, make([]byte, 2*block+2), 0o600)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d checks: %v", checks, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if info, _ := os.Stat(path); err != nil || len(entries) != 1 || info.Size() != int64(len(data)) {
		t.Errorf("%v %v %d", err, entries, info.Size())
	}
}

// canceledAfter is a context that is canceled once it was checked some times.
type canceledAfter struct {
	context.Context
	checks int
}

func (c *canceledAfter) Err() error {
	if c.checks--; c.checks < 0 {
		return context.Canceled
	}
	return nil
}

// TestUpdate: of updates at the same time none is lost, whichever of a file's names they use.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "f"), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name := []string{path, link}[i%2]
			if err := Update(name, 0o600, func(old []byte) ([]byte, error) { return append(old, 'x'), nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(path)
	entries, _ := os.ReadDir(dir)
	if len(data) != 20 || err != nil || len(entries) != 1 {
		t.Errorf("%q %v %v", data, err, entries)
	}
	stop := errors.New("stop")
	if err := Update(path, 0o600, func([]byte) ([]byte, error) { return []byte("lost"), stop }); err != stop {
		t.Error(err)
	}
	if again, _ := os.ReadFile(path); string(again) != string(data) {
		t.Errorf("%q", again)
	}
}

// TestWriteIn: a link is replaced, not followed.
func TestWriteIn(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(os.WriteFile(other, []byte("old"), 0o600), os.Symlink(other, filepath.Join(dir, "f")),
		WriteIn(root, "f", []byte("new"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(other); string(data) != "old" {
		t.Errorf("the link was followed: %q", data)
	}
}

// TestClean: what a crash left of one file goes, and nothing of another.
func TestClean(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("n", 250)
	for _, name := range []string{"a", "a-b", long} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, TemporaryName(name)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Write(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Clean(filepath.Join(dir, "a"))
	Clean(filepath.Join(dir, long))
	entries, err := os.ReadDir(dir)
	if len(entries) != 4 || err != nil || !strings.HasPrefix(entries[0].Name(), Temporary+"a-b-") {
		t.Error(entries, err)
	}
}
