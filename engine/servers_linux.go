package engine

import (
	"os/exec"
	"runtime"
	"syscall"
)

// endWithProgram makes the kernel kill a server's program when this program ends, also by SIGKILL. A
// server should end when its input does, but some do not. The kernel sends the signal when the thread
// that started the program ends, so the goroutine stays on its thread until it calls release, after the
// server has ended. Processes that the server starts are not killed.
func endWithProgram(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return runtime.UnlockOSThread
}
