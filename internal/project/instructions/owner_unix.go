//go:build unix

package instructions

import (
	"os"
	"syscall"
)

// ownedByUser reports whether only this user or the system can write to a directory.
func ownedByUser(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Getuid() || st.Uid == 0) && info.Mode().Perm()&0o022 == 0
}
