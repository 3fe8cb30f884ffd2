//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/batch"
)

// TestNoZombies: a process for the background that ends first leaves nothing behind. knack agents and a host start many
// of them in their lives.
func TestNoZombies(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	if err := startDetached(cmd); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	waitFor(t, "the end of the process", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// TestNewerMessages: a session whose message only a newer program understands gets no process, which would end at once
// and be started again.
func TestNewerMessages(t *testing.T) {
	t.Parallel()
	s := background.Session{State: background.Ready, Runs: []batch.Run{{State: batch.Ready}}}
	if !canWork(s) {
		t.Error("a message that this program understands")
	}
	s.Runs[0].Task.Needs = batch.Version + 1
	if canWork(s) {
		t.Error("a message that needs a newer program")
	}
}

// TestEndOf: of a long file of messages the end is read.
func TestEndOf(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte(strings.Repeat("a", 100)+"end"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := endOf(name, 5); string(got) != "aaend" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := endOf(name, 500); len(got) != 103 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
