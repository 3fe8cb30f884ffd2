package permission_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestPatternsInTemp: where commands have a /tmp of their own, a pattern means the files in there. It meant those of the
// machine: the question named files of other programs, and an approved rm -rf removed them.
func TestPatternsInTemp(t *testing.T) {
	machine, err := os.MkdirTemp("/tmp", "knack-machine-")
	if err != nil {
		t.Skip("no /tmp: ", err)
	}
	defer os.RemoveAll(machine)
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, temp := filepath.Join(top, "work"), filepath.Join(top, "temp")
	for _, name := range []string{dir, temp + "/knack-machine-own"} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := permission.PathContext{Dir: dir, Home: top, Temp: temp, Confined: func() bool { return true },
		InTemp: func(name string) string {
			rel, ok := strings.CutPrefix(name, "/tmp")
			if own := temp + rel; ok && !strings.HasPrefix(name, top) {
				if _, err := os.Lstat(name); err != nil || own == temp {
					return own
				}
			}
			return name
		}}
	for line, want := range map[string]bool{
		"rm -rf /tmp/knack-mach*":  false,
		"rm -rf /tmp/*":            false,
		"cat /tmp/*":               false,
		"rm -rf " + machine:        true,
		"rm -rf " + machine + "/*": true,
	} {
		rules := permission.Rules{Allow: rulesOf(t, "Bash", permission.User)}
		d := rules.Decide(t.Context(), permission.Default, p, permission.Subject{Kind: "bash", Text: line})
		got := slices.ContainsFunc(d.Subjects, func(s permission.Judged) bool {
			return s.Verdict == permission.Ask && strings.HasPrefix(s.Text, machine)
		})
		if got != want {
			t.Errorf("%s: asks for %s: %v, want %v: %v", line, machine, got, want, d.Subjects)
		}
	}
}
