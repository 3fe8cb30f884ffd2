//go:build !unix

package regular

// nonblock is 0: on this system, pipes are not files in a directory.
const nonblock = 0
