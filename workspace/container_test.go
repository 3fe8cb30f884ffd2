package workspace_test

import (
	"os/exec"
	"testing"

	"github.com/knack-agent/knack/workspace"
	"github.com/knack-agent/knack/workspace/workspacetest"
)

// Any command that passes on arguments, streams and exit codes will do.
func TestContainer(t *testing.T) {
	if _, err := exec.LookPath("env"); err != nil {
		t.Skip("the program env does not exist")
	}
	workspacetest.Test(t, func(t *testing.T) workspace.Workspace {
		w, err := workspace.NewContainer(t.Context(), []string{"env", "IN_CONTAINER=yes"}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return w
	})
}
