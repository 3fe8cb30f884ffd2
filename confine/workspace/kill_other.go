//go:build unix && !linux

package workspace

import (
	"syscall"
	"time"
)

// kill kills the process group. It stops the group first, so that in "a; b" the shell does not
// start b when a is killed.
func (p *process) kill() {
	pid := p.leader()
	if pid == 0 {
		return
	}
	syscall.Kill(-pid, syscall.SIGSTOP)
	for range 50 { // a child forked meanwhile is in the group too
		if syscall.Kill(-pid, syscall.SIGKILL) != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
