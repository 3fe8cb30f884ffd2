//go:build unix

package terminal

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileInput asks the system whether a file has something to read.
type fileInput struct {
	io.Reader
	fd int
}

func newInput(f *os.File, r io.Reader) input { return fileInput{r, int(f.Fd())} }

// more uses select, because poll does not support terminals on macOS.
func (in fileInput) more(d time.Duration) bool {
	if in.fd >= unix.FD_SETSIZE {
		time.Sleep(d)
		return false
	}
	for end := time.Now().Add(d); ; {
		var set unix.FdSet
		set.Set(in.fd)
		left := unix.NsecToTimeval(max(time.Until(end), 0).Nanoseconds())
		n, err := unix.Select(in.fd+1, &set, nil, nil, &left)
		if !errors.Is(err, unix.EINTR) {
			return n > 0 || err != nil // the next read returns the error
		}
	}
}
