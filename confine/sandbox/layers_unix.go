//go:build linux || darwin

package sandbox

import (
	"io/fs"
	"os"
	"syscall"
)

// tryLock locks a file for this program; EWOULDBLOCK: another one has locked it.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// shareLock locks a file together with others that do so. It waits for one that has locked it alone.
func shareLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_SH) }

// unlock ends a lock. Closing alone would not, as long as a process that is just being started has a copy.
func unlock(f *os.File) {
	syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	f.Close()
}

// onDisk returns the number of bytes that a file takes on disk.
func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
