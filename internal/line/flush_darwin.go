package line

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops the input that a terminal holds.
func flush(f *os.File) { unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, unix.TCIFLUSH) }
