//go:build linux || darwin

package knack

import "golang.org/x/sys/unix"

// statID returns the identity of a regular file. ok is false for anything else,
// including a link.
func statID(path string) (fileID, bool) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileID{}, false
	}
	return idOf(&st), true
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
