//go:build !unix

package regular

// nonblock is not needed: pipes of other systems are not files in a directory.
const nonblock = 0
