//go:build unix

package work

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFence: a process of a run that was stopped is killed by one with a higher token, and never wakes up; one with a
// lower token waits.
func TestFence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.fence")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stale := exec.Command(exe)
	stale.Env = append(os.Environ(), "KNACK_TEST_FENCE="+path)
	out, err := stale.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stale.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "has it\n" {
		t.Fatal(line, err)
	}
	if err := stale.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	if _, err := fence(ended, path, 4); !errors.Is(err, errStopped) {
		t.Errorf("a lower token: %v", err)
	}
	f, err := fence(t.Context(), path, 6)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var ends *exec.ExitError
	if err := stale.Wait(); !errors.As(err, &ends) || ends.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the process that was stopped: %v", err)
	}
}
