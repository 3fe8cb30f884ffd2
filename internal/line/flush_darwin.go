package line

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush discards input that was typed and not read.
func flush(f *os.File) { unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, unix.TCIFLUSH) }
