//go:build unix

package regular

import "syscall"

// nonblock makes opening a pipe return at once instead of waiting for a writer.
const nonblock = syscall.O_NONBLOCK

// noDevice is the error of opening a socket, or a device that nothing stands behind.
var noDevice error = syscall.ENXIO
