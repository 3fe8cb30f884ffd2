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
