package gate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	for _, file := range []string{"bin/ours", "tools/fine"} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", strings.Join([]string{filepath.Join(dir, "bin"), approved, os.Getenv("PATH")},
		string(os.PathListSeparator)))
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
		{[]string{"bash", "-lc", "source lib/y.py"}, false},
		{[]string{"bash", "-c", "cd lib && ./y.py"}, false},
		{[]string{"sh", "-c", ". ./z.sh; echo 'x'"}, false},
		{[]string{"env", "A=1", "dash", "-ec", "tools/x.py; ./z.sh"}, false},
		{[]string{"sh", "-c", "tools/x.py lib"}, true},
		{[]string{"find", ".", "-exec", "./z.sh", ";"}, false},
		{[]string{"find", ".", "-name", "x", "-execdir", "sh", "z.sh", "{}", "+"}, false},
		{[]string{"find", ".", "-name", "z.sh"}, true},
		{[]string{"busybox", "sh", "z.sh"}, false},
		{[]string{"ours"}, false}, // of the PATH, which leads into the workspace
		{[]string{"sh", "-c", "true && ours"}, false},
		{[]string{"env", "ours"}, false},
		{[]string{"fine"}, true},
	} {
		if err := gate.OnlyApproved(c.args, dir, approved); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if gate.OnlyApproved([]string{"python3", "tools/x.py"}, dir, "") == nil {
		t.Error("without an approved folder no file of the workspace may be run")
	}
}
