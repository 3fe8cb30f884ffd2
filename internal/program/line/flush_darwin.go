package line

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush discards typed input that was not read yet.
func flush(f *os.File) { unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, unix.TCIFLUSH) }
