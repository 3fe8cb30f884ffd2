package work

import (
	"os/exec"
	"syscall"
)

// ownProcessGroup lets a process ignore Ctrl-C in the console: the worker decides when a run stops.
func ownProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
