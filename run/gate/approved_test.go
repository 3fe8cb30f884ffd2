package gate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/run/gate"
)

// TestOnlyApproved: a program that nobody is asked about runs no file of the workspace but those of the approved
// folder.
func TestOnlyApproved(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"tools/x.py", "lib/y.py", "z.sh"} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	approved := filepath.Join(dir, "tools")
	for _, c := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"python3", "tools/x.py"}, true},
		{[]string{"python3", filepath.Join(dir, "tools", "x.py"), "lib/y.py"}, true}, // an argument does not run
		{[]string{"gopls"}, true},
		{[]string{"python3", "lib/y.py"}, false},
		{[]string{"python3", "-u", "lib/y.py"}, false},
		{[]string{"sh", "z.sh"}, false},
		{[]string{"./z.sh"}, false},
		{[]string{filepath.Join(dir, "z.sh")}, false},
		{[]string{"python3", "later.py"}, false},
		{[]string{"sh", "-c", "./z.sh"}, false},
	} {
		if err := gate.OnlyApproved(c.args, dir, approved); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if gate.OnlyApproved([]string{"python3", "tools/x.py"}, dir, "") == nil {
		t.Error("without an approved folder no file of the workspace may be run")
	}
}
