package workspace_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/confine/workspace/workspacetest"
)

// Any command that passes on arguments, streams and exit codes will do.
func TestContainer(t *testing.T) {
	if _, err := exec.LookPath("env"); err != nil {
		t.Skip("the program env does not exist")
	}
	workspacetest.Test(t, func(t *testing.T) workspace.Workspace {
		w, err := workspace.NewContainer(t.Context(), []string{"env", "IN_CONTAINER=yes"}, t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	})
}

// TestContainerWithoutEnd: what a container prints may have no end. It takes neither all memory nor the whole disk.
// Found by attack: "docker exec" that answered stat without end took 2 GB in 5 s.
func TestContainerWithoutEnd(t *testing.T) {
	if _, err := exec.LookPath("yes"); err != nil {
		t.Skip("the program yes does not exist")
	}
	dir := t.TempDir()
	hostile := filepath.Join(dir, "hostile")
	w, err := workspace.NewContainer(t.Context(), []string{"sh", "-c",
		`[ -e "$0" ] || exec "$@"; . "$0"`, hostile}, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, script := range map[string]string{"output": "exec yes", "errors": "exec yes >&2",
		"without a line": "yes | tr -d '\\n'"} {
		if err := os.WriteFile(hostile, []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Stat(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: stat: %v", name, err)
		}
	}
	const long = 100 << 10
	if err := os.WriteFile(hostile, []byte("yes | tr -d '\\n' | head -c 102400"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = w.Run(t.Context(), workspace.Command{Line: "true", Output: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "did not start") || len(err.Error()) > long/10 {
		t.Errorf("a command: %.100v", err)
	}
	os.Remove(hostile)
	sparse := filepath.Join(dir, "sparse")
	if err := os.WriteFile(sparse, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 1<<40); err != nil {
		t.Skip("no file of this size here: ", err)
	}
	if f, err := w.Open(t.Context(), sparse); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a file of a terabyte: %v %v", f, err)
	}
}
