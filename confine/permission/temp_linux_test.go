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

// TestRedirectsIntoTemp: where a redirection leads below the session's own /tmp under a name that mktemp makes up, or to
// what the line says literally, it is judged as that file. It was refused, and no rule could allow it.
func TestRedirectsIntoTemp(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, temp := filepath.Join(top, "work"), filepath.Join(top, "temp")
	for _, name := range []string{dir + "/src", temp} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	confined := true
	p := permission.PathContext{Dir: dir, Roots: []string{dir}, Home: filepath.Join(top, "home"), Temp: temp,
		Confined: func() bool { return confined },
		InTemp: func(name string) string {
			if rel, ok := strings.CutPrefix(name, "/tmp"); ok && !strings.HasPrefix(name, top) {
				return temp + rel
			}
			return name
		}}
	decide := func(line, deny string) permission.Decision {
		rules := permission.Rules{Allow: rulesOf(t, "Bash", permission.User)}
		if deny != "" {
			rules.Deny = rulesOf(t, deny, permission.User)
		}
		return rules.Decide(t.Context(), permission.Default, p, permission.Subject{Kind: "bash", Text: line})
	}
	for _, line := range []string{
		`d=$(mktemp -d); echo hi > $d/x`,
		`d="$(mktemp -d)"; for i in 1 2; do echo hi > "$d/$i.txt"; done`,
		`d=$(mktemp -d) && e=$d/sub && mkdir "$e" && echo hi > "$e/x"`,
		`f=$(mktemp) && echo hello > "$f"`,
		`f=$(mktemp -t out.XXXXXX --suffix=.c) && cat > "$f"`,
		`f=$(mktemp /tmp/out.XXXXXX) && cat > "$f"`,
		`cat > "$TMPDIR/q"`,
		`cat > "${TMPDIR:-/tmp}/q"`,
		`export OUT=/tmp/o; echo 1 > $OUT`,
		`export OUT=$(mktemp); echo 1 > $OUT`,
		`cd $(mktemp -d) && echo x > y`,
		`cd "$(mktemp -d)" && mkdir z && echo x > z/y`,
	} {
		confined = true
		if d := decide(line, ""); d.Verdict != permission.Allow {
			t.Errorf("%s: %v%s", line, d.Verdict, explain(d))
		}
		confined = false
		if d := decide(line, ""); d.Verdict != permission.Ask {
			t.Errorf("without a sandbox: %s: %v%s", line, d.Verdict, explain(d))
		}
	}
	confined = true
	for _, line := range []string{
		`d=$(mktemp -d); d=/x; echo hi > $d/x`,
		`read d; d=$(mktemp -d); echo hi > $d/x`,
		`false && PWD=$(mktemp -d); echo hi > $PWD/x`,
		`mktemp() { echo src; }; d=$(mktemp -d); echo hi > $d/x`,
		`TMPDIR=src; d=$(mktemp -d); echo hi > $d/x`,
		`export TMPDIR=src; cat > $TMPDIR/x`,
		`d=$(mktemp -d); echo hi > $d` + dir + `/src/x`, // where mktemp fails
		`d=$(mktemp -d); echo hi > $d/../x`,
		`d=$(mktemp -d); echo hi > ${d}src/x`,
		`d=$(mktemp -d); echo hi > $d/*`,
		`d=$(mktemp -d); echo hi > ${d#/tmp}`,
		`d=$(mktemp -d src/XXX); echo hi > $d/x`,
		`d=$(mktemp -p src); echo hi > $d`,
		`d=$(mktemp -d; echo src); echo hi > $d/x`,
		`export OUT=src/x; echo hi > $OUT`, // an edit like any other
		`export OUT=/etc/x; echo hi > $OUT`,
		`cd $(mktemp -d); echo x > y`,
		`cd $(mktemp -d /tmp/none/XXX) && echo x > y`, // cd "" succeeds
		`cd $(mktemp -d) && cd - && echo x > y`,
	} {
		if d := decide(line, ""); d.Verdict != permission.Ask {
			t.Errorf("%s: %v%s", line, d.Verdict, explain(d))
		}
	}
	for line, deny := range map[string]string{
		`d=$(mktemp -d); echo hi > $d/x`:  "Edit(//tmp/**)",
		`cat > "$TMPDIR/q"`:               "Edit(//tmp/q)",
		`d=$(mktemp -d); echo hi > $d/.x`: "Edit(**/.x)",
	} {
		if d := decide(line, deny); d.Verdict == permission.Allow {
			t.Errorf("%s: %s: %v%s", deny, line, d.Verdict, explain(d))
		}
	}
}
