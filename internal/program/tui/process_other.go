//go:build !unix

package tui

// stopProcess does nothing: this system has no way to suspend a program.
func stopProcess() {}
