package permission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestLinks: a command that reads a tree through its links may run without
// approval where they stay in the workspace.
func TestLinks(t *testing.T) {
	place := testWorkspace(t)
	out := filepath.Join(filepath.Dir(place.Dir), "outside")
	link := func(to, at string) {
		at = filepath.Join(place.Dir, at)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Skip("no symbolic links:", err)
		}
	}
	link("../src", "fine/src")
	link("../fine", "fine/self")
	link("loop", "loop/loop")
	link(out, "bad/out")
	link("../bad", "far/bad")
	link("../sub", "secret/sub")
	link(place.Home+"/.ssh/id_ed25519", "key/k")
	for _, c := range []struct{ command, rules, want string }{
		{"grep -R x fine", "", "allow"},
		{"grep -R x bad", "", "ask"},
		{"grep -Rn x far", "", "ask"},
		{"grep -nR x bad/", "", "ask"},
		{"cd bad && grep -R x", "", "ask"},
		{"grep --dereference-recursive x bad", "", "ask"},
		{"grep --deref x bad", "", "ask"},
		{"egrep -R x bad", "", "ask"},
		{"grep -r x bad", "", "allow"}, // follows no links
		{"grep -R x secret", "", "ask"},
		{"grep -R x secret", "Bash(grep:*)", "ask"},
		{"grep -R x key", "Bash(grep:*)", "ask"},
		{"grep -R x bad", "Bash(grep:*)", "allow"},
		{"rg -L x fine", "", "allow"},
		{"rg -L x bad", "", "ask"},
		{"rg --follow x bad", "", "ask"},
		{"rg -nL x", "", "ask"},
		{"rg x bad", "", "allow"},
		{"diff -r fine src", "", "allow"},
		{"diff -r bad src", "", "ask"},
		{"diff --recursive src bad", "", "ask"},
		{"diff -qr bad src", "", "ask"},
		{"grep -R x loop", "", "ask"},
		{"find -L . -name x", "", "ask"},
		{"find -L sub -name x", "", "allow"},
		{"tree -l bad", "", "ask"},
		{"tree bad", "", "allow"},
		{"du -L bad", "", "ask"},
		{"find -L bad -name x", "", "ask"},
		{"find bad -follow", "", "ask"},
		{"find -L fine", "", "allow"},
		{"fd -L x bad", "", "ask"},
		{"fd --follow x bad", "", "ask"},
		{"ls -RL bad", "", "ask"},
		{"ls -L fine", "", "allow"},
		{"for d in fine; do grep -R x $d; done", "", "ask"},
		{"grep -R x fine/*", "", "allow"},
		{"grep -R x *", "", "ask"},
		{"grep -d recurse x sub", "", "ask"},
	} {
		t.Run(c.command, func(t *testing.T) {
			rules := permission.Rules{Allow: rulesOf(t, c.rules, permission.User)}
			d := rules.Decide(t.Context(), permission.Default, place, permission.Subject{Kind: "Bash", Text: c.command})
			if d.Verdict.String() != c.want {
				t.Errorf("%v, want %s%s", d.Verdict, c.want, explain(d))
			}
		})
	}
	place.Below = func(string, int) ([]string, bool) { return nil, false } // files of another machine
	d := permission.Rules{}.Decide(t.Context(), permission.Default, place,
		permission.Subject{Kind: "Bash", Text: "grep -R x fine"})
	if d.Verdict != permission.Ask || !strings.Contains(d.Reason, "check all links") {
		t.Errorf("where links lead cannot be known, but %v: %s", d.Verdict, d.Reason)
	}
}

// TestProbes: asking a program for its version or state needs no approval, if no
// file of the project selects the program.
func TestProbes(t *testing.T) {
	place := testWorkspace(t)
	verdict := func(command string) string {
		return permission.Rules{}.Decide(t.Context(), permission.Default, place,
			permission.Subject{Kind: "Bash", Text: command}).Verdict.String()
	}
	for _, c := range []string{"node --version", "go version", "cargo --version", "rustc -V", "python3 -V",
		"docker --version",
		"npm -v", "npm list", "npm ls --depth=0 --json", "gh pr view 12", "gh pr diff 12 --name-only",
		"gh pr list --json number --jq '.[].number'", "node -v | head -1", "make --version", "yarn --version", "mvn -v"} {
		if got := verdict(c); got != "allow" {
			t.Errorf("%s: %s", c, got)
		}
	}
	for _, c := range []string{"./node --version", "evil --version", "node --version x", "npm list --prefix /tmp/evil",
		"npm list --script-shell=x",
		"gh pr view 12 --web", "gh pr list --jq '$ENV'", "gh pr list --jq env", "gh pr list -q 'env.TOKEN'", "gh pr merge 1",
		"gh pr view -t '{{.}}' 1", "gh pr view \"$x\"", "gh api x", "gh pr list -R a/b", "npm run list", "npm help list",
		"python3 --version -c x"} {
		if got := verdict(c); got == "allow" {
			t.Errorf("%s: %s", c, got)
		}
	}
	for command, file := range map[string]string{"cargo --version": "rust-toolchain.toml", "yarn --version": ".yarnrc.yml",
		"mvn --version": ".mvn", "node -v": ".tool-versions", "npm list": "mise.toml"} {
		path := filepath.Join(place.Dir, file)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := verdict(command); got != "ask" {
			t.Errorf("%s with %s: %s", command, file, got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
