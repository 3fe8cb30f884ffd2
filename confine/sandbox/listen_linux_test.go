//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestSharedMemory runs a command in a project in /dev/shm, of which a command in the sandbox has its own. Found by
// attack: each command failed with "no such file or directory".
func TestSharedMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "knack-")
	if err != nil {
		t.Skipf("not tested: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := newFixture(t).on(namespaces)
	_, err = b.local.Run(t.Context(), workspace.Command{Line: "true", Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "is in /dev/shm") {
		t.Errorf("%v", err)
	}
	if out, exit := b.run("cd /dev/shm && echo x > f && cat f"); out != "x\n" {
		t.Errorf("%q, %+v", out, exit)
	}
}
