package workspace_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestApprovedScripts: the approved bytes run, whatever is at their path when the command starts; a script that uses
// its own location finds the files next to it, and does not run once it has changed.
func TestApprovedScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts need a POSIX shell")
	}
	for _, c := range []struct {
		name, text, line string
		copied           bool
	}{
		{"s.sh", "echo good\n", "sh s.sh", true},
		{"s.sh", "#!/bin/sh\necho good\n", "./s.sh", true},
		{"s.sh", "#!/bin/sh\necho good\n", "chmod +x s.sh && ./s.sh", true},
		{"a b/s.sh", "echo good\n", "cd 'a b' && sh s.sh", true},
		{"s.sh", ". \"$(dirname \"$0\")/lib.sh\"\n", "sh s.sh", false},
		{"s.py", "print('good')\n", "python3 s.py", true},
		{"s.py", "import lib\n", "python3 s.py", false},
		{"s.py", "import os\nexec(open(os.path.join(os.path.dirname(__file__), 'lib.py')).read())\n", "python3 s.py", false},
	} {
		if strings.HasSuffix(c.name, ".py") {
			if _, err := exec.LookPath("python3"); err != nil {
				t.Log("python3 is not installed:", c.text)
				continue
			}
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, c.name)
		for name, text := range map[string]string{path: c.text, filepath.Join(dir, "lib.sh"): "echo good\n",
			filepath.Join(dir, "lib.py"): "print('good')\n"} {
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		l, err := workspace.NewLocal(dir)
		if err != nil {
			t.Fatal(err)
		}
		private := filepath.Join(t.TempDir(), "run")
		l.Private = private
		run := func() (string, error) {
			var out bytes.Buffer
			_, err := l.Run(t.Context(), workspace.Command{Line: c.line, Output: &out,
				Scripts: []workspace.Script{{Name: path, Path: path, Data: []byte(c.text)}}})
			return out.String(), err
		}
		if out, err := run(); out != "good\n" || err != nil {
			t.Errorf("%s: %q: %q %v", c.line, c.text, out, err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho evil\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := run()
		if c.copied && (out != "good\n" || err != nil) || !c.copied &&
			(out != "" || err == nil || !strings.Contains(err.Error(), "changed after it was approved")) {
			t.Errorf("swapped, %s: %q: %q %v", c.line, c.text, out, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(private); len(left) > 0 {
			t.Errorf("%s: copies remain: %v", c.line, left)
		}
	}
}
