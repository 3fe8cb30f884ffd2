package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Flush drops what was typed on a terminal and not read yet. For other files it does nothing.
func Flush(f *os.File) { unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
