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

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
