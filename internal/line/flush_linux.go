package line

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush discards input that was typed and not read.
func flush(f *os.File) { unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
