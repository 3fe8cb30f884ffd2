//go:build !unix

package terminal

import "os"

// Resizes reports changes of the terminal's size, where a signal reports them.
func Resizes() (changes <-chan os.Signal, release func()) { return nil, func() {} }
