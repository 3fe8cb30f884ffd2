//go:build linux && (amd64 || arm64)

// Package launcher makes a program the launcher of its own sandboxed commands:
//
//	import _ "github.com/knack-agent/knack/confine/sandbox/launcher"
//
// Import it in package main of a program that uses package sandbox, or in the tests of a package
// that does. Without it package sandbox confines nothing on Linux, and its report gives this
// reason. The import is explicit because a program must not start to react to an environment
// variable only because a dependency imports a library.
//
// It imports only syscall, so that a launcher does not initialise the rest of the program.
//
// Most programs start with package engine.
package launcher

import "github.com/knack-agent/knack/confine/sandbox/internal/launch"

func init() { launch.Enable() }
