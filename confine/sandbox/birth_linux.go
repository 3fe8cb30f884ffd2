package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// birth identifies the file or directory that is at a path now; "" if it cannot be distinguished from a
// later one.
func birth(path string) string {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return fmt.Sprint(st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
