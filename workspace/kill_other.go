//go:build unix && !linux

package workspace

import (
	"syscall"
	"time"
)

// kill kills the process group. It is stopped first, so that of "a; b" the
// shell does not start b when a dies.
func (p *process) kill() {
	if p.pid == 0 {
		return
	}
	syscall.Kill(-p.pid, syscall.SIGSTOP)
	for range 50 { // a child forked meanwhile is in the group as well
		if syscall.Kill(-p.pid, syscall.SIGKILL) != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
