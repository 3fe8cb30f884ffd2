//go:build !unix

package tui

// stopProcess does nothing: there is no way to suspend a program.
func stopProcess() {}
