package workspace

import (
	"os"
	"strconv"
	"strings"
)

// systemPath returns the path of an open file as the kernel reports it, without symbolic links.
// It returns false if the file has no path any more, or if /proc is not available.
func systemPath(f *os.File) (string, bool) {
	c, err := f.SyscallConn()
	if err != nil {
		return "", false
	}
	var path string
	c.Control(func(fd uintptr) {
		path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd)))
	})
	if err != nil || !strings.HasPrefix(path, "/") || strings.HasSuffix(path, " (deleted)") {
		return "", false
	}
	return path, true
}
