//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
)

// A clone is a project with a repository of git, and what lies outside.
type clone struct {
	*fixture
	outside string // a directory with the file "precious"
}

// newClone makes one with two branches that conflict: main and side.
func newClone(t *testing.T) *clone {
	t.Helper()
	need(t, "git")
	b := newFixture(t).complete()
	c := &clone{b, filepath.Join(b.home, "outside")}
	if err := os.RemoveAll(filepath.Join(b.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	c.user(`git config --global user.name n && git config --global user.email a@b && git config --global init.defaultBranch main
		git init -q . && echo .env > .gitignore && echo 1 > f && ln -s ../outside/precious old-link && git add f .gitignore old-link
		git commit -qm one && git branch side && echo 2 > f && git commit -qam two
		git checkout -q side && echo 3 > f && git commit -qam three && git checkout -q main
		mkdir ../outside && echo precious > ../outside/precious`)
	return c
}

// user runs a script outside the sandbox, as the user would, and returns what it prints.
func (c *clone) user(script string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // git may wait for a pipe
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.WaitDelay = time.Second
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_EDITOR=true", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// kept reports whether nothing outside the project has changed.
func (c *clone) kept() bool {
	entries, err := os.ReadDir(c.outside)
	data, _ := os.ReadFile(filepath.Join(c.outside, "precious"))
	return err == nil && len(entries) == 1 && string(data) == "precious\n"
}

func (c *clone) has(name string) bool {
	_, err := os.Lstat(filepath.Join(c.dir, name))
	return err == nil
}

// everyday is what users do in a clone, and what git does then by itself.
const everyday = "git status; git add -A; git commit -qm x; git fetch -q . side; git tag -a -m v v1; git checkout -q side; " +
	"git checkout -q main; git stash; git merge --squash side; git reset -q --hard; git worktree prune; git gc -q; " +
	"git commit-graph write; git pack-refs --all; git update-server-info; git fsck --lost-found; git branch sub/x; " +
	"git notes add -m n; echo 9 > f; git commit -qam y; git rebase side; git rebase --abort; git cherry-pick side; " +
	"git cherry-pick --abort"

// TestGitLinks: what a command leaves in a git directory in the place of files leads git outside the sandbox nowhere.
func TestGitLinks(t *testing.T) {
	link := func(name string) string {
		return "mkdir -p .git/" + filepath.Dir(name) + "; rm -rf .git/" + name + "; ln -s ../outside/precious l; " +
			"ln -s $PWD/../outside/precious .git/" + name + "; rm l"
	}
	scripts := map[string]string{
		"directory": "rm -rf .git/logs; ln -s $PWD/../outside .git/logs",
		"branches":  "ln -s $PWD/../outside .git/refs/heads/sub",
		"worktree":  "mkdir .git/worktrees; ln -s $PWD/../outside .git/worktrees/x",
		"lost":      "echo lost | git hash-object -w --stdin; ln -s $PWD/../outside .git/lost-found",
		"objects": "for i in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do for j in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do " +
			"[ -e .git/objects/$i$j ] || ln -s $PWD/../outside .git/objects/$i$j; done; done",
		"new directory":     "mkdir -p .git/logs/refs/heads/sub; ln -s $PWD/../outside/precious .git/logs/refs/heads/sub/x",
		"moved":             "mv old-link .git/COMMIT_EDITMSG",
		"old, in directory": "rm -rf .git/logs; mkdir d; mv old-link d/HEAD; mv d .git/logs",
		"named objects": "mkdir -p .git/logs/refs/heads/objects/ab; ln -s $PWD/../outside/precious .git/logs/refs/heads/objects/ab/x; " +
			"git symbolic-ref HEAD refs/heads/objects/ab/x",
		"background": "(sleep 0.05; " + link("COMMIT_EDITMSG") + ") & wait",
	}
	for _, name := range []string{"index", "packed-refs", "refs/heads/main", "HEAD"} {
		scripts[name] = link(name)
	}
	for _, name := range []string{"FETCH_HEAD", "COMMIT_EDITMSG", "ORIG_HEAD", "MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG",
		"logs/HEAD", "logs/refs/heads/main", "refs/tags/v1", "objects/info/commit-graph", "objects/info/packs", "info/refs",
		"info/exclude", "rr-cache", "shallow", "gc.log"} {
		scripts["files"] += link(name) + "; "
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			c := newClone(t)
			c.run("true")
			out, exit := c.run(script)
			if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, "a link to ") {
				t.Errorf("no word of it: %q %q", notes, out)
			}
			if did := c.user(everyday); !c.kept() {
				t.Errorf("git followed it: %s", did)
			}
			if links := c.user("find .git -type l"); links != "" {
				t.Errorf("still there: %s", links)
			}
		})
	}
	t.Run("pipe", func(t *testing.T) {
		c := newClone(t)
		_, exit := c.run("rm -f .git/COMMIT_EDITMSG; mkfifo .git/COMMIT_EDITMSG .git/rebase-merge")
		if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, "COMMIT_EDITMSG, a named pipe") {
			t.Errorf("%q", notes)
		}
		c.user("echo 4 > f; git commit -qam x; git status") // would wait for ever
	})
	t.Run("too deep", func(t *testing.T) {
		c := newClone(t)
		deep := strings.Repeat("/"+strings.Repeat("d", 200), 15)
		out, exit := c.run("cd .git/logs/refs/heads; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do mkdir " +
			strings.Repeat("d", 200) + "; cd " + strings.Repeat("d", 200) + "; done; ln -s " + c.outside + "/precious x")
		if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, "deep a directory") {
			t.Errorf("%q %s", notes, out)
		}
		if did := c.user("git checkout -q -b " + strings.TrimPrefix(deep, "/") +
			"/x; git commit -q --allow-empty -m x"); !c.kept() {
			t.Errorf("git followed it: %s", did)
		}
	})
	t.Run("HEAD is a link of the user", func(t *testing.T) {
		c := newClone(t)
		c.user("ln -sf refs/heads/main .git/HEAD")
		c.run("mkdir .git/rebase-merge; echo x evil > .git/rebase-merge/git-rebase-todo")
		if list := c.user("cat .git/rebase-merge/git-rebase-todo .git/HEAD"); !strings.HasPrefix(list, heldStep) ||
			strings.Contains(list, "No such file") {
			t.Error(list)
		}
	})
	t.Run("of the user", func(t *testing.T) {
		c := newClone(t)
		c.user("ln -s $PWD/.gitignore .git/info/mine; mkdir .git/tool; ln -s /nowhere .git/tool/x")
		for _, script := range []string{"true", "git status", "mkdir -p .git/tool/y; touch .git/tool/y/z", "git gc -q"} {
			if _, exit := c.run(script); len(exit.Refused) > 0 {
				t.Errorf("%s: %q", script, exit.Refused)
			}
		}
		c.user("ln -s /nowhere .git/between")
		if _, exit := c.run("git status"); len(exit.Refused) > 0 || !c.has(".git/between") || !c.has(".git/info/mine") {
			t.Errorf("%q", exit.Refused)
		}
	})
}

// indexWriter writes names into an index, as no git does: version 2, an object and names as arguments.
const indexWriter = `
import hashlib, struct, sys
data = open('.git/index', 'rb').read()
count, = struct.unpack('>I', data[8:12])
at, entries = 12, []
for _ in range(count):
    size = struct.unpack('>H', data[at+60:at+62])[0] & 0xfff
    entries.append((data[at+62:at+62+size], data[at:at+60]))
    at += (62 + size + 8) // 8 * 8
for name in sys.argv[2:]:
    entries.append((name.encode(), struct.pack('>10I', 0, 0, 0, 0, 0, 0, 0o100755, 0, 0, 0) + bytes.fromhex(sys.argv[1])))
out = struct.pack('>4sII', b'DIRC', 2, len(entries))
for name, head in sorted(entries):
    entry = head + struct.pack('>H', len(name)) + name
    out += entry + bytes(8 - len(entry) % 8)
out += hashlib.sha1(out).digest()
open('.git/index', 'r+b').write(out)
`

// TestGitIndex: an index in which a command named files in .git or outside the work tree makes git write none of them.
func TestGitIndex(t *testing.T) {
	need(t, "python3")
	write := "id=$(printf '#!/bin/sh\\ntouch ../outside/ran\\n' | git hash-object -w --stdin); python3 w.py $id "
	for name, script := range map[string]string{
		"hook":     write + ".git/hooks/post-checkout",
		"upwards":  write + "../outside/x ../outside/precious",
		"absolute": write + "$PWD/../outside/y",
		"case":     write + ".GIT/hooks/post-checkout",
		"split":    write + ".git/hooks/post-checkout; git update-index --split-index",
		"shared": "git update-index --split-index; git status; cp .git/index i; cp .git/sharedindex.* .git/index; " + write +
			".git/hooks/post-checkout; cat .git/index > $(ls .git/sharedindex.*); cp i .git/index",
	} {
		t.Run(name, func(t *testing.T) {
			c := newClone(t)
			c.write("w.py", indexWriter, t)
			c.run("git status")
			out, exit := c.run(script)
			notes := strings.Join(exit.Refused, "\n")
			if !strings.Contains(notes, "keeps out of an index") {
				t.Errorf("no word of it: %q %s", notes, out)
			}
			did := c.user("git checkout -- .; git restore .; git checkout-index -a")
			if !c.kept() || c.has(".git/hooks/post-checkout") {
				t.Errorf("git wrote them: %s", did)
			}
			if now := c.user("git reset -q; git status"); strings.Contains(now, "fatal") || strings.Contains(now, "deleted") {
				t.Errorf("the index is not back: %s", now)
			}
		})
	}
}

func (c *clone) write(name, text string, t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRebaseSteps: what a command writes into the list of a rebase runs in the sandbox only. Inside, a rebase that
// stopped goes on with all its steps.
func TestRebaseSteps(t *testing.T) {
	const begin = "git checkout -q side; GIT_EDITOR=true git rebase -q -x 'echo ran >> ran.txt' main; echo 5 > f; git add f"
	t.Run("inside", func(t *testing.T) {
		c := newClone(t)
		_, exit := c.run(begin)
		if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, "echo ran >> ran.txt") {
			t.Errorf("%q", notes)
		}
		if _, exit := c.run("git status"); len(exit.Refused) > 0 {
			t.Errorf("told again: %q", exit.Refused)
		}
		out, exit := c.run("GIT_EDITOR=true git rebase --continue")
		if !c.has("ran.txt") || exit.Code != 0 || len(exit.Refused) > 0 {
			t.Errorf("%s %+v", out, exit)
		}
	})
	t.Run("outside", func(t *testing.T) {
		c := newClone(t)
		c.run(begin)
		if did := c.user("git status; git rebase --continue"); c.has("ran.txt") || c.has(".git/rebase-merge") {
			t.Errorf("ran: %t, %s", c.has("ran.txt"), did)
		}
	})
	t.Run("of the user", func(t *testing.T) {
		c := newClone(t)
		c.user("git checkout -q side; git rebase -q -x 'echo ran >> ran.txt' main")
		_, exit := c.run("echo 5 > f; git add f; printf 'exec echo evil > evil.txt\\nx\\techo evil > evil.txt\\n' >> " +
			".git/rebase-merge/git-rebase-todo")
		if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, "evil") || strings.Contains(notes, "ran.txt") {
			t.Errorf("%q", notes)
		}
		if did := c.user("git rebase --continue"); !c.has("ran.txt") || c.has("evil.txt") {
			t.Errorf("ran: %t, evil: %t, %s", c.has("ran.txt"), c.has("evil.txt"), did)
		}
	})
	for _, tree := range []string{"wt", "logs"} {
		t.Run("work tree "+tree, func(t *testing.T) {
			c := newClone(t)
			c.user("git worktree add -q " + tree + " side")
			c.run("cd " + tree + "; GIT_EDITOR=true git rebase -q -x 'echo ran >> ran.txt' main; echo 5 > f; git add f")
			if did := c.user("cd " + tree + "; git rebase --continue"); c.has(tree+"/ran.txt") ||
				c.has(".git/worktrees/"+tree+"/rebase-merge") {
				t.Errorf("ran: %t, %s", c.has(tree+"/ran.txt"), did)
			}
		})
	}
	t.Run("work tree elsewhere", func(t *testing.T) {
		c := newClone(t)
		c.user("git worktree add -q ../far side")
		far := filepath.Join(c.home, "far")
		opened := workspace.Allowance{Write: []string{far}}
		_, exit := c.allowed("cd ../far; GIT_EDITOR=true git rebase -q -x 'echo ran >> ran.txt' main; echo 5 > f; git add f; ln -s "+
			c.outside+"/precious ../project/.git/worktrees/far/COMMIT_EDITMSG", opened)
		if did := c.user("cd ../far; git rebase --continue"); c.has("../far/ran.txt") || !c.kept() {
			t.Errorf("ran: %t, %s %+v", c.has("../far/ran.txt"), did, exit)
		}
	})
}

// TestHeldSteps: which lines of a list run programs, as git reads them.
func TestHeldSteps(t *testing.T) {
	for line, program := range map[string]string{"exec a b": "a b", "x a": "a", "  \texec\ta": "a",
		"exec a\u00a0": "a\u00a0", "exec  a\r": "a", "x\ta\tb": "a\tb"} {
		list, programs := heldSteps("pick 1\n"+line+"\n", []string{"b"})
		if !slices.Equal(programs, []string{program}) || list != "pick 1\n"+heldStep+line+"\n" ||
			armSteps(list) != "pick 1\n"+line+"\n" {
			t.Errorf("%q: %q, %q", line, programs, list)
		}
		if list, programs := heldSteps(line, []string{program}); list != line || len(programs) > 0 {
			t.Errorf("%q: %q", line, list)
		}
	}
	for _, line := range []string{"pick 1 exec a", "# exec a", "execute a", "X a", "x", "exec", "label x", "", "break"} {
		if list, programs := heldSteps(line+"\n", nil); list != line+"\n" || len(programs) > 0 {
			t.Errorf("%q: %q", line, list)
		}
	}
}

// TestGitInner: a repository that a command makes inside a git directory has no settings, and no store of objects leads
// there.
func TestGitInner(t *testing.T) {
	c := newClone(t)
	_, exit := c.run("git init -q --bare .git/x/y; git config -f .git/x/y/config core.fsmonitor evil; " +
		"echo $PWD/.git/x/y/objects > .git/objects/info/alternates")
	notes := strings.Join(exit.Refused, "\n")
	if c.has(".git/x/y/config") || c.has(".git/x/y/hooks") || c.has(".git/objects/info/alternates") ||
		!strings.Contains(notes, ".git/x/y: a repository") || !strings.Contains(notes, "alternates") {
		t.Errorf("%q", notes)
	}
	c.user("git worktree add -q wt side; git worktree list")
	if _, exit := c.run("git status; git -C wt status; git worktree add -q wt2"); len(exit.Refused) > 0 {
		t.Errorf("%q", exit.Refused)
	}
}

// TestGitUnfinished: what a command writes into the state of a rebase, cherry-pick or merge makes git outside the
// sandbox run, read and write nothing.
func TestGitUnfinished(t *testing.T) {
	t.Run("list too long", func(t *testing.T) {
		c := newClone(t)
		_, exit := c.run("mkdir .git/rebase-merge; echo x evil > .git/rebase-merge/git-rebase-todo; head -c 17000000 /dev/zero | tr " +
			"'\\0' '\\n' >> .git/rebase-merge/git-rebase-todo")
		if c.has(".git/rebase-merge/git-rebase-todo") || len(exit.Refused) == 0 {
			t.Errorf("%q", exit.Refused)
		}
	})
	const evil = "mkdir -p git-merge-; printf '#!/bin/sh\\ntouch evil.txt\\n' > git-merge-/evil; chmod +x git-merge-/evil; "
	for name, c := range map[string]struct{ script, user, names string }{
		"rebase": {"git checkout -q side; git rebase -q main; echo 5 > f; git add f; echo /evil > .git/rebase-merge/strategy; " +
			"echo pick $(git rev-parse main~1) >> .git/rebase-merge/git-rebase-todo; echo 7 > g; git add g; git commit -qm g; " +
			"echo pick $(git rev-parse side) >> .git/rebase-merge/git-rebase-todo", "git rebase --continue", "merge strategy"},
		"cherry-pick": {"git cherry-pick side side~1; printf '[options]\\n\\tStrategy = /evil\\n' > .git/sequencer/opts; echo pick " +
			"$(git rev-parse side) >> .git/sequencer/todo; echo 5 > f; git add f", "git cherry-pick --continue",
			"merge strategy"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newClone(t)
			out, exit := b.run(evil + c.script)
			if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, c.names) {
				t.Errorf("%q %s", notes, out)
			}
			if did := b.user(c.user); b.has("evil.txt") {
				t.Errorf("it ran: %s", did)
			}
		})
	}
	for name, path := range map[string]string{"upwards": "../outside/precious", "link": "old-link", "git": ".git/config"} {
		t.Run("rerere "+name, func(t *testing.T) {
			c := newClone(t)
			const id = "1111111111111111111111111111111111111111"
			_, exit := c.run("mkdir -p .git/rr-cache/" + id + "; cp f .git/rr-cache/" + id + "/preimage; printf '" + id + "\\t" +
				path + "\\0' > .git/MERGE_RR")
			if notes := strings.Join(exit.Refused, "\n"); !strings.Contains(notes, "MERGE_RR") {
				t.Errorf("%q", notes)
			}
			if did := c.user("echo 5 > f; git commit -qam x"); c.has(".git/rr-cache/" + id + "/postimage") {
				t.Errorf("git copied it: %s", did)
			}
		})
	}
	t.Run("everyday", func(t *testing.T) {
		c := newClone(t)
		c.user("git config rerere.enabled true")
		for _, script := range []string{"git merge side; echo 5 > f; git commit -qam m",
			"git reset -q --hard main~1; git merge side", "git cherry-pick -X theirs side",
			"git checkout -q side; git rebase -s ort -X theirs main",
			"git revert --no-edit HEAD~1 HEAD", "git checkout -q main; git stash; git rebase -i --exec true HEAD~1"} {
			if out, exit := c.run(script); slices.ContainsFunc(exit.Refused,
				func(s string) bool { return strings.Contains(s, ".git") }) {
				t.Errorf("%s: %q %s", script, exit.Refused, out)
			}
		}
	})
}

// TestGitOpened: where the user opened the git directory, what a command leaves there stays.
func TestGitOpened(t *testing.T) {
	c := newClone(t)
	git := filepath.Join(c.dir, ".git")
	if _, exit := c.allowed("ln -s /nowhere .git/x", workspace.Allowance{Write: []string{git}}); len(exit.Refused) > 0 ||
		!c.has(".git/x") {
		t.Errorf("%q", exit.Refused)
	}
}
