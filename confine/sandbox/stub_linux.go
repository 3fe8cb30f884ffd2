//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/sandbox/internal/launch"
)

// stub returns the launcher's stub, an executable file in memory; nil if there is none. The file is
// sealed: it cannot be written any more. A process executes it by the number that the file gets among
// the process's own descriptors, so the number here does not matter.
var stub = sync.OnceValue(func() *os.File {
	if !launch.HaveStub {
		return nil
	}
	const mfdExec = 0x10 // since Linux 6.3
	fd, err := unix.MemfdCreate("knack-sandbox", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|mfdExec)
	if err != nil {
		fd, err = unix.MemfdCreate("knack-sandbox", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "knack-sandbox")
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err = f.Write(launch.StubImage())
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		f.Close()
		return nil
	}
	return f
})
