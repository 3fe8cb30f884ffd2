package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock makes opening a pipe return at once.
const nonblock = syscall.O_NONBLOCK

// clone makes to a copy of from that shares its blocks, where the file system can.
func clone(to, from *os.File) bool {
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// stampOf identifies a version of a file by its metadata.
func stampOf(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
	}
	return fmt.Sprintf("%d %d %d %d", st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Ino)
}

// fileModes returns the permission bits of files below a root, with isFile; 0 for what is no regular file.
func fileModes(root string, paths []string) []uint16 {
	modes := make([]uint16, len(paths))
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return modes
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	for i, p := range paths {
		if unix.Fstatat(dir, p, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			modes[i] = uint16(st.Mode&(0o777|ownBits(st.Uid, st.Gid))) | isFile
		}
	}
	return modes
}

// ownBits returns which bits beside permission bits belong to the state of a file. A file that is written again belongs
// to the user: setuid and setgid bits of another owner would give it other rights.
func ownBits(uid, gid uint32) (bits uint32) {
	if int(uid) != os.Geteuid() {
		return 0
	}
	if bits = unix.S_ISUID | unix.S_ISVTX; int(gid) == os.Getegid() {
		bits |= unix.S_ISGID
	}
	return bits
}

// special returns which of the setuid, setgid and sticky bits belong to the state of a file.
func special(info fs.FileInfo) fs.FileMode {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return modeOf(uint16(ownBits(st.Uid, st.Gid)))
	}
	return 0
}

// dirBits returns the permission bits of a directory, with fs.ModeDir, and how many directories are in it; -1: that is
// not known. 0: there is no directory.
func dirBits(name string) (mode fs.FileMode, subdirs int) {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, 0
	}
	mode = fs.ModeDir | fs.FileMode(st.Mode&0o777)
	if st.Mode&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if st.Mode&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode, int(st.Nlink) - 2
}

// isNotDir reports whether a path leads through something that is no directory: a file, or a link to itself.
func isNotDir(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
