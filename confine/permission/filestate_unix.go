//go:build linux || darwin

package permission

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// fileState describes a file by properties that no program can reset: its inode and the time of the
// inode's last change. For a directory that time does not count, because it changes with every entry,
// even one that the sandbox adds and removes: only device, inode and mode do.
func fileState(info fs.FileInfo) (state string, changed time.Time, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}, false
	}
	if info.IsDir() {
		return fmt.Sprintf("%d %d %v", st.Dev, st.Ino, info.Mode()), time.Time{}, true
	}
	changed = changeTime(st)
	return fmt.Sprintf("%d %d %d %v %d", st.Dev, st.Ino, st.Size, info.Mode(), changed.UnixNano()), changed, true
}

// listingState is fileState for a directory whose entries count, too.
func listingState(info fs.FileInfo) (state string, changed time.Time, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}, false
	}
	changed = changeTime(st)
	return fmt.Sprintf("%d %d %d", st.Dev, st.Ino, changed.UnixNano()), changed, true
}

// fileNumbers returns what identifies a file, and how many names it has.
func fileNumbers(info fs.FileInfo) (dev, ino, links uint64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, 1
	}
	return uint64(st.Dev), st.Ino, uint64(st.Nlink)
}
