//go:build unix

package workspace

import (
	"os"
	"os/exec"
	"syscall"
)

// A group is a process group in its own session. It has no terminal on which a program could wait
// for a password, and job control inside cannot leave the session. Where Linux schedules processes
// by session (autogroup), a new session costs more than a new group on a busy machine; waiting for
// input from /dev/tty would cost more.
type group struct{}

func (*group) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	return cmd.Start()
}

func (*group) alive(pid int) bool { return pid > 0 && syscall.Kill(-pid, 0) == nil }

func (*group) close() {}

// leader returns the ID of the command's session and process group, or 0 if it has none. The
// system does not reuse the ID while the group has a process. So if the shell has been waited for and
// some process has its ID, that process belongs to another program, and the group has ended.
func (p *process) leader() int {
	if p.waited.Load() && syscall.Kill(p.pid, 0) != syscall.ESRCH {
		return 0
	}
	return p.pid
}

func exitOf(s *os.ProcessState) Exit {
	if s == nil {
		return Exit{Code: -1}
	}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Exit{Code: 128 + int(ws.Signal()), Signal: ws.Signal().String()}
	}
	return Exit{Code: s.ExitCode()}
}

// readNow reads the available data without blocking.
func readNow(f *os.File, buf []byte) (n int) {
	if conn, err := f.SyscallConn(); err == nil {
		conn.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), buf)
			return true
		})
	}
	return n
}
