//go:build !unix

package filetree

import (
	"io/fs"
	"os"
)

// OpenNoFollow opens a file for reading, but not a link.
func OpenNoFollow(_ *os.File, _, name string) (fs.File, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, ErrLink
	}
	return os.Open(name)
}

// OpenDir opens a directory to list it.
func OpenDir(name string) (*os.File, error) { return os.Open(name) }
