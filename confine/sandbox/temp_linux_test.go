//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// session gives the fixture's commands a directory for temporary files, as those of a session have.
func (b *fixture) session(name string) (dir string) {
	b.t.Helper()
	dir = filepath.Join(b.home, ".local/state/knack/tmp", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { os.RemoveAll(workspace.MemoryOf(dir)) })
	b.local = b.local.WithTemp(&workspace.Temp{Dir: dir, Mounted: func() bool { return true },
		Machine: func(path string) bool { return strings.HasPrefix(path, b.home) }})
	return dir
}

// TestSessionTemp: what a command leaves in /tmp its session finds, under both names, and no other session. The
// workspace, which lies in /tmp here, is visible there, and nothing of that stays in the session's directory.
func TestSessionTemp(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			one := b.session("one")
			if out, exit := b.run("mkdir /tmp/d && echo x > /tmp/d/f && echo $TMPDIR && pwd && cat main.txt && touch written"); exit.Code != 0 ||
				!strings.HasPrefix(out, "/tmp\n") {
				t.Fatalf("%d: %s", exit.Code, out)
			}
			if out, exit := b.run("cat /tmp/d/f && rm -rf /tmp/d && mkdir /tmp/d && cat written && echo y > " + one + "/g && cat /tmp/g"); exit.Code != 0 || out != "x\ny\n" {
				t.Errorf("the next command: %d: %s", exit.Code, out)
			}
			entries, _ := os.ReadDir(one)
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if got := strings.Join(names, " "); got != "d g" {
				t.Errorf("in the session's directory: %s", got)
			}
			if out, exit := b.run("echo v > /var/tmp/v; echo m > /dev/shm/m"); exit.Code != 0 {
				t.Errorf("%d: %s", exit.Code, out)
			}
			if out, exit := b.run("cat /var/tmp/v /dev/shm/m && rm /var/tmp/v /dev/shm/m"); exit.Code != 0 || out != "v\nm\n" {
				t.Errorf("in /var/tmp and /dev/shm: %d: %s", exit.Code, out)
			}
			if out, exit := b.run("echo x > /run/x"); exit.Code == 0 || len(exit.Refused) == 0 {
				t.Errorf("what is written to /run is lost: %s", out)
			}
			b.session("two")
			out, _ := b.run("ls -A /tmp /dev/shm; echo z > " + one + "/h; cat /var/tmp/left; echo > /var/tmp/left")
			if strings.Contains(out, "g\n") ||
				!strings.Contains(out, "Read-only") {
				t.Errorf("another session: %s", out)
			}
		})
	}
}

// TestSessionTempPoints: a file of the machine that is opened below /tmp covers no more than its own name, and leaves
// nothing. While another command uses a mount point, none is removed.
func TestSessionTempPoints(t *testing.T) {
	b := newFixture(t).on(namespaces)
	dir := b.session("one")
	machine := t.TempDir() + "/machine.txt"
	if err := os.WriteFile(machine, []byte("machine"), 0o600); err != nil {
		t.Fatal(err)
	}
	allow := workspace.Allowance{Read: []string{machine}}
	line := "cat " + machine + "; cat main.txt"
	if out, _ := b.allowed(line, allow); out != "machinetext" {
		t.Errorf("opened: %q", out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v %v", entries, err)
	}
	for _, made := range []string{"ln -s /etc " + machine, "mkdir -p " + machine} {
		first := strings.Split(strings.TrimPrefix(machine, "/tmp/"), "/")[0]
		if out, _ := b.run("rm -rf /tmp/" + first + "/*; mkdir -p $(dirname " + machine + ") && " + made + " && ls /tmp"); !strings.Contains(out, first) {
			t.Fatalf("%s: %s", made, out)
		}
		if _, err := b.local.Run(t.Context(), workspace.Command{Line: line, Allow: allow}); err == nil || !strings.Contains(err.Error(), "own /tmp") {
			t.Errorf("%s: a link or directory in the place of a file: %v", made, err)
		}
	}
}
