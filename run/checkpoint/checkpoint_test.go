package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A world is a tree with a journal.
type world struct {
	t     testing.TB
	root  string
	store *Store
	tree  Tree
	j     *Journal
	entry int
}

func gitEnv() []string {
	return append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_OPTIONAL_LOCKS=0",
		"GIT_TEMPLATE_DIR=", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false")
}

func runGit(dir string) GitRunner {
	return func(ctx context.Context, env []string, stdin io.Reader, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, append(gitEnv(), env...), stdin
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return out, fmt.Errorf("git %v: %w: %s", args, err, errs.String())
		}
		return out, nil
	}
}

// newWorld makes a tree, which is a repository if git is set.
func newWorld(t testing.TB, git bool, files map[string]string) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, store: Open(filepath.Join(t.TempDir(), "store")), tree: Tree{Root: root}}
	for name, text := range files {
		w.write(name, text)
	}
	if git {
		if _, err := exec.LookPath("git"); err != nil {
			t.Skip("git is not installed")
		}
		w.tree.Git = runGit(root)
		w.git("init", "-q", "-b", "main")
		w.git("add", ".")
		w.git("commit", "-q", "--allow-empty", "-m", "first")
	}
	w.open()
	t.Cleanup(func() { w.j.Close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	if w.j != nil {
		w.j.Close()
	}
	j, err := w.store.Journal("s", w.tree)
	if err != nil {
		w.t.Fatal(err)
	}
	w.j = j
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	out, err := runGit(w.root)(context.Background(), nil, nil, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.root, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) turn() int {
	w.t.Helper()
	w.entry += 2
	if err := w.j.Begin(w.entry, "do it\nplease"); err != nil {
		w.t.Fatal(err)
	}
	return w.entry
}

// command runs f as a command that may change anything.
func (w *world) command(f func()) []Left {
	w.t.Helper()
	step, err := w.j.Tree(context.Background(), "bash")
	if err != nil {
		w.t.Fatal(err)
	}
	f()
	if err := step.End(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	return step.Left
}

// edit changes one file as the edit tool does.
func (w *world) edit(name, text string) {
	w.t.Helper()
	step, err := w.j.Files(context.Background(), "edit", filepath.Join(w.root, name))
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(name, text)
	if err := step.End(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) restore(entry int, o Options) Result {
	w.t.Helper()
	plan, err := w.j.Plan(context.Background(), entry, o)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.j.Restore(context.Background(), entry, o)
	if err != nil {
		w.t.Fatal(err)
	}
	if fmt.Sprint(plan) != fmt.Sprint(r) {
		w.t.Errorf("planned %v, done %v", plan, r)
	}
	return r
}

// files returns the tree without .git.
func (w *world) files() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(w.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(w.root, p)
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			all[filepath.ToSlash(rel)] = "-> " + to
			return err
		}
		data, err := os.ReadFile(p)
		all[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) want(files map[string]string) {
	w.t.Helper()
	if got := w.files(); fmt.Sprint(got) != fmt.Sprint(files) {
		w.t.Errorf("the tree is\n%v, want\n%v", got, files)
	}
}

func names(all []Left) (s []string) {
	for _, l := range all {
		s = append(s, l.Path+": "+l.Why)
	}
	return s
}

var start = map[string]string{"a.go": "a", "b.go": "b", "dir/c.go": "c"}

// TestRestore: everything that tools and commands do in a turn is taken back, inside and outside a repository.
func TestRestore(t *testing.T) {
	for _, git := range []bool{false, true} {
		t.Run(fmt.Sprintf("git=%t", git), func(t *testing.T) {
			w := newWorld(t, git, start)
			w.write("mine.txt", "untracked work")
			w.write("b.go", "b modified")
			if err := os.Symlink("a.go", filepath.Join(w.root, "link")); err != nil {
				t.Skip(err)
			}
			before := w.files()
			first := w.turn()
			w.edit("a.go", "edited")
			w.edit("new/deep/file.txt", "new")
			w.command(func() {
				w.write("b.go", "b again")
				w.remove("mine.txt")
				w.remove("dir/c.go")
				w.remove("dir")
				w.write("dir", "a file now")
				w.remove("link")
				w.write("made/by/command", "x")
				if git {
					w.git("add", ".")
					w.git("commit", "-qm", "all")
				}
			})
			after := w.files()
			second := w.turn()
			w.command(func() { w.remove("a.go") })
			if n := len(w.j.Turns()); n != 2 {
				t.Fatalf("%d turns", n)
			}
			turn := w.j.Turns()[0]
			if turn.Entry != first || turn.Prompt != "do it" || len(turn.Files) != 8 {
				t.Errorf("%+v", turn)
			}
			if entry, ok := w.j.Undoable(); !ok || entry != second {
				t.Errorf("the last turn is %d %t", entry, ok)
			}
			r := w.restore(second, Options{})
			if fmt.Sprint(r.Files) != "[{a.go created}]" || len(r.Left) > 0 {
				t.Errorf("%+v", r)
			}
			w.want(after)
			if entry, ok := w.j.Undoable(); !ok || entry != first {
				t.Errorf("the turn before is %d %t", entry, ok)
			}
			if r = w.restore(first, Options{}); len(r.Left) > 0 {
				t.Errorf("left: %v", r.Left)
			}
			w.want(before)
			if _, ok := w.j.Undoable(); ok {
				t.Error("there is something left to undo")
			}
			if _, err := os.Stat(filepath.Join(w.root, "made")); err == nil {
				t.Error("an empty directory stays")
			}
			// In another process, redo takes both back.
			w.open()
			for i, want := range []map[string]string{after, nil} {
				if _, err := w.j.Redo(context.Background(), Options{}); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					w.want(want)
				}
			}
			if _, ok := w.files()["a.go"]; ok {
				t.Error("the second redo did not take back the first undo")
			}
			if _, err := w.j.Redo(context.Background(), Options{}); !errors.Is(err, ErrNothing) {
				t.Errorf("a third redo: %v", err)
			}
		})
	}
}

// TestMovedHead: a command that checks out another branch is taken back in files only.
func TestMovedHead(t *testing.T) {
	w := newWorld(t, true, start)
	w.git("checkout", "-qb", "other")
	w.write("a.go", "other a")
	w.write("only-there", "x")
	w.git("add", ".")
	w.git("commit", "-qm", "other")
	w.git("checkout", "-q", "main")
	before := w.files()
	turn := w.turn()
	w.command(func() { w.git("checkout", "-q", "other") })
	head, index := w.git("rev-parse", "HEAD"), w.git("ls-files", "-s")
	w.restore(turn, Options{})
	w.want(before)
	if w.git("rev-parse", "HEAD") != head || w.git("ls-files", "-s") != index {
		t.Error("HEAD or the index was changed")
	}
}

// TestUserChanged: what somebody else changed stays, and comes back with Redo after Force.
func TestUserChanged(t *testing.T) {
	w := newWorld(t, true, start)
	turn := w.turn()
	w.edit("a.go", "agent")
	w.edit("b.go", "agent")
	w.edit("b.go", "agent again")
	w.edit("dir/c.go", "agent")
	w.write("a.go", "user")     // since
	w.write("dir/c.go", "user") // in between
	w.command(func() { w.remove("dir/c.go") })
	r := w.restore(turn, Options{})
	if got := strings.Join(names(r.Left), "; "); got !=
		"a.go: changed since; dir/c.go: changed by somebody else in between; that state was restored" {
		t.Errorf("left: %s", got)
	}
	w.want(map[string]string{"a.go": "user", "b.go": "b", "dir/c.go": "user"})
	if _, err := w.j.Restore(t.Context(), turn, Options{Force: true, Only: []string{"a.go"}}); err != nil {
		t.Fatal(err)
	}
	w.want(map[string]string{"a.go": "a", "b.go": "b", "dir/c.go": "user"})
	if _, err := w.j.Redo(t.Context(), Options{}); err != nil {
		t.Fatal(err)
	}
	w.want(map[string]string{"a.go": "user", "b.go": "b", "dir/c.go": "user"})
}

// TestRedoForce: what somebody else changed since an undo stays; with Force it is replaced too, and kept first.
func TestRedoForce(t *testing.T) {
	w := newWorld(t, true, start)
	turn := w.turn()
	w.edit("a.go", "agent")
	w.edit("b.go", "agent")
	w.restore(turn, Options{})
	w.write("a.go", "user")
	r, err := w.j.Redo(t.Context(), Options{})
	if got := strings.Join(names(r.Left), "; "); err != nil || got != "a.go: changed since" {
		t.Fatal(got, err)
	}
	w.write("b.go", "user") // after it was brought back
	if r, err = w.j.Redo(t.Context(), Options{Force: true}); err != nil || len(r.Left) > 0 {
		t.Fatal(r, err)
	}
	w.want(map[string]string{"a.go": "agent", "b.go": "user", "dir/c.go": "c"})
	if _, err := w.j.Redo(t.Context(), Options{Force: true}); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
	w.want(map[string]string{"a.go": "agent", "b.go": "user", "dir/c.go": "c"})
}

// TestIgnored: what git ignores is not kept before commands, and named.
func TestIgnored(t *testing.T) {
	for _, repository := range []bool{true, false} {
		files := maps.Clone(start)
		files[".gitignore"] = "built/\n*.log\n"
		w := newWorld(t, repository, files)
		w.write("built/x/y", "y")
		w.write("dir/a.log", "a")
		turn := w.turn()
		w.edit("a.go", "agent")
		if r, err := w.j.Plan(t.Context(), turn, Options{}); err != nil || len(r.Ignored) > 0 {
			t.Error("no command ran:", r.Ignored, err)
		}
		w.command(func() { w.write("built/x/y", "new") })
		for range 2 {
			if r := w.restore(turn, Options{}); strings.Join(r.Ignored, " ") != "built/ dir/a.log" {
				t.Errorf("repository %t: %q", repository, r.Ignored)
			}
		}
	}
}

// TestKilled: after a step that never ended, what is gone comes back, and what changed is named.
func TestKilled(t *testing.T) {
	for _, git := range []bool{false, true} {
		w := newWorld(t, git, start)
		w.write("mine.txt", "untracked")
		turn := w.turn()
		if _, err := w.j.Tree(t.Context(), "bash"); err != nil {
			t.Fatal(err)
		}
		w.remove("mine.txt")
		w.remove("dir/c.go")
		w.write("a.go", "half")
		w.write("new", "half")
		if f, err := os.OpenFile(w.j.path(), os.O_APPEND|os.O_WRONLY, 0); err != nil {
			t.Fatal(err)
		} else if _, err := f.WriteString(`{"end":{"n":1,"chan`); err != nil {
			t.Fatal(err)
		}
		w.open()
		r := w.restore(turn, Options{})
		var left []string
		for _, l := range r.Left {
			left = append(left, l.Path)
		}
		if !slices.Equal(left, []string{"a.go", "new"}) {
			t.Errorf("left: %v", r.Left)
		}
		w.want(map[string]string{"a.go": "half", "b.go": "b", "dir/c.go": "c", "mine.txt": "untracked", "new": "half"})
		w.open() // the record that was cut does not hide those after it
		if entry, ok := w.j.Undoable(); ok {
			t.Errorf("turn %d was undone", entry)
		}
	}
}

// TestParallel: two commands at the same time record each change once.
func TestParallel(t *testing.T) {
	w := newWorld(t, true, start)
	turn := w.turn()
	one, err := w.j.Tree(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := w.j.Tree(t.Context(), "two")
	if err != nil {
		t.Fatal(err)
	}
	w.write("a.go", "1")
	if err := one.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.write("b.go", "2")
	w.write("a.go", "3")
	if err := two.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.restore(turn, Options{}); len(r.Left) > 0 {
		t.Errorf("left: %v", r.Left)
	}
	w.want(start)
}

// TestLimits: what exceeds the limits is named before the command runs, and is never lost silently.
func TestLimits(t *testing.T) {
	w := newWorld(t, true, start)
	big := filepath.Join(w.root, "big")
	if err := errors.Join(os.WriteFile(big, nil, 0o644), os.Truncate(big, MaxBytes+1)); err != nil {
		t.Fatal(err)
	}
	// Where the system can, they are names of one file: to create and remove so many files takes seconds.
	w.write("many/0000", "x")
	for i := 1; i < MaxFiles; i++ {
		name := fmt.Sprintf("many/%04d", i)
		if os.Link(filepath.Join(w.root, "many", "0000"), filepath.Join(w.root, name)) != nil {
			w.write(name, "x")
		}
	}
	if err := os.MkdirAll(filepath.Join(w.root, "nested"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := runGit(filepath.Join(w.root, "nested"))(t.Context(), nil, nil, "init", "-q"); err != nil {
		t.Fatal(err)
	}
	w.write("nested/file", "x")
	w.write("zz", "last")
	turn := w.turn()
	left := w.command(func() {
		w.remove("big")
		w.remove("zz")
		w.remove("many/0007")
	})
	var paths []string
	for _, l := range left {
		paths = append(paths, l.Path)
	}
	if !slices.Equal(paths, []string{"nested/", "big", "zz"}) {
		t.Errorf("not kept: %v", left)
	}
	r := w.restore(turn, Options{})
	if len(r.Left) != 2 || r.Left[0].Forcible() || len(r.Files) != 1 || r.Files[0].Path != "many/0007" {
		t.Errorf("%+v", r)
	}
}

// TestRedoOfLarge: an undo keeps what it removes, also if it is larger than what is kept before a command, and leaves
// what is too large for that.
func TestRedoOfLarge(t *testing.T) {
	w := newWorld(t, true, start)
	large := func(name string, size int64) {
		if err := errors.Join(os.WriteFile(filepath.Join(w.root, name), []byte(name), 0o644),
			os.Truncate(filepath.Join(w.root, name), size)); err != nil {
			t.Fatal(err)
		}
	}
	turn := w.turn()
	w.command(func() {
		large("built", MaxBytes+1)
		large("huge", undoBytes)
	})
	r := w.restore(turn, Options{})
	if len(r.Files) != 1 || len(r.Left) != 1 || r.Left[0].Path != "huge" || !r.Left[0].Forcible() {
		t.Fatalf("%+v", r)
	}
	if r, err := w.j.Redo(t.Context(), Options{}); err != nil || len(r.Left) > 0 {
		t.Fatalf("redo: %+v, %v", r, err)
	}
	info, err := os.Stat(filepath.Join(w.root, "built"))
	if err != nil || info.Size() != MaxBytes+1 {
		t.Fatalf("%v %v", info, err)
	}
	if r := w.restore(turn, Options{Force: true}); len(r.Left) > 0 {
		t.Errorf("%+v", r)
	}
	w.want(start)
}

// TestStoreFails: nothing may change while the store cannot be written, and afterwards everything goes on. A file in
// the place of a directory of the store is what every user and system cannot write to.
func TestStoreFails(t *testing.T) {
	w := newWorld(t, true, start)
	w.write("mine", "not in git")
	objects := filepath.Join(w.store.dir, "objects")
	if err := errors.Join(os.MkdirAll(w.store.dir, 0o700), os.WriteFile(objects, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	turn := w.turn()
	if _, err := w.j.Tree(t.Context(), "bash"); !errors.Is(err, ErrStore) {
		t.Errorf("before a command: %v", err)
	}
	if _, err := w.j.Files(t.Context(), "edit", filepath.Join(w.root, "mine")); !errors.Is(err, ErrStore) {
		t.Errorf("before an edit: %v", err)
	}
	w.edit("new", "nothing is kept of a file that is not there")
	if r, err := w.j.Restore(t.Context(), turn, Options{}); !errors.Is(err, ErrStore) || len(r.Files) > 0 {
		t.Errorf("an undo that a redo could not take back: %+v, %v", r, err)
	}
	if w.files()["new"] == "" {
		t.Error("it was removed")
	}
	if err := os.Remove(objects); err != nil {
		t.Fatal(err)
	}
	w.command(func() { w.remove("mine") })
	w.restore(turn, Options{})
	if w.files()["mine"] != "not in git" || w.files()["new"] != "" {
		t.Errorf("%v", w.files())
	}
}

// TestLinks: a restore does not write through a link that a command put in the place of a directory.
func TestLinks(t *testing.T) {
	w := newWorld(t, true, start)
	outside := t.TempDir()
	turn := w.turn()
	w.command(func() {
		w.remove("dir/c.go")
		w.remove("dir")
		if err := os.Symlink(outside, filepath.Join(w.root, "dir")); err != nil {
			t.Skip(err)
		}
	})
	w.restore(turn, Options{})
	w.want(start)
	turn = w.turn()
	w.command(func() { w.remove("dir/c.go") })
	w.remove("dir")
	if err := os.Symlink(outside, filepath.Join(w.root, "dir")); err != nil {
		t.Fatal(err)
	}
	// The plan cannot know that the directory is a link now.
	if r, err := w.j.Restore(t.Context(), turn, Options{}); err != nil || len(r.Left) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Error("a file was written outside the tree")
	}
}

func TestOutside(t *testing.T) {
	w := newWorld(t, true, start)
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(outside, "notes.txt")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	turn := w.turn()
	step, err := w.j.Files(t.Context(), "write", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, []byte("new"), 0o600), step.End(t.Context())); err != nil {
		t.Fatal(err)
	}
	if r := w.restore(turn, Options{}); len(r.Files) != 1 || r.Files[0].Path != path {
		t.Errorf("%+v", r)
	}
	data, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || string(data) != "old" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q %v %v", data, err, info.Mode())
	}
}

// TestNewlines: a name with a newline does not change what other files become. Found by attack: /undo gave a file the
// content of another.
func TestNewlines(t *testing.T) {
	files := map[string]string{"b": "b", "c": "c"}
	w := newWorld(t, true, files)
	blob := strings.TrimSpace(w.git("rev-parse", "HEAD:b"))
	files["a\n"+blob+" x"] = "a"
	w.write("a\n"+blob+" x", "a")
	w.git("add", ".")
	w.git("commit", "-qm", "second")
	turn := w.turn()
	w.command(func() {
		for name := range files {
			w.write(name, "changed")
		}
	})
	if r := w.restore(turn, Options{}); len(r.Left) > 0 {
		t.Errorf("left: %v", r.Left)
	}
	w.want(files)
}

// TestLinkedOutside: a file outside the tree is not restored through a link that took the place of its directory. Found
// by attack: /undo --force wrote through it, and in the tree where the link was made at that moment.
func TestLinkedOutside(t *testing.T) {
	w := newWorld(t, false, nil)
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, elsewhere := filepath.Join(outside, "a", "b"), filepath.Join(outside, "elsewhere")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(filepath.Join(elsewhere, "b"), 0o755)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	turn := w.turn()
	step, err := w.j.Files(context.Background(), "edit", file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), step.End(context.Background()), os.RemoveAll(filepath.Dir(dir)),
		os.Symlink(elsewhere, filepath.Dir(dir))); err != nil {
		t.Skip(err) // no links
	}
	r, err := w.j.Restore(context.Background(), turn, Options{Force: true})
	if err != nil || len(r.Left) != 1 || len(r.Files) > 0 {
		t.Errorf("got %v, %v", r, err)
	}
	if _, err := os.Lstat(filepath.Join(elsewhere, "b", "file")); err == nil {
		t.Error("written through a link")
	}
}

// TestPrune: old journals go, with the contents that only they need.
func TestPrune(t *testing.T) {
	w := newWorld(t, false, start)
	w.turn()
	w.edit("a.go", "x")
	if err := w.store.Prune(); err != nil {
		t.Fatal(err)
	}
	if entry, ok := w.j.Undoable(); !ok || entry == 0 {
		t.Fatal("pruning an open journal")
	}
	journal := w.j.path()
	w.j.Close()
	if sizes, err := w.store.objects(); err != nil || len(sizes) != 1 {
		t.Fatalf("%v %v", sizes, err)
	}
	old := time.Now().Add(-40 * 24 * time.Hour)
	if err := os.Chtimes(journal, old, old); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Prune(); err != nil {
		t.Fatal(err)
	}
	if sizes, err := w.store.objects(); err != nil || len(sizes) != 0 {
		t.Errorf("%v %v", sizes, err)
	}
	info, err := os.Stat(w.store.dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// TestRandom runs random scripts of tools, commands, git, a user who works at the same time, and kills, and compares
// with a model: without interference of the user, the files of a turn's beginning come back exactly; what the user
// wrote last is never overwritten, and what the user had that a command removed comes back. -rapid.checks=1000 runs
// more.
func TestRandom(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Value.Set(f.DefValue) }()
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	paths := []string{"a.go", "b.go", "dir/c.go", "dir/d", "new", "x/y/z"}
	rapid.Check(t, func(r *rapid.T) {
		git := rapid.Bool().Draw(r, "git")
		w := newWorld(t, git, start)
		n := 0
		text := func(who string) string { n++; return fmt.Sprintf("%s %d", who, n) }
		path := func() string { return rapid.SampledFrom(paths).Draw(r, "path") }
		change := func(who string) (string, bool) {
			p := path()
			if _, err := os.Stat(filepath.Join(w.root, p)); err == nil && rapid.Bool().Draw(r, "remove") {
				w.remove(p)
			} else {
				w.write(p, text(who))
			}
			return p, true
		}
		for range rapid.IntRange(0, 3).Draw(r, "before") {
			change("user")
		}
		before := w.files()
		byUser := map[string]bool{}     // changed by the user, or perhaps by them, since the turn began
		lastUser := map[string]string{} // what the user made of it last
		turn := w.turn()
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				w.edit(path(), text("agent"))
			case 1, 2:
				w.command(func() {
					for range rapid.IntRange(1, 3).Draw(r, "changes") {
						change("agent")
					}
				})
			case 3:
				if git {
					w.command(func() {
						change("agent")
						w.git("add", "-A")
						if rapid.Bool().Draw(r, "commit") {
							w.git("commit", "-q", "--allow-empty", "-m", "x")
						} else {
							w.git("stash", "-q")
						}
					})
				}
			case 4:
				p, _ := change("user")
				byUser[p], lastUser[p] = true, w.files()[p]
			case 5: // killed within a command
				if _, err := w.j.Tree(context.Background(), "bash"); err != nil {
					t.Fatal(err)
				}
				was := w.files()
				change("agent")
				for p, now := range w.files() {
					if was[p] != now {
						byUser[p] = true
					}
				}
				w.open()
				w.entry += 2
				if err := w.j.Begin(w.entry, "again"); err != nil {
					t.Fatal(err)
				}
			}
		}
		now := w.files()
		result, err := w.j.Restore(context.Background(), turn, Options{})
		if errors.Is(err, ErrNothing) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		left := map[string]bool{}
		for _, l := range result.Left {
			left[l.Path] = true
		}
		got := w.files()
		for _, p := range paths {
			switch {
			case strings.HasPrefix(now[p], "user") && byUser[p] && got[p] != now[p]:
				r.Fatalf("%s: %q of the user became %q", p, now[p], got[p])
			case !byUser[p] && got[p] != before[p]:
				r.Fatalf("%s is %q, was %q; left: %v", p, got[p], before[p], result.Left)
			case byUser[p] && got[p] != before[p] && got[p] != now[p] && got[p] != lastUser[p] && !left[p]:
				r.Fatalf("%s is %q, neither %q nor %q, and not named", p, got[p], before[p], now[p])
			}
		}
		if len(result.Files) > 0 {
			if _, err := w.j.Redo(context.Background(), Options{}); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(w.files()) != fmt.Sprint(now) {
				r.Fatalf("redo made\n%v of\n%v", w.files(), now)
			}
		}
	})
}

// What was ignored before a command is not made by it because the rules that ignore it are gone: an undo leaves it.
func TestIgnoredBefore(t *testing.T) {
	for _, git := range []bool{true, false} {
		w := newWorld(t, git, map[string]string{".gitignore": "build/\n.env\n", "a.txt": "a\n"})
		w.write("build/old.o", "old")
		w.write(".env", "KEY=1")
		entry := w.turn()
		w.command(func() {
			w.remove(".gitignore")
			w.write("made.txt", "new")
		})
		w.command(func() { w.write("a.txt", "changed\n") })
		w.restore(entry, Options{})
		for name, want := range map[string]string{".gitignore": "build/\n.env\n", "build/old.o": "old", ".env": "KEY=1",
			"a.txt": "a\n"} {
			if data, err := os.ReadFile(filepath.Join(w.root, name)); string(data) != want || err != nil {
				t.Errorf("git %t: %s: %q %v", git, name, data, err)
			}
		}
		if _, err := os.Stat(filepath.Join(w.root, "made.txt")); err == nil {
			t.Errorf("git %t: made.txt is still there", git)
		}
	}
}

// The files of another repository, which a step does not keep, were there before it: an undo does not remove them when
// a command has made them a part of this one.
func TestNestedBefore(t *testing.T) {
	w := newWorld(t, true, map[string]string{"a.txt": "a\n"})
	w.write("inner/mine", "mine")
	runIn := runGit(filepath.Join(w.root, "inner"))
	if _, err := runIn(t.Context(), nil, nil, "init", "-q"); err != nil {
		t.Fatal(err)
	}
	entry := w.turn()
	w.command(func() {
		if err := os.RemoveAll(filepath.Join(w.root, "inner", ".git")); err != nil {
			t.Fatal(err)
		}
		w.write("made.txt", "new")
	})
	w.restore(entry, Options{})
	if data, err := os.ReadFile(filepath.Join(w.root, "inner", "mine")); string(data) != "mine" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(w.root, "made.txt")); err == nil {
		t.Error("made.txt is still there")
	}
}

// What a search did not reach is not made by a step because there are fewer files before it afterwards.
func TestPassedOver(t *testing.T) {
	r := stepRecord{Left: []Left{{"m/n", tooMany}, {"inner/", "another repository"}, {"closed", "cannot be read"}}}
	for path, want := range map[string]bool{"m/n": true, "m/o": true, "z": true, "m/a": false, "a": false, "m-/x": true,
		"inner/x": true, "innerx": false, "closed/x": true, "closedx": false, "l": false} {
		if r.passedOver(path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
}
