//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// Resizes reports changes of the terminal's size until release is called.
func Resizes() (changes <-chan os.Signal, release func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGWINCH)
	return ch, func() { signal.Stop(ch) }
}
