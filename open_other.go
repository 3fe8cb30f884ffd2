//go:build !unix

package knack

import (
	"io/fs"
	"os"
)

// openNoFollow opens a file for reading.
func openNoFollow(name string) (*os.File, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, errLink
	}
	return os.Open(name)
}
