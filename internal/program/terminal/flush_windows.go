package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// Flush drops what was typed on a terminal and not read yet. For other files it does nothing.
func Flush(f *os.File) { windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())) }
