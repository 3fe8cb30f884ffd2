//go:build unix

package control

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// pollTime is how long one poll takes, in milliseconds.
const pollTime = 500

// readerGone waits until nobody can read what is written to a pipe or a socket any more, or ctx ends. It reports
// whether the reader is gone; false for other files.
func readerGone(ctx context.Context, f *os.File) bool {
	if info, err := f.Stat(); err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return false
	}
	for ctx.Err() == nil {
		p := []unix.PollFd{{Fd: int32(f.Fd())}}
		_, err := unix.Poll(p, pollTime)
		switch {
		case p[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			return true
		case p[0].Revents != 0, err != nil && err != unix.EINTR:
			return false
		}
	}
	return false
}
