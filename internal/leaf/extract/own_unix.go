//go:build unix

package extract

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// own makes a newly created directory private to the user. On Unix its mode already does this.
func own(string) error { return nil }

// private returns an error that explains why a directory is not private to the user.
func private(info fs.FileInfo, dir string) error {
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s is accessible to other users (%04o): chmod 700 %s", dir, perm, dir)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}
