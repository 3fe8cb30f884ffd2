//go:build !linux && !darwin && !windows

package terminal

import "os"

// Flush does nothing: it is not supported on this system.
func Flush(*os.File) {}
