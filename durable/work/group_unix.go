//go:build unix

package work

import (
	"os/exec"
	"syscall"
)

// ownProcessGroup lets a process ignore Ctrl-C in the terminal: the worker decides when a run stops.
func ownProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
