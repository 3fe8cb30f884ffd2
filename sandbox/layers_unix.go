//go:build linux || darwin

package sandbox

import (
	"io/fs"
	"os"
	"syscall"
)

// tryLock locks a file for this program; EWOULDBLOCK: another one has locked it.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// onDisk returns the number of bytes that a file takes on disk.
func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
