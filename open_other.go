//go:build !unix

package knack

import (
	"io/fs"
	"os"
)

// openNoFollow opens a file for reading, but not a link.
func openNoFollow(_ *os.File, _, name string) (fs.File, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, errLink
	}
	return os.Open(name)
}

// openDir opens a directory to list it.
func openDir(name string) (*os.File, error) { return os.Open(name) }
