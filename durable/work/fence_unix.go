//go:build unix

package work

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fence returns once no other process of this run is left: one with a lower token, which was stopped or hangs, is killed,
// so that it does nothing when it wakes up; one with a higher token is waited for. The process has the fence until it
// closes the file or ends. The kernel names the process that has it: another one with the same ID is not killed. One in
// another PID namespace is waited for.
func fence(ctx context.Context, path string, token int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if err == nil {
			_, err = f.WriteAt([]byte(strconv.FormatInt(token, 10)+"\n"), 0)
			return f, errors.Join(err, ctx.Err())
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return f, err
		}
		killStale(f, token)
		select {
		case <-ctx.Done():
			return f, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// killStale kills the process that has a fence if its token is lower.
func killStale(f *os.File, token int64) {
	pid := holder(f)
	p, err := os.FindProcess(pid)
	if pid <= 0 || err != nil {
		return
	}
	defer p.Release()
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	line, _, whole := strings.Cut(string(data), "\n")
	theirs, bad := strconv.ParseInt(line, 10, 64)
	if err == nil && whole && bad == nil && theirs < token && holder(f) == pid {
		_ = p.Kill()
	}
}

// holder returns the ID of the process that has a fence; 0: none that this one can see.
func holder(f *os.File) int {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock) != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}
