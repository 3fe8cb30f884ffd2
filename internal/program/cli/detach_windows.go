package cli

import (
	"os/exec"
	"syscall"
)

// detach lets a process go on when the console is closed, and hear nothing of its keys.
func detach(cmd *exec.Cmd) {
	const detached = 0x8
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detached}
}
