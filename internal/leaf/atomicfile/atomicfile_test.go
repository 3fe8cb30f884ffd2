package atomicfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
