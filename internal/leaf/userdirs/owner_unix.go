//go:build unix

package userdirs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// OwnedByUser reports whether only this user or the system can write to a directory.
func OwnedByUser(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && ours(info) && info.Mode().Perm()&0o022 == 0
}

// ours reports whether a file belongs to this user or to the system.
func ours(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Getuid() || st.Uid == 0)
}

// CheckOwned returns an error unless a file belongs to this user and nobody else, except the system, can change or
// replace it. The path must be absolute and without links.
func CheckOwned(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to somebody else", file)
	}
	return CheckClosed(file)
}

// CheckPrivate returns an error if another user can write to a directory, or owns it, so that what it has may not be
// what this user wrote; nil: there is none. The group of a user who is its only member, which has the number of the
// user, is no other. As with git, what root does through sudo may be in the directories of who called it.
func CheckPrivate(dir string) error {
	info, err := os.Stat(dir)
	if err != nil { // there is nothing to read there, and writing fails
		return nil
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case !ok:
		return nil
	case !ours(info) && !(os.Getuid() == 0 && strconv.Itoa(int(st.Uid)) == os.Getenv("SUDO_UID")):
		return fmt.Errorf("%s belongs to another user (%d)", dir, st.Uid)
	case mode&0o002 != 0, mode&0o020 != 0 && st.Gid != st.Uid:
		return fmt.Errorf("%s can be written by other users", dir)
	}
	return nil
}

// CheckClosed is CheckOwned for a file that may belong to the system.
func CheckClosed(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !ours(info) {
		return fmt.Errorf("%s belongs to somebody else", file)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others can write to %s", file)
	}
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		// In a directory with the sticky bit, such as /tmp, others cannot replace what is not theirs.
		if !ours(info) || info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("others can write to %s", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
