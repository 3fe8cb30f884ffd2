//go:build linux && (amd64 || arm64)

// Package launcher makes a program the launcher of its own sandboxed commands:
//
//	import _ "github.com/knack-agent/knack/sandbox/launcher"
//
// Import it in package main of a program that uses package sandbox, or in the
// test of a package that does. Without it package sandbox confines nothing on
// Linux, and its report says why: a program must not start to act on an
// environment variable because some dependency imports a library.
//
// It imports nothing but syscall, so that a launcher does not initialise the
// rest of the program.
package launcher

import "github.com/knack-agent/knack/sandbox/internal/launch"

func init() { launch.Enable() }
