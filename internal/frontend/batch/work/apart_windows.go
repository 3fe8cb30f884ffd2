package work

import (
	"os/exec"
	"syscall"
)

// apart keeps the signals of a console from the process of a run: its worker decides when it stops.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
