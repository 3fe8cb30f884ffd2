//go:build linux && (amd64 || arm64)

package sandbox

import (
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/workspace"
)

// TestStillListening starts a command while the listening socket of an earlier one, whose network namespace it uses
// again, is still open: a process that is being started has a copy of it.
func TestStillListening(t *testing.T) {
	b := newFixture(t).on(namespaces)
	b.box.system.closed.Store(true) // no launcher waits, so this one starts while the socket is open
	copied := -1
	r, w := io.Pipe()
	go w.Write([]byte("x"))
	out := writer(func() { // the command runs until its input ends
		for late := time.Now().Add(time.Minute); copied < 0 && time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
			copied = copyListener(t)
		}
		w.Close()
	})
	if _, err := b.local.Run(t.Context(), workspace.Command{Args: []string{"cat"}, Stdin: r, Output: out}); err != nil {
		t.Fatal(err)
	}
	if copied < 0 {
		t.Fatal("no socket listens while a command runs")
	}
	b.box.system.started = func() { time.AfterFunc(100*time.Millisecond, func() { unix.Close(copied) }) }
	if out, exit := b.run("echo ran"); out != "ran\n" || len(exit.Refused) > 0 {
		t.Errorf("%q, %+v", out, exit)
	}
}

// TestSharedMemory runs a command in a project in /dev/shm, of which a command in the sandbox has its own.
func TestSharedMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "knack-")
	if err != nil {
		t.Skipf("not tested: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := newFixture(t).on(namespaces)
	_, err = b.local.Run(t.Context(), workspace.Command{Line: "true", Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "is in /dev/shm") {
		t.Errorf("%v", err)
	}
	if out, exit := b.run("cd /dev/shm && echo x > f && cat f"); out != "x\n" {
		t.Errorf("%q, %+v", out, exit)
	}
}

// copyListener returns a copy of a descriptor of this program that listens on the proxy's port.
func copyListener(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	for _, e := range list {
		fd, _ := strconv.Atoi(e.Name())
		if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
			continue
		}
		if a, ok := must(unix.Getsockname(fd)).(*unix.SockaddrInet4); ok && a.Port == proxyPort {
			fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
			}
			return fd
		}
	}
	return -1
}

func must[T any](v T, _ error) T { return v }
