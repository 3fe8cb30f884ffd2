//go:build unix

package worktree

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPatience: a git that waits for a writer of a pipe is ended.
func TestPatience(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	defer func(old time.Duration) { patience = old }(patience)
	patience = 100 * time.Millisecond
	_, err := run(t.Context(), nil, dir, "hash-object", pipe)
	if err == nil || !strings.Contains(err.Error(), "has not ended within") {
		t.Errorf("%v", err)
	}
}
