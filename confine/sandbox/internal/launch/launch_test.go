//go:build linux && (amd64 || arm64)

package launch

import (
	"os"
	"os/exec"
	"testing"
)

// TestNotEnabled starts this test binary, which imports the launcher but does not enable it, in the way that package
// sandbox starts a launcher.
func TestNotEnabled(t *testing.T) {
	if Enabled() {
		t.Fatal("importing the package enables the launcher")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), EnvName+"="+Version)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the environment alone made a program run as a launcher: %v\n%s", err, out)
	}
}
