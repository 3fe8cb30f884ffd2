package workspace_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestWriteOpenFile: a file that another program has open, and may not be replaced meanwhile, is written in place. An
// editor, a search index or a virus scanner often has one open for a moment.
func TestWriteOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(path, []byte("a longer text\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ, syscall.FILE_SHARE_READ|syscall.FILE_SHARE_WRITE, nil,
		syscall.OPEN_EXISTING, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.CloseHandle(h)
	w, err := workspace.NewLocal(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteFile(t.Context(), path, []byte("short\r\n")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "short\r\n" {
		t.Errorf("%q, %v", data, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%v is left", entries)
	}
}
