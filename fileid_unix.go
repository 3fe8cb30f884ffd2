//go:build linux || darwin

package knack

import (
	"os"

	"golang.org/x/sys/unix"
)

// statID returns the identity of a regular file; path is relative to dir, if dir is not nil. ok is false
// for anything else, including a link.
func statID(dir *os.File, path string) (fileID, bool) {
	at := unix.AT_FDCWD
	if dir != nil {
		at = int(dir.Fd())
	}
	var st unix.Stat_t
	if unix.Fstatat(at, path, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileID{}, false
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

// localID returns the identity of a directory if the times and inodes of its file system
// are reliable.
func localID(dir string) (fileID, bool) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || !localFS(dir) {
		return fileID{}, false
	}
	return idOf(&st), true
}

func idOf(st *unix.Stat_t) fileID {
	return fileID{size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), ino: st.Ino, dev: uint64(st.Dev)}
}
