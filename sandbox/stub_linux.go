//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/sandbox/internal/launch"
)

// stub returns the path of the launcher's stub, an executable in memory; "" if there is none. The
// file is sealed: it cannot be written any more.
var stub = sync.OnceValue(func() string {
	if !launch.HaveStub {
		return ""
	}
	const mfdExec = 0x10 // since Linux 6.3
	fd, err := unix.MemfdCreate("knack-sandbox", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|mfdExec)
	if err != nil {
		fd, err = unix.MemfdCreate("knack-sandbox", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return ""
	}
	// The number must be much higher than those of the descriptors that a command gets: before it executes
	// the program, syscall.StartProcess may duplicate descriptors to the numbers just above the highest of
	// them, and overwrites what is there.
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 500)
	if err != nil { // the limit of open files is lower
		high, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 200)
	}
	unix.Close(fd)
	if err != nil {
		return ""
	}
	image := launch.StubImage()
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if n, err := unix.Write(high, image); err != nil || n != len(image) {
		unix.Close(high)
		return ""
	}
	if _, err := unix.FcntlInt(uintptr(high), unix.F_ADD_SEALS, seals); err != nil {
		unix.Close(high)
		return ""
	}
	return fmt.Sprintf("/proc/self/fd/%d", high)
})
