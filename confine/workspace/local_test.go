package workspace_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/confine/workspace/workspacetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLocal(t testing.TB) *workspace.Local {
	t.Helper()
	w, err := workspace.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func TestLocal(t *testing.T) {
	workspacetest.Test(t, func(t *testing.T) workspace.Workspace { return newLocal(t) })
}
