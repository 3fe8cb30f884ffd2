package line

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops the input that a terminal holds.
func flush(f *os.File) { unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
