//go:build unix

package knack

import (
	"errors"
	"os"
	"syscall"
)

// openNoFollow opens a file for reading, but not a link. Opening a pipe does not wait
// for a writer.
func openNoFollow(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EMLINK) { // EMLINK: FreeBSD
		return nil, errLink
	}
	return f, err
}
