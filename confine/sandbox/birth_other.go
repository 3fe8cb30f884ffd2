//go:build !linux

package sandbox

// birth identifies the file or directory that is at a path now; "" if it cannot be distinguished from a
// later one.
func birth(string) string { return "" }
