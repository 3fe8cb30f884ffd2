//go:build !unix

package tui

import "os"

// resizes reports nothing: the size is looked at while nothing else happens.
func resizes() (changes <-chan os.Signal, release func()) { return nil, func() {} }

// stopProcess does nothing: there is no way to suspend a program.
func stopProcess() {}
