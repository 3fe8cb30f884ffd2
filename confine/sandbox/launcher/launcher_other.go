//go:build !(linux && (amd64 || arm64))

// Package launcher has no effect on this system, where the sandbox needs no launcher.
//
// Most programs start with package engine.
package launcher
