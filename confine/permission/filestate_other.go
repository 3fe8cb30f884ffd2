//go:build !linux && !darwin

package permission

import (
	"io/fs"
	"time"
)

// fileState cannot detect changes on this system: git is run each time.
func fileState(fs.FileInfo) (state string, changed time.Time, ok bool) { return "", time.Time{}, false }

// listingState cannot detect changes, either.
func listingState(fs.FileInfo) (state string, changed time.Time, ok bool) {
	return "", time.Time{}, false
}

// fileNumbers does not know other names of a file.
func fileNumbers(fs.FileInfo) (dev, ino, links uint64) { return 0, 0, 1 }
