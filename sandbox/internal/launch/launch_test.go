//go:build linux && (amd64 || arm64)

package launch

import (
	"os"
	"os/exec"
	"testing"
)

// TestNotEnabled starts this test binary, which imports the launcher and does
// not enable it, as package sandbox starts one.
func TestNotEnabled(t *testing.T) {
	if Enabled() {
		t.Fatal("enabled by an import of the package alone")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), EnvName+"="+Version)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the environment made a launcher of a program that did not ask for it: %v\n%s", err, out)
	}
}
