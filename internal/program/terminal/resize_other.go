//go:build !unix

package terminal

import "os"

// Resizes returns a nil channel: this system has no signal for a changed size.
func Resizes() (changes <-chan os.Signal, release func()) { return nil, func() {} }
