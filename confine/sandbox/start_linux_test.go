//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestStart checks that commands get their streams, environment and directory, and nothing of another command.
func TestStart(t *testing.T) {
	b := newFixture(t).on(namespaces)
	for _, c := range []struct {
		name    string
		command workspace.Command
		want    string
		code    int
	}{
		{"output", workspace.Command{Line: "echo out; echo err >&2; exit 3"}, "out\nerr\n", 3},
		{"input from a reader", workspace.Command{Line: "cat; cat", Stdin: strings.NewReader("text")}, "text", 0},
		{"no input", workspace.Command{Line: "cat; echo end"}, "end\n", 0},
		{"directory and environment", workspace.Command{Line: "echo ${PWD##*/} $A", Dir: "sub", Env: []string{"A=b"}},
			"sub b\n", 0},
		{"a program", workspace.Command{Args: []string{"echo", "a  b"}}, "a  b\n", 0},
		{"a long environment", workspace.Command{Line: "echo ${#A} ${#B} ${#C}",
			Env: []string{"A=" + strings.Repeat("x", 100e3), "B=" + strings.Repeat("y", 100e3),
				"C=" + strings.Repeat("z", 100e3)}}, "100000 100000 100000\n", 0},
		{"a signal", workspace.Command{Line: "kill -TERM $$"}, "", 128 + 15},
		{"no program", workspace.Command{Line: "/nowhere/x 2>/dev/null"}, "", 127},
		{"files for a later command", workspace.Command{Line: "echo x > /tmp/left; echo x > /dev/shm/left"}, "", 0},
		{"files of an earlier command", workspace.Command{Line: "ls /tmp/left /dev/shm/left 2>/dev/null"}, "", 2},
		{"descriptors", workspace.Command{Line: "cd /proc/self/fd; echo *"}, "0 1 2 3\n", 0},
	} {
		var out bytes.Buffer
		c.command.Output = &out
		exit, err := b.local.Run(context.Background(), c.command)
		if got := out.String(); err != nil || got != c.want || exit.Code != c.code || len(exit.Refused) > 0 {
			t.Errorf("%s: %q, %+v, %v; want %q, %d", c.name, got, exit, err, c.want, c.code)
		}
	}
}

// TestNotStarted ends a command that was never started.
func TestNotStarted(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher} {
		b := newFixture(t).on(backend)
		cmd := exec.Command("/bin/true")
		cmd.Dir, cmd.Env = b.dir, os.Environ()
		ended, err := b.box.Confine(cmd, &workspace.Command{})
		if err != nil {
			t.Fatal(err)
		}
		var exit workspace.Exit
		if ended(&exit); len(exit.Refused) == 0 {
			t.Errorf("%s: the command counts as started", backend)
		}
	}
}

// TestCancelledAtStart cancels a command while its launcher starts.
func TestCancelledAtStart(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher} {
		b := newFixture(t).on(backend)
		ctx, cancel := context.WithCancel(context.Background())
		b.box.system.encoded = func() {
			b.box.system.encoded = nil
			cancel()
		}
		if _, err := b.local.Run(ctx, workspace.Command{Line: "sleep 1000"}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", backend, err)
		}
		eventually(t, "no process is left", func() bool { return len(descendants(os.Getpid())) == 0 })
	}
}

// TestDescriptors checks that commands leave no descriptors open.
func TestDescriptors(t *testing.T) {
	b := newFixture(t).on(namespaces)
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	b.run("true")
	before := count()
	for range 20 {
		b.run("true")
	}
	eventually(t, fmt.Sprintf("as few open files as before, %d", before), func() bool { return count() <= before })
}
