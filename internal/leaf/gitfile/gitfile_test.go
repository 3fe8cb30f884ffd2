package gitfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLinks: what a work tree and its repository say of each other, with absolute and relative paths; a repository that
// does not name the work tree, a directory and a file of another form are not links.
func TestLinks(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	common, tree := filepath.Join(top, "repo", ".git"), filepath.Join(top, "tree")
	own, file := filepath.Join(common, "worktrees", "tree"), filepath.Join(tree, ".git")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(own, "commondir"), "../..\n")
	for name, c := range map[string]struct {
		file, back string
		want       bool
	}{
		"absolute":          {own, file, true},
		"relative":          {"../repo/.git/worktrees/tree", "../../../../tree/.git", true},
		"named by no other": {own, filepath.Join(top, "other", ".git"), false},
	} {
		write(file, "gitdir: "+c.file+"\n")
		write(filepath.Join(own, "gitdir"), c.back+"\n")
		named, ok := Named(file)
		target, found := Target(file)
		if !ok || !found || named != own || target != own {
			t.Errorf("%s: named %s, target %s", name, named, target)
		}
		if IsWorktree(common, target, file) != c.want {
			t.Errorf("%s: it is a worktree: %t", name, !c.want)
		}
		if got := Worktree(own); (got == tree) != c.want {
			t.Errorf("%s: the worktree is %s", name, got)
		}
	}
	write(file, "gitdir: gone\n")
	if named, ok := Named(file); !ok || named != filepath.Join(tree, "gone") {
		t.Error(named)
	}
	write(filepath.Join(top, "x"), "ref: HEAD\n")
	for _, path := range []string{file, tree, filepath.Join(top, "x"), filepath.Join(top, "none")} {
		if got, ok := Target(path); ok {
			t.Errorf("%s names %s", path, got)
		}
	}
}

// TestOriginOfSubmodule: the work tree around a submodule of a linked work tree is the linked one.
func TestOriginOfSubmodule(t *testing.T) {
	dir := t.TempDir()
	main, tree := filepath.Join(dir, "repo"), filepath.Join(dir, "tree")
	own := filepath.Join(main, ".git", "worktrees", "tree")
	for file, git := range map[string]string{filepath.Join(tree, ".git"): own,
		filepath.Join(tree, "sub", ".git"): filepath.Join(own, "modules", "sub")} {
		if err := errors.Join(os.MkdirAll(git, 0o700), os.MkdirAll(filepath.Dir(file), 0o700),
			os.WriteFile(file, []byte("gitdir: "+git+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got := Origins(filepath.Join(tree, "sub")); len(got) != 1 || got[0] != (Origin{tree, main}) {
		t.Errorf("%q", got)
	}
}

// TestCoreWorktree: the last core.worktree of a file counts, as git writes it.
func TestCoreWorktree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	for text, want := range map[string]string{
		"[core]\n\tbare = false\n\tworktree = ../../../sub\n":                     "../../../sub",
		"[CORE]\nWorkTree=/a b\n[core]\n\tworktree = \"/c # d\"\n":                "/c # d",
		"[core] worktree = /a\n[remote \"origin\"]\n\tworktree = /b\n":            "/a",
		"[core \"x\"]\n\tworktree = /b\n[other]\nworktree = /c\n# [core]\nname\n": "",
		"[core]\n\tworktree = \"/a\\\\b\\\"c\"\n":                                 `/a\b"c`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := coreWorktree(path); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := coreWorktree(path + "none"); got != "" {
		t.Error(got)
	}
}
