//go:build !unix

package regular

import "io/fs"

// nonblock is 0: on this system, pipes are not files in a directory.
const nonblock = 0

// noDevice is an error that opening a file does not return: here, sockets are not files in a directory, either.
var noDevice = fs.ErrClosed
