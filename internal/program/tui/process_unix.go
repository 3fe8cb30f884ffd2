//go:build unix

package tui

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stopProcess stops the whole process group, as Ctrl-Z in a shell does, and returns when it is
// continued. The system does not stop a group that no shell could continue.
func stopProcess() {
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, syscall.SIGCONT)
	defer signal.Stop(cont)
	if syscall.Kill(0, syscall.SIGTSTP) == nil {
		select {
		case <-cont:
		case <-time.After(time.Second): // the system did not stop the group
		}
	}
}
