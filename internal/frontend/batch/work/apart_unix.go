//go:build unix

package work

import (
	"os/exec"
	"syscall"
)

// apart keeps the signals of a terminal from the process of a run: its worker decides when it stops.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
