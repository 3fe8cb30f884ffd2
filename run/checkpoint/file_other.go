//go:build !linux

package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const nonblock = 0

// clone reports that files cannot share their blocks.
func clone(_, _ *os.File) bool { return false }

// stampOf identifies a version of a file by its metadata.
func stampOf(info fs.FileInfo) string {
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
