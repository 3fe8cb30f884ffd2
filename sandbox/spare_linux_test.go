//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/knack-agent/knack/workspace"
)

// spare runs commands until a launcher waits for the next one.
func (b *fixture) spare() *spare {
	b.t.Helper()
	for range 100 {
		b.run("true")
		if sp := b.box.system.spare.Load(); sp != nil {
			if <-sp.started; sp.process != nil {
				eventually(b.t, "the launcher has two processes", func() bool { return len(descendants(sp.process.Pid)) == 1 })
				b.onlyHome(sp.view)
				return sp
			}
		}
		settled()
	}
	b.t.Fatal("no launcher waits after 100 commands")
	return nil
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// onlySpare waits until there are no processes but those of a waiting launcher.
func (b *fixture) onlySpare() {
	b.t.Helper()
	eventually(b.t, "no process is left but a waiting launcher", func() bool {
		left := descendants(os.Getpid())
		if sp := b.box.system.spare.Load(); sp != nil {
			if <-sp.started; sp.process != nil {
				waiting := append(descendants(sp.process.Pid), sp.process.Pid)
				left = slices.DeleteFunc(left, func(pid int) bool { return slices.Contains(waiting, pid) })
			}
		}
		return len(left) == 0
	})
}

// TestSpare runs commands by a waiting launcher: they get their streams, environment and directory, and nothing of
// another command.
func TestSpare(t *testing.T) {
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
		sp := b.spare()
		var out bytes.Buffer
		c.command.Output = &out
		exit, err := b.local.Run(context.Background(), c.command)
		if got := out.String(); err != nil || got != c.want || exit.Code != c.code || len(exit.Refused) > 0 {
			t.Errorf("%s: %q, %+v, %v; want %q, %d", c.name, got, exit, err, c.want, c.code)
		}
		if sp.process.Signal(syscall.Signal(0)) == nil {
			t.Errorf("%s: another launcher was used", c.name)
		}
	}
}

// TestSpareMoved moves the directory above a secret and a protected name when a command is given to a waiting
// launcher, whose mounts were made before, and while it waits.
func TestSpareMoved(t *testing.T) {
	for _, when := range []string{"as the command starts", "before the command"} {
		b := newFixture(t).on(namespaces)
		b.spare()
		move := func() {
			b.box.system.encoded = nil
			if err := os.Rename(filepath.Join(b.dir, "sub"), filepath.Join(b.dir, "away")); err != nil {
				t.Error(err)
			}
		}
		if b.box.system.encoded = move; when == "before the command" {
			move()
		}
		for range 2 {
			out, _ := b.run("cat */.env*; echo x > away/.vscode/x.json; echo x > away/.vscode/new")
			if strings.Contains(out, "SECRET") {
				t.Errorf("%s: a secret is read: %s", when, out)
			}
			if text, _ := os.ReadFile(filepath.Join(b.dir, "away/.vscode/x.json")); string(text) != "{}" {
				t.Errorf("%s: a protected file is written", when)
			}
			if _, err := os.Lstat(filepath.Join(b.dir, "away/.vscode/new")); err == nil {
				t.Errorf("%s: a file is written to a protected directory", when)
			}
		}
	}
}

// TestSpareLost ends a waiting launcher in several ways: the next command runs as if there had been none, and no
// process is left.
func TestSpareLost(t *testing.T) {
	b := newFixture(t).on(namespaces)
	for _, c := range []struct {
		name string
		end  func(*spare)
	}{
		{"killed", func(sp *spare) {
			pids := append(descendants(sp.process.Pid), sp.process.Pid)
			sp.process.Kill()
			for _, pid := range pids {
				eventually(t, "the launcher ends", func() bool { return !isLauncher(pid) })
			}
		}},
		{"its second process killed", func(sp *spare) {
			for _, pid := range descendants(sp.process.Pid) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			eventually(t, "the launcher ends", func() bool { return !isLauncher(sp.process.Pid) })
		}},
		{"expired", func(sp *spare) { sp.expires.Reset(0) }},
		{"another network", func(*spare) { b.box.policy.Network = !b.box.policy.Network }},
		{"closed", func(*spare) { b.box.Close() }},
	} {
		sp := b.spare()
		c.end(sp)
		if c.name == "expired" || c.name == "closed" {
			eventually(t, c.name, func() bool { return len(descendants(os.Getpid())) == 0 })
		}
		if out, exit := b.run("echo ran"); out != "ran\n" || exit.Code != 0 || len(exit.Refused) > 0 {
			t.Errorf("%s: %q, %+v", c.name, out, exit)
		}
		if sp.process.Signal(syscall.Signal(0)) == nil {
			t.Errorf("%s: the launcher still runs", c.name)
		}
	}
	if b.run("true"); b.box.system.spare.Load() != nil {
		t.Error("a launcher waits although the sandbox was closed")
	}
	eventually(t, "no process is left", func() bool { return len(descendants(os.Getpid())) == 0 })
}

// TestSpareNotStarted refuses a command after the sandbox has given it a waiting launcher.
func TestSpareNotStarted(t *testing.T) {
	b := newFixture(t).on(namespaces)
	b.spare()
	cmd := exec.Command("/bin/true")
	cmd.Dir, cmd.Env = b.dir, os.Environ()
	c := workspace.Command{Start: (*exec.Cmd).Start}
	ended, err := b.box.Confine(cmd, &c)
	if err != nil {
		t.Fatal(err)
	}
	var exit workspace.Exit
	if ended(&exit); len(exit.Refused) == 0 {
		t.Error("the command counts as started")
	}
	eventually(t, "no process is left", func() bool { return len(descendants(os.Getpid())) == 0 })
	cmd = exec.Command("/bin/cat")
	cmd.Dir, cmd.Env, cmd.Stdin = b.dir, os.Environ(), strings.NewReader("x")
	b.spare()
	if ended, err = b.box.Confine(cmd, &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(cmd); err == nil {
		t.Error("started a command whose input is not a file")
	}
	ended(&exit)
}

// TestSpareCancelled cancels a command while a waiting launcher gets it, and directly before.
func TestSpareCancelled(t *testing.T) {
	b := newFixture(t).on(namespaces)
	for range 2 {
		b.spare()
		ctx, cancel := context.WithCancel(context.Background())
		b.box.system.encoded = func() {
			b.box.system.encoded = nil
			cancel()
		}
		if _, err := b.local.Run(ctx, workspace.Command{Line: "sleep 1000"}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		b.onlySpare()
	}
	// Closing the workspace, too.
	b.spare()
	b.box.system.encoded = func() {
		b.box.system.encoded = nil
		go b.local.Close() // waits until the command has started
	}
	if _, err := b.local.Run(context.Background(), workspace.Command{Line: "sleep 1000"}); err != nil {
		t.Error(err)
	}
	b.box.Close()
	eventually(t, "no process is left", func() bool { return len(descendants(os.Getpid())) == 0 })
}

// TestSpareStopped stops a process of a waiting launcher, which gets more than its socket takes at once: the command
// can be cancelled, and no process is left.
func TestSpareStopped(t *testing.T) {
	b := newFixture(t).on(namespaces)
	for _, second := range []bool{false, true} {
		sp := b.spare()
		pid := sp.process.Pid
		if second {
			pid = descendants(pid)[0]
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		b.box.system.encoded = func() {
			b.box.system.encoded = nil
			time.AfterFunc(100*time.Millisecond, cancel)
		}
		c := workspace.Command{Line: "sleep 1000"}
		for i := range 8 {
			c.Env = append(c.Env, fmt.Sprintf("A%d=%s", i, strings.Repeat("x", 100e3)))
		}
		if _, err := b.local.Run(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("second process %t: %v", second, err)
		}
		b.onlySpare()
	}
}

// TestSpareDescriptors checks that commands with waiting launchers leave no descriptors open.
func TestSpareDescriptors(t *testing.T) {
	b := newFixture(t).on(namespaces)
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	b.spare()
	before := count()
	for range 20 {
		b.run("true")
	}
	b.spare()
	eventually(t, fmt.Sprintf("as few open files as before, %d", before), func() bool { return count() <= before })
}

// TestSpareKilled kills a program with a waiting launcher, which ends with it.
func TestSpareKilled(t *testing.T) {
	const mark = "KNACK_SANDBOX_TEST_SPARE"
	if os.Getenv(mark) != "" {
		sp := newFixture(t).on(namespaces).spare()
		for _, pid := range append(descendants(sp.process.Pid), sp.process.Pid) {
			fmt.Printf("pid %d\n", pid)
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	newFixture(t).on(namespaces)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestSpareKilled$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"=1", "TMPDIR="+t.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	var text string
	for buf := make([]byte, 512); !strings.Contains(text, "ready"); {
		n, err := out.Read(buf)
		if text += string(buf[:n]); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	var pids []int
	for line := range strings.Lines(text) {
		if _, number, ok := strings.Cut(line, "pid "); ok {
			pid, _ := strconv.Atoi(strings.TrimSpace(number))
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 {
		t.Fatalf("%d processes of the launcher, want 2: %s", len(pids), text)
	}
	cmd.Process.Kill()
	cmd.Wait()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return !isLauncher(pid) })
	}
}

// isLauncher reports whether a process is a launcher that has not ended.
func isLauncher(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte("(knack-sandbox)")) && !bytes.Contains(stat, []byte(") Z"))
}
