//go:build !linux

package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

const nonblock = 0

// clone reports that files cannot share their blocks.
func clone(_, _ *os.File) bool { return false }

// stampOf identifies a version of a file by its metadata.
func stampOf(info fs.FileInfo) string {
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}

// fileModes returns the permission bits of files below a root, with isFile; 0 for what is no regular file. On Windows
// there are none.
func fileModes(root string, paths []string) []uint16 {
	if runtime.GOOS == "windows" {
		return nil
	}
	modes := make([]uint16, len(paths))
	for i, p := range paths {
		if info, err := os.Lstat(filepath.Join(root, p)); err == nil && info.Mode().IsRegular() {
			modes[i] = uint16(info.Mode().Perm()) | isFile
		}
	}
	return modes
}

// special returns which of the setuid, setgid and sticky bits belong to the state of a file: here they stay as they
// are.
func special(fs.FileInfo) fs.FileMode { return 0 }

// dirBits returns the permission bits of a directory, with fs.ModeDir, and how many directories are in it; -1: that is
// not known. 0: there is no directory.
func dirBits(name string) (mode fs.FileMode, subdirs int) {
	info, err := os.Lstat(name)
	if err != nil || !info.IsDir() {
		return 0, 0
	}
	return info.Mode() & (fs.ModeDir | fs.ModePerm | fs.ModeSetgid | fs.ModeSticky), -1
}

// isNotDir reports whether a path leads through something that is no directory: a file, or a link to itself.
func isNotDir(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
