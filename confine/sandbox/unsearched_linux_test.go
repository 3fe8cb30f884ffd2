//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// evil makes the repository in a git directory run a program whenever git looks at files.
func evil(dir string) string {
	return "git config -f " + dir + "/config core.fsmonitor 'touch " + `"$OUT"/ran` + "; false'; "
}

// TestUnsearched: a repository that a command makes in a directory that is not searched is moved aside soon after the
// command, so that git outside the sandbox runs nothing of it.
func TestUnsearched(t *testing.T) {
	for name, c := range map[string]struct{ before, script, dir string }{
		"deep": {"", "mkdir -p node_modules/a/b/c/d; git init -q node_modules/a/b/c/d; " +
			evil("node_modules/a/b/c/d/.git"), "node_modules/a/b/c/d"},
		"target": {"", "git init -q target/x; " + evil("target/x/.git"), "target/x"},
		"top":    {"", "git init -q .venv; " + evil(".venv/.git"), ".venv"},
		"in a package": {"mkdir -p node_modules/react/lib", "git init -q node_modules/react; " +
			evil("node_modules/react/.git"), "node_modules/react"},
		"bare": {"", "git init -q --bare .cache/x; " + evil(".cache/x"), ".cache/x"},
		"bare, there before": {"mkdir -p .tox/py/lib; echo x > .tox/py/lib/f", "git init -q --bare .tox/py/lib; " +
			evil(".tox/py/lib"), ".tox/py/lib"},
		"file": {"mkdir -p sub/node_modules/p", "git init -q --separate-git-dir sub/node_modules/data sub/node_modules/p; " +
			evil("sub/node_modules/data"), "sub/node_modules/p"},
		"upper case": {"", "git init -q node_modules/p; " + evil("node_modules/p/.git") +
			"mv node_modules/p/.git node_modules/p/.GIT", "node_modules/p"},
		"moved": {"mkdir -p node_modules/p parts/refs; echo ref: refs/heads/main > parts/HEAD; " + evil("parts"),
			"mkdir parts/objects; mv parts node_modules/p/.git", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newClone(t)
			t.Setenv("OUT", b.outside)
			b.user(c.before)
			settled()
			b.run("true")
			settled()
			out, _ := b.run("OUT='" + b.outside + "'; " + c.script)
			b.box.system.protected.unsearched.wait()
			if did := b.user("cd " + c.dir + " && git status && git diff"); c.dir != "" && !b.kept() {
				t.Errorf("git ran it: %s\n%s", did, out)
			}
			_, exit := b.run("true")
			if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, "node_modules") &&
				!strings.Contains(notes, c.dir) || notes == "" {
				t.Errorf("no word of it: %q\n%s", notes, out)
			}
			if _, exit := b.run("true"); len(exit.Refused) > 0 {
				t.Errorf("told twice: %q", exit.Refused)
			}
		})
	}
}

// TestUnsearchedSubmodule: git at the top enters no repository that a command made in such a directory and named as a
// submodule, from the moment at which the command has ended.
func TestUnsearchedSubmodule(t *testing.T) {
	for name, script := range map[string]string{
		"at once": "git init -q node_modules/x; git -C node_modules/x commit -q --allow-empty -m x; " +
			evil("node_modules/x/.git") +
			"git update-index --add --cacheinfo 160000,$(git -C node_modules/x rev-parse HEAD),node_modules/x",
		"file": "mkdir node_modules; git init -q --separate-git-dir node_modules/d node_modules/x; git -C node_modules/x commit -q " +
			"--allow-empty -m x; " + evil("node_modules/d") +
			"git update-index --add --cacheinfo 160000,$(git -C node_modules/x " +
			"rev-parse HEAD),node_modules/x",
	} {
		t.Run(name, func(t *testing.T) {
			b := newClone(t)
			t.Setenv("OUT", b.outside)
			out, exit := b.run("export OUT='" + b.outside + "'; " + script)
			if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, "node_modules/x") {
				t.Errorf("no word of it: %q %s", notes, out)
			}
			if did := b.user("git status; git diff"); !b.kept() {
				t.Errorf("git ran it: %s", did)
			}
		})
	}
}

// TestUnsearchedOfUser: a repository of the user in such a directory stays, and is guarded as others are.
func TestUnsearchedOfUser(t *testing.T) {
	b := newClone(t)
	const make = "git init -q .venv/src/p; git -C .venv/src/p commit -q --allow-empty -m x"
	b.user(make)
	settled()
	config := filepath.Join(b.dir, ".venv/src/p/.git/config")
	if out, exit := b.run("cd .venv/src/p && git status && touch f && git add f && git commit -qm y"); exit.Code != 0 ||
		len(exit.Refused) > 0 {
		t.Fatalf("%s %+v", out, exit)
	}
	b.box.system.protected.unsearched.wait()
	settled()
	_, exit := b.run("echo evil >> .venv/src/p/.git/config; echo evil > .venv/src/p/.git/hooks/pre-commit")
	if data, err := os.ReadFile(config); err != nil || strings.Contains(string(data), "evil") || b.has(
		".venv/src/p/.git/hooks/pre-commit") {
		t.Errorf("%s, %v, %+v", data, err, exit)
	}
	settled()
	b.user(strings.ReplaceAll(make, "/p", "/between"))
	settled()
	b.run("true")
	b.box.system.protected.unsearched.wait()
	if _, exit := b.run("true"); len(exit.Refused) > 0 || !b.has(".venv/src/between/.git") {
		t.Errorf("%q", exit.Refused)
	}
	settled()
	b.user(strings.ReplaceAll(make, "/p", "/late"))
	settled()
	b.run("git config -f .venv/src/late/.git/config core.fsmonitor evil")
	b.box.system.protected.unsearched.wait()
	if _, exit := b.run("true"); !strings.Contains(strings.Join(exit.Refused, "\n"),
		"late/.git/config changed while a command ran") {
		t.Errorf("%q", exit.Refused)
	}
}

// TestUnsearchedAtEnd: what is found when no further command runs, the next session tells.
func TestUnsearchedAtEnd(t *testing.T) {
	b := newClone(t)
	b.box.policy.State = filepath.Join(b.home, "state")
	b.box = newBox(t, b.box.policy)
	b.local.Confine = b.box.Confine
	b.run("git init -q node_modules/x")
	b.box.Close()
	if b.has("node_modules/x/.git") {
		t.Error("it is there")
	}
	next := newBox(t, b.box.policy)
	if notes := next.Leftovers(); len(notes) != 1 || !strings.Contains(notes[0], "node_modules/x/.git") {
		t.Errorf("%q", notes)
	}
	if notes := next.Leftovers(); len(notes) > 0 {
		t.Errorf("told twice: %q", notes)
	}
}
