package worktree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newRepo makes a repository with a commit, a hook and a filter that leave a trace.
func newRepo(t *testing.T) (root, trace string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, trace = filepath.Join(top, "repo"), filepath.Join(top, "trace")
	for name, text := range map[string]string{"a.txt": "a\n", ".gitignore": "ignored\n",
		".gitattributes": "* filter=x\n"} {
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, root, "init", "-q", "--template=")
	git(t, root, "add", ".")
	git(t, root, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "maintenance.auto=false", "commit", "-qm", "first")
	git(t, root, "config", "filter.x.smudge", "touch "+trace+"; cat")
	hook := filepath.Join(root, ".git", "hooks", "post-checkout")
	if err := os.Mkdir(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+trace+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root, trace
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %s", args, out)
	}
	return string(out)
}

func TestWorktree(t *testing.T) {
	root, trace := newRepo(t)
	for name, c := range map[string]struct {
		do   func(dir string)
		kept string
	}{
		"nothing": {func(string) {}, ""},
		"ignored": {func(dir string) { write(t, dir, "ignored") }, "ignored files: ignored"},
		"rebuilt": {func(dir string) {
			write(t, dir, "ignored/node_modules/x/index.js")
			write(t, dir, "ignored/.venv/bin/python")
		}, ""},
		"output": {func(dir string) {
			write(t, dir, "ignored/target/x")
			write(t, dir, "ignored/result.csv")
		}, "ignored files: ignored/"},
		"new":     {func(dir string) { write(t, dir, "new") }, "changes that are not committed"},
		"changed": {func(dir string) { write(t, dir, "a.txt") }, "changes that are not committed"},
		"commit": {func(dir string) {
			git(t, dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
		}, "commits"},
	} {
		w, err := Add(t.Context(), nil, root, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if data, err := os.ReadFile(filepath.Join(w.Dir, "a.txt")); err != nil || string(data) != "a\n" {
			t.Errorf("%s: %q %v", name, data, err)
		}
		if _, err := Add(t.Context(), nil, root, name); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s, again: %v", name, err)
		}
		c.do(w.Dir)
		kept, err := w.Close(t.Context())
		if err != nil || kept != c.kept {
			t.Errorf("%s: kept %q, want %q; %v", name, kept, c.kept, err)
		}
		_, gone := os.Stat(w.Dir)
		branch := strings.Contains(git(t, root, "branch"), w.Branch)
		if (gone != nil) != (c.kept == "") || branch != (c.kept != "") {
			t.Errorf("%s: the directory is %v, the branch %t", name, gone, branch)
		}
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a hook or filter of the repository ran")
	}
	if status := git(t, root, "status", "--porcelain"); status != "" {
		t.Errorf("the repository has changes: %s", status)
	}
}

func write(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("changed\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestErrors(t *testing.T) {
	root, _ := newRepo(t)
	for _, name := range []string{"../x", "a/b/c", "-x", "x.lock", "a b"} {
		if _, err := Add(t.Context(), nil, root, name); err == nil || !strings.Contains(err.Error(), "cannot name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	git(t, root, "branch", "knack/taken")
	if _, err := Add(t.Context(), nil, root, "taken"); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a taken branch: %v", err)
	}
	if _, err := Add(t.Context(), nil, t.TempDir(), "x"); err == nil ||
		!strings.Contains(err.Error(), "not in a git repository") {
		t.Errorf("no repository: %v", err)
	}
	empty := t.TempDir()
	git(t, empty, "init", "-q")
	if _, err := Add(t.Context(), nil, empty, "x"); err == nil || !strings.Contains(err.Error(), "no commit yet") {
		t.Errorf("no commit: %v", err)
	}
	if !Uncommitted(t.Context(), nil, root) == (git(t, root, "status", "--porcelain") != "") {
		t.Error("uncommitted changes")
	}
}

// TestOwnGit: a git in the repository is not run, also if the user's PATH leads there. Found by attack: --worktree ran
// it.
func TestOwnGit(t *testing.T) {
	root, trace := newRepo(t)
	bin := filepath.Join(root, "node_modules", ".bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\ntouch "+trace+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if _, err := Add(t.Context(), nil, root, "x"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(trace); err == nil {
		t.Error("the repository's git has run")
	}
}

// TestNothingLost: what was committed or written in a worktree is on a branch when the worktree is removed, wherever
// HEAD is then.
func TestNothingLost(t *testing.T) {
	commit := func(dir string, more ...string) {
		git(t, dir, append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty"},
			more...)...)
	}
	for name, do := range map[string]func(dir string){
		"committed, then back": func(dir string) {
			commit(dir, "-m", "mine")
			git(t, dir, "checkout", "-q", "--detach", "HEAD~1")
		},
		"on another branch": func(dir string) {
			git(t, dir, "checkout", "-q", "-b", "other")
			commit(dir, "-m", "mine")
		},
		"another branch without a commit": func(dir string) {
			git(t, dir, "checkout", "-q", "-b", "mine")
		},
		"detached": func(dir string) {
			git(t, dir, "checkout", "-q", "--detach")
			commit(dir, "-m", "mine")
		},
		"detached, not committed": func(dir string) {
			git(t, dir, "checkout", "-q", "--detach")
			write(t, dir, "mine")
		},
		"a repository in it": func(dir string) {
			git(t, dir, "init", "-q", "nested")
			write(t, filepath.Join(dir, "nested"), "file")
			git(t, filepath.Join(dir, "nested"), "add", ".")
			commit(filepath.Join(dir, "nested"), "-m", "mine")
		},
		"an empty repository in it": func(dir string) {
			git(t, dir, "init", "-q", "nested")
			write(t, filepath.Join(dir, "nested"), "file")
		},
		"an ignored repository in it": func(dir string) {
			git(t, dir, "init", "-q", "ignored")
			write(t, filepath.Join(dir, "ignored"), "file")
		},
	} {
		for _, remove := range []bool{false, true} {
			root, _ := newRepo(t)
			w, err := Add(t.Context(), nil, root, "x")
			if err != nil {
				t.Fatal(err)
			}
			do(w.Dir)
			if remove {
				_, _, err = w.Commit(t.Context(), "mine")
			} else {
				_, err = w.Close(t.Context())
			}
			if _, gone := os.Stat(w.Dir); gone == nil {
				if kept := strings.Contains(name, "repository"); remove && (err == nil && !strings.Contains(name, "ignored") || !kept) {
					t.Errorf("%s: the worktree stays, %v", name, err)
				}
				continue
			}
			switch log := git(t, root, "log", "--branches", "--format=%s", "--name-only") + git(t, root, "branch"); {
			case !strings.Contains(log, "mine") || strings.Contains(log, "nested"):
				t.Errorf("%s, remove %t: the branches have\n%s", name, remove, log)
			}
		}
	}
}

// A worktree is never made through a link, and the directory in it that a run starts in lies in it.
func TestInside(t *testing.T) {
	root, _ := newRepo(t)
	out := t.TempDir()
	if err := os.Symlink(out, root+".worktrees"); err != nil {
		t.Skip(err)
	}
	if _, err := Add(t.Context(), nil, root, "x"); err == nil || !strings.Contains(err.Error(), "is a link to "+out) {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(root+".worktrees"), os.Mkdir(root+".worktrees", 0o755),
		os.Symlink(out, filepath.Join(root+".worktrees", "batch"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(t.Context(), nil, root, "batch/x"); err == nil || !strings.Contains(err.Error(), "is a link to") {
		t.Error(err)
	}
	if all, _ := os.ReadDir(out); len(all) > 0 {
		t.Errorf("%v", all)
	}
	// The commit has a link where the user has a directory.
	git(t, root, "config", "user.email", "a@b")
	git(t, root, "config", "user.name", "a")
	git(t, root, "config", "commit.gpgSign", "true")
	git(t, root, "config", "gpg.program", "false")
	sub := filepath.Join(root, "sub")
	for _, name := range []string{"in/a.txt", "deep/sub/a.txt"} {
		write(t, root, name)
	}
	if err := errors.Join(os.Symlink(out, sub), os.Symlink("in", filepath.Join(root, "near"))); err != nil {
		t.Fatal(err)
	}
	git(t, root, "add", ".")
	git(t, root, "-c", "commit.gpgSign=false", "commit", "-qm", "links")
	if err := errors.Join(os.Remove(sub), os.Mkdir(sub, 0o755), os.Remove(filepath.Join(root, "near")),
		os.Mkdir(filepath.Join(root, "near"), 0o755), os.Mkdir(filepath.Join(root, "new"), 0o755)); err != nil {
		t.Fatal(err)
	}
	w, err := Add(t.Context(), nil, root, "y")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Below(sub); err == nil || !strings.Contains(err.Error(), "leads out of the worktree") {
		t.Error(err)
	}
	for dir, want := range map[string]string{".": ".", "near": "in", "deep/sub": "deep/sub", "new": "."} {
		got, err := w.Below(filepath.Join(root, dir))
		if err != nil || got != filepath.Join(w.Dir, want) {
			t.Errorf("%s: %s %v", dir, got, err)
		}
	}
	// Commits of ours are not signed: the program that the repository names would not run.
	write(t, w.Dir, "new.txt")
	write(t, w.Dir, "ignored")
	kept, ignored, err := w.Commit(t.Context(), "work")
	if _, gone := os.Stat(filepath.Join(w.Dir, "ignored")); !kept || len(ignored) != 1 || err != nil || gone != nil {
		t.Errorf("%t %q %v %v", kept, ignored, err, gone)
	}
	if subject := git(t, root, "log", "-1", "--format=%s", w.Branch); subject != "work\n" {
		t.Errorf("%q", subject)
	}
}

// TestLinkedGit: our git does not write through links in a git directory. Found by attack: through a reflog that was a
// link, a line reached ~/.bashrc before the folder was trusted; through an index, ~/.ssh/authorized_keys was made.
func TestLinkedGit(t *testing.T) {
	for _, name := range []string{"logs/refs/heads/knack/w", "logs/refs/heads/knack", "logs/HEAD", "refs/heads/knack", "index",
		"worktrees", "packed-refs.lock", "config", "modules/m/index", "modules/refs/hooks", "refs/heads/hooks"} {
		t.Run(name, func(t *testing.T) {
			root, _ := newRepo(t)
			outside := filepath.Join(filepath.Dir(root), "outside")
			if err := os.WriteFile(outside, []byte("mine\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(root, ".git", filepath.FromSlash(name))
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, path); err != nil {
				t.Skip(err)
			}
			if _, err := Add(t.Context(), nil, root, "w"); err == nil || !strings.Contains(err.Error(), "is a link") {
				t.Errorf("Add = %v", err)
			}
			if data, err := os.ReadFile(outside); err != nil || string(data) != "mine\n" {
				t.Errorf("outside: %q, %v", data, err)
			}
		})
	}
	t.Run("in the worktree", func(t *testing.T) {
		root, _ := newRepo(t)
		w, err := Add(t.Context(), nil, root, "w")
		if err != nil {
			t.Fatal(err)
		}
		own := strings.TrimSpace(git(t, w.Dir, "rev-parse", "--git-dir"))
		outside := filepath.Join(filepath.Dir(root), "outside")
		if err := os.Remove(filepath.Join(own, "index")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(own, "index")); err != nil {
			t.Skip(err)
		}
		write(t, w.Dir, "new.txt")
		if _, _, err := w.Commit(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "is a link") {
			t.Errorf("Commit = %v", err)
		}
		if _, err := os.Lstat(outside); err == nil {
			t.Error("git wrote outside")
		}
	})
	t.Run("hooks may be a link", func(t *testing.T) {
		root, _ := newRepo(t)
		hooks := filepath.Join(root, ".git", "hooks")
		if err := os.RemoveAll(hooks); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../shared", hooks); err != nil {
			t.Skip(err)
		}
		if _, err := Add(t.Context(), nil, root, "w"); err != nil {
			t.Error(err)
		}
	})
}

// TestInclude: a worktree gets what .worktreeinclude names and git ignores, and is removed with it unless it was changed.
func TestInclude(t *testing.T) {
	root, _ := newRepo(t)
	write := func(dir, name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(root, ".git/info/exclude", "/.claude/\n/CLAUDE.md\n/secret\nnode_modules/\n", 0o644)
	write(root, ".worktreeinclude", "# for agents\n.claude/\nnode_modules/\nnew.txt\nlink\n", 0o644)
	write(root, ".claude/skills/x/SKILL.md", "x", 0o600)
	write(root, ".claude/skills/x/run.sh", "x", 0o755)
	write(root, ".claude/node_modules/x.js", "x", 0o644)
	write(root, "CLAUDE.md", "x", 0o644)
	write(root, "secret", "x", 0o600)
	write(root, "new.txt", "x", 0o644) // not ignored
	if err := os.Symlink("../../secret", filepath.Join(root, ".claude/link")); err != nil {
		t.Fatal(err)
	}
	w, err := Add(t.Context(), nil, root, "one")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{".claude/skills/x/SKILL.md": 0o600, ".claude/skills/x/run.sh": 0o755,
		".claude/node_modules/x.js": 0, ".claude/link": 0, "CLAUDE.md": 0, "secret": 0, "new.txt": 0} {
		info, err := os.Lstat(filepath.Join(w.Dir, name))
		if err == nil && info.Mode().Perm() != want || err != nil && want != 0 {
			t.Errorf("%s: %v, %v, want %v", name, info, err, want)
		}
	}
	got := w.AbsentText()
	for _, want := range []string{"does not have CLAUDE.md,", ".claude/node_modules (tools make it anew)",
		".claude/link (a link)", "new.txt (git does not ignore it"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: no %s", got, want)
		}
	}
	if err := w.Include(t.Context(), "CLAUDE.md"); err != nil || len(w.Absent()) > 0 {
		t.Error(err, w.Absent())
	}
	if kept, err := w.Close(t.Context()); kept != "" || err != nil {
		t.Errorf("an unchanged copy keeps the worktree: %q, %v", kept, err)
	}
	if w, err = Add(t.Context(), nil, root, "two", "/secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(w.Dir, "secret")); err != nil {
		t.Error(err) // the caller named it
	}
	write(w.Dir, ".claude/skills/x/SKILL.md", "y", 0o600)
	if kept, err := w.Close(t.Context()); kept != "ignored files: .claude/" || err != nil {
		t.Errorf("a changed copy: %q, %v", kept, err)
	}
}

// TestIncludeRefused: a worktree that cannot get what it was promised is not made.
func TestIncludeRefused(t *testing.T) {
	for name, make := range map[string]func(root string) error{
		"link": func(root string) error { return os.Symlink("/etc/passwd", filepath.Join(root, IncludeFile)) },
		"many": func(root string) error {
			err := os.Mkdir(filepath.Join(root, "ignored"), 0o755)
			for i := 0; err == nil && i <= maxIncluded; i++ {
				err = os.WriteFile(filepath.Join(root, "ignored", fmt.Sprint(i)), nil, 0o644)
			}
			return errors.Join(err, os.WriteFile(filepath.Join(root, IncludeFile), []byte("ignored\n"), 0o644))
		},
		"big": func(root string) error {
			err := os.WriteFile(filepath.Join(root, "ignored"), nil, 0o644)
			return errors.Join(err, os.Truncate(filepath.Join(root, "ignored"), maxIncludedBytes+1),
				os.WriteFile(filepath.Join(root, IncludeFile), []byte("ignored\n"), 0o644))
		},
	} {
		root, _ := newRepo(t)
		if err := make(root); err != nil {
			t.Fatal(err)
		}
		if w, err := Add(t.Context(), nil, root, "one"); err == nil {
			t.Errorf("%s: made %s", name, w.Dir)
		}
		if left := Of(root); len(left) > 0 || strings.Contains(git(t, root, "branch"), "knack/") {
			t.Errorf("%s: left %v, %s", name, left, git(t, root, "branch"))
		}
	}
}
