//go:build linux || darwin

package filetree

import (
	"os"

	"golang.org/x/sys/unix"
)

// statID returns the identity of a regular file; path is relative to dir, if dir is not nil. ok is false
// for anything else, including a link.
func statID(dir *os.File, path string) (ID, bool) {
	at := unix.AT_FDCWD
	if dir != nil {
		at = int(dir.Fd())
	}
	var st unix.Stat_t
	if unix.Fstatat(at, path, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ID{}, false
	}
	return idOf(&st), true
}

// openDirectory opens a directory. It returns nil for anything else.
func openDirectory(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	return f
}

// LocalID returns the identity of a directory if the times and inodes of its file system
// are reliable.
func LocalID(dir string) (ID, bool) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || !localFS(dir) {
		return ID{}, false
	}
	return idOf(&st), true
}

func idOf(st *unix.Stat_t) ID {
	return ID{Size: st.Size, MTime: st.Mtim.Nano(), CTime: st.Ctim.Nano(), Inode: st.Ino, Device: uint64(st.Dev)}
}
