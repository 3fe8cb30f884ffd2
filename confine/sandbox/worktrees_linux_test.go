//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestManyWorktrees: the git directories of worktrees elsewhere are closed as a whole, with one mount each, and git
// works in the repository, in a worktree in it, and in one of those elsewhere.
func TestManyWorktrees(t *testing.T) {
	need(t, "git")
	b := newFixture(t).on(namespaces)
	repo := filepath.Join(b.dir, "repo")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if cmd.Dir = repo; args[0] == "init" {
			cmd.Dir = b.dir
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v %s", args, err, out)
		}
	}
	os.RemoveAll(filepath.Join(b.dir, ".git"))
	git("init", "-q", "repo")
	git("config", "user.name", "a")
	git("config", "user.email", "a@b")
	git("commit", "-q", "--allow-empty", "-m", "x")
	const count = 5
	for i := range count {
		git("worktree", "add", "-q", fmt.Sprintf("%s/elsewhere%d", b.home, i))
	}
	git("worktree", "add", "-q", "inside")
	at := func(dir string) *fixture {
		return b.other(func(p *Policy) { p.Dir = dir })
	}
	x := at(repo)
	x.check(`cd `+repo+`; for f in HEAD index config.worktree commondir gitdir new; do
			echo evil > .git/worktrees/elsewhere0/$f; rm -f .git/worktrees/elsewhere0/$f; done 2>/dev/null
		mv .git/worktrees/elsewhere0 .git/worktrees/x 2>/dev/null; cat .git/worktrees/elsewhere0/commondir
		git commit -q --allow-empty -m y && git gc -q && cd inside && git commit -q --allow-empty -m z && echo done`, "../..\ndone\n")
	out, _ := x.run("grep -c ' " + repo + "/.git/worktrees/elsewhere' /proc/self/mountinfo")
	if strings.TrimSpace(out) != fmt.Sprint(count) {
		t.Errorf("%s mounts for %d worktrees", strings.TrimSpace(out), count)
	}
	at(filepath.Join(b.home, "elsewhere1")).check("cd "+b.home+"/elsewhere1; git commit -q --allow-empty -m w && echo done; "+
		"{ echo evil > "+repo+"/.git/worktrees/elsewhere2/HEAD; } 2>/dev/null; git worktree list | wc -l", "done\n7\n")
	git("fsck", "--no-progress")
	// No script moves HEAD of the main work tree, or changes its index.
	before := b.read("project/repo/.git/HEAD")
	at(filepath.Join(b.home, "elsewhere3")).check("cd "+b.home+"/elsewhere3; git branch two; (git -C "+repo+" checkout -q two; "+
		"git --git-dir="+repo+"/.git symbolic-ref HEAD refs/heads/two; git -C "+repo+" read-tree two; rm -f "+repo+"/.git/HEAD; "+
		"echo ref: refs/heads/two > "+repo+"/.git/HEAD) 2>/dev/null; git commit -q --allow-empty -m v && echo done", "done\n")
	if after := b.read("project/repo/.git/HEAD"); after != before {
		t.Errorf("HEAD of the main work tree: %q, was %q", after, before)
	}
}
