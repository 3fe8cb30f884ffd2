//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInertRepository: a repository in which git runs nothing stays where a command made it, and is guarded from then
// on.
func TestInertRepository(t *testing.T) {
	need(t, "git")
	b := newFixture(t).complete()
	b.run("true")
	if out, exit := b.run("git init -q new && git -C new config user.name A"); exit.Code != 0 || len(exit.Refused) > 0 {
		t.Fatalf("%s %+v", out, exit)
	}
	if out, _ := b.run("git -C new config alias.x '!evil'; echo x > new/.git/hooks/pre-commit; git -C new config user.name"); !strings.HasSuffix(out, "A\n") {
		t.Error(out)
	}
	if text := b.read("project/new/.git/config"); strings.Contains(text, "evil") {
		t.Error(text)
	}
	if _, err := os.Lstat(filepath.Join(b.dir, "new/.git/hooks/pre-commit")); err == nil {
		t.Error("a hook was planted")
	}
	b.run("git init -q other && git init -q other/.git/in && git -C other/.git/in config core.pager evil")
	if _, err := os.Lstat(filepath.Join(b.dir, "other/.git/in/.git")); err == nil {
		t.Error("a repository in a git directory stays")
	}
}

// TestInertGit: what counts as one.
func TestInertGit(t *testing.T) {
	need(t, "git")
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := filepath.Join(root, ".git")
	if !inertGit(root, dir, "", 8) {
		t.Fatal("that of git init is not")
	}
	for name, text := range map[string]string{
		"hooks/pre-commit": "x", "commondir": "..", "config.worktree": "", "info/attributes": "* filter=x",
		"modules/m/config": "[core]\n\tpager = x\n", "modules/n/config": "[core]\n\tworktree = ../../../../home\n", "worktrees/w/commondir": "x", "rebase-merge/git-rebase-todo": "exec x",
		"in/.git/config": "[core]\n\tpager = x\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if inertGit(root, dir, "", 8) {
			t.Errorf("%s counts as nothing", name)
		}
		os.Remove(path)
		for _, empty := range []string{"modules/m", "modules/n", "worktrees/w", "worktrees", "rebase-merge", "in/.git", "in"} {
			os.Remove(filepath.Join(dir, empty))
		}
	}
	if !inertGit(root, dir, "", 8) {
		t.Error("it does not count after that")
	}
	module := filepath.Join(dir, "modules/a/b")
	if err := os.MkdirAll(module, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"../../../../sub": true, "../../../..": true, "../../../../../home": false,
		root: false, "": false, "../../../../$HOME": false} {
		for file, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tworktree = " + name + "\n"} {
			if err := os.WriteFile(filepath.Join(module, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := inertGit(root, dir, "", 8); got != want {
			t.Errorf("a submodule with the work tree %q: %t", name, got)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "hooks")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "hooks")); err != nil {
		t.Fatal(err)
	}
	if inertGit(root, dir, "", 8) {
		t.Error("hooks that are a link count as nothing")
	}
}

// TestInertConfig: only what git itself writes into a new configuration.
func TestInertConfig(t *testing.T) {
	const start = "[core]\n\tbare = false\n"
	for text, want := range map[string]bool{
		start: true, start + "[remote \"o\"]\n\turl = https://example.com/r.git\n\tfetch = +refs/heads/*:refs/remotes/o/*\n": true,
		start + "[branch \"main\"]\n\tremote = o\n\tmerge = refs/heads/main\n# x\n[user]\n\tname = A B\n": true,
		start + "[remote \"o\"]\n\turl = ext::sh -c x\n":                                                  false,
		start + "[remote \"o\"]\n\turl = --upload-pack=x\n":                                               false,
		start + "[remote \"o\"]\n\tuploadpack = x\n":                                                      false,
		start + "[branch \"x\"]\n\tremote = ext::x\n":                                                     false,
		start + "[alias]\n\tx = !evil\n":                                                                  false,
		start + "[include]\n\tpath = x\n":                                                                 false,
		start + "[includeIf \"gitdir:/\"]\n\tpath = x\n":                                                  false,
		start + "[core] pager = x\n":                                                                      false,
		start + "[core]pager=x\n":                                                                         false,
		start + "\tpager = x\n":                                                                           false,
		start + "\tfilemode = \\\n\tpager = x\n":                                                          false,
		start + "\tworktree = ../../x\n":                                                                  false,
		start + "\tfilemode = \"true\n\" pager = x\n":                                                     false,
		start + "\tfilemode\n":                                                                            false,
		start + "\tfilemode = true ; x\n":                                                                 false,
		start + "[user]\n\tname = A\r\n[core]\n\tpager = x\n":                                             false,
		start + "[submodule \"a\"]\n\tupdate = !evil\n":                                                   false,
		start + "[submodule \"a\\\"]\n[core]\n\tpager = x\n\"]\n":                                         false,
		start + "[remote.o]\n\turl = https://example.com\n":                                               false,
		"[filter \"x\"]\n\tclean = evil\n":                                                                false,
		"[core]\n\tfsmonitor = evil\n":                                                                    false,
		"[core]\n\thooksPath = x\n":                                                                       false,
		"[submodule]\n\tactive = .\n[extensions]\n\tobjectformat = sha256\n":                              true,
	} {
		if got := inertConfig(text, func(string) bool { return false }); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
