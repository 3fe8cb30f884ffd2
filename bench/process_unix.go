//go:build unix

package bench

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

func peak(p *os.ProcessState) int64 {
	u, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss) // in bytes on this system, in KiB on others
	}
	return int64(u.Maxrss) << 10
}

func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { endGroup(cmd); return nil }
}

func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// CPU returns the processor time used by this program and its children.
func CPU() (t time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			t += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return t
}
