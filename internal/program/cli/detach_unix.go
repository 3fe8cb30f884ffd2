//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// detach lets a process go on when the terminal is closed, and hear nothing of its keys.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
