package checkpoint

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// look returns what is at each path of the tree without .git: files with their content, links and directories, with
// all their bits.
func (w *world) look() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(w.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == w.root {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			what = "-> " + to
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what += " " + string(data)
		}
		rel, err := filepath.Rel(w.root, p)
		all[filepath.ToSlash(rel)] = what
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// try makes a change as a command would that goes on after an error.
func (w *world) try(r *rapid.T, what string, places []string) {
	at := func(label string) string {
		return filepath.Join(w.root, rapid.SampledFrom(places).Draw(r, label))
	}
	text := func() string { return rapid.StringMatching(`[a-c]{1,2}`).Draw(r, "text") }
	git := func(args ...string) {
		if w.tree.Git == nil {
			return
		}
		_, _ = w.tree.Git(w.t.Context(), nil, nil, args...) // as a command that goes on after an error
	}
	switch p := at("path"); what {
	case "write":
		_ = os.WriteFile(p, []byte(text()), 0o644)
	case "write below":
		_ = os.MkdirAll(filepath.Dir(p), 0o755)
		_ = os.WriteFile(p, []byte(text()), 0o644)
	case "rm":
		_ = os.RemoveAll(p)
	case "mv":
		_ = os.Rename(p, at("to"))
	case "cp over":
		if data, err := os.ReadFile(p); err == nil {
			to := at("to")
			_ = os.Remove(to)
			_ = os.WriteFile(to, data, 0o600)
		}
	case "chmod":
		mode := rapid.SampledFrom([]fs.FileMode{0o600, 0o640, 0o644, 0o700, 0o755, 0o444, 0o500}).Draw(r, "mode")
		if info, err := os.Lstat(p); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			_ = os.Chmod(p, mode)
		}
	case "mkdir":
		_ = os.MkdirAll(p, 0o750)
	case "ln":
		_ = os.Link(p, at("to"))
	case "ln -s":
		_ = os.Symlink(rapid.SampledFrom([]string{"a.go", "dir", "..", "none"}).Draw(r, "target"), p)
	case "file to dir":
		_ = os.RemoveAll(p)
		_ = os.MkdirAll(p, 0o755)
		_ = os.WriteFile(filepath.Join(p, "in"), []byte(text()), 0o644)
	case "ignore":
		rules := rapid.SampledFrom([]string{"build/\n", "*.log\n", "mine*\n", "new/\n", "dir/\n", "*\n", ""})
		_ = os.WriteFile(filepath.Join(w.root, ".gitignore"), []byte(rules.Draw(r, "rules")), 0o644)
	case "rm ignore":
		_ = os.Remove(filepath.Join(w.root, ".gitignore"))
	case "git":
		git(strings.Fields(rapid.SampledFrom([]string{"add -A", "commit -qam x", "commit -q --allow-empty -m x", "stash -q",
			"checkout -q other", "checkout -q -- .", "reset -q --hard", "rm -rq dir", "mv dir moved", "clean -fdq",
			"clean -fdxq", "rm -q --cached secret", "update-index --refresh"}).Draw(r, "git"))...)
	}
}

// TestTouched: after an undo everything that a turn touched is as it was before, and nothing else has changed, bits and
// empty directories included, whatever commands do. Only what is ignored, before or after, is left as it is.
// -rapid.checks=1000 runs more.
func TestTouched(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no permission bits")
	}
	// The same few scripts each time; -rapid.checks=300 tries others.
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		for name, value := range map[string]string{"rapid.checks": "12", "rapid.seed": "1"} {
			f := flag.Lookup(name)
			old := f.Value.String()
			if err := f.Value.Set(value); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Value.Set(old) }()
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	template := newWorld(t, true, map[string]string{"a.go": "a", "run.sh": "run", "secret": "s", "dir/c.go": "c",
		"dir/sub/d": "d", "locked/k": "k", ".gitignore": "build/\n.env\n*.log\n"})
	template.git("checkout", "-qb", "other")
	template.write("a.go", "other")
	template.write("only/there", "x")
	template.git("rm", "-rqf", "dir/sub")
	template.git("add", "-A")
	template.git("commit", "-qm", "other")
	template.git("checkout", "-q", "main")
	places := []string{"a.go", "run.sh", "secret", "dir", "dir/c.go", "dir/sub", "dir/sub/d", "locked", "locked/k",
		".gitignore", "mine.txt", "notes", "notes/n", "build", "build/old.o", ".env", "dir/x.log", "empty", "new",
		"new/deep", "new/deep/f", "new/y.log", "only"}
	ops := []string{"write", "write", "write below", "rm", "rm", "mv", "mv", "cp over", "chmod", "chmod", "mkdir", "ln",
		"ln -s", "file to dir", "ignore", "rm ignore", "git", "git"}
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, false, nil)
		if err := os.CopyFS(w.root, os.DirFS(template.root)); err != nil {
			t.Fatal(err)
		}
		repository := rapid.IntRange(0, 4).Draw(r, "repository") > 0
		if repository {
			w.tree.Git = runGit(w.root)
			if rapid.Bool().Draw(r, "refresh") {
				w.git("update-index", "-q", "--refresh")
			}
		} else if err := os.RemoveAll(filepath.Join(w.root, ".git")); err != nil {
			t.Fatal(err)
		}
		w.open()
		for name, mode := range map[string]fs.FileMode{"mine.txt": 0o640, "notes/n": 0o755, "build/old.o": 0o644, ".env": 0o600,
			"dir/x.log": 0o664, "run.sh": 0o750, "secret": 0o600} {
			w.write(name, path.Base(name))
			if err := os.Chmod(filepath.Join(w.root, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		for name, mode := range map[string]fs.FileMode{"locked": 0o700, "empty": 0o711 | fs.ModeSetgid} {
			p := filepath.Join(w.root, name)
			_ = os.Mkdir(p, 0o755)
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
		}
		before, turn := w.look(), w.turn()
		ignored := w.j.ignoredNow(t)
		log := []string{}
		for range rapid.IntRange(1, 3).Draw(r, "commands") {
			w.command(func() {
				for range rapid.IntRange(1, 4).Draw(r, "changes") {
					op := rapid.SampledFrom(ops).Draw(r, "op")
					w.try(r, op, places)
					log = append(log, op)
				}
			})
			ignored = append(ignored, w.j.ignoredNow(t)...)
		}
		after := w.look()
		result := w.restore(turn, Options{})
		got := w.look()
		left := func(p string) bool {
			return slices.ContainsFunc(result.Left, func(l Left) bool { return strings.TrimSuffix(l.Path, "/") == p })
		}
		unknown := func(p string) bool { return covers(ignored, p) || covers(ignored, p+"/") }
		all := map[string]bool{}
		for _, m := range []map[string]string{before, after, got} {
			for p := range m {
				all[p] = true
			}
		}
		for p := range all {
			switch {
			case got[p] == before[p]:
			case before[p] == after[p]:
				r.Fatalf("%s was not touched: it was %q and is %q\n%v\n%+v", p, before[p], got[p], log, result)
			case unknown(p), left(p), left(path.Dir(p)): // what blocks a file is below its name
			case before[p] == "" && got[p][0] == 'd' && holds(got, p, unknown):
			default:
				r.Fatalf("%s is %q, was %q, the turn left %q\n%v\n%+v", p, got[p], before[p], after[p], log, result)
			}
		}
		if _, err := w.j.Redo(t.Context(), Options{}); err != nil && len(result.Files) > 0 {
			r.Fatal(err)
		}
		if again := w.look(); len(result.Left) == 0 && fmt.Sprint(again) != fmt.Sprint(after) {
			r.Fatalf("redo made\n%v of\n%v\n%v", again, after, log)
		}
	})
}

// holds reports whether there is something below a directory that an undo leaves.
func holds(all map[string]string, dir string, unknown func(string) bool) bool {
	for p := range all {
		if strings.HasPrefix(p, dir+"/") && unknown(p) {
			return true
		}
	}
	return false
}

// ignoredNow returns what is ignored.
func (j *Journal) ignoredNow(t *testing.T) []string {
	t.Helper()
	index := ""
	if j.tree.Git != nil {
		var err error
		if index, err = j.copyIndex(t.Context(), j.tree); err != nil {
			t.Fatal(err)
		}
	}
	s, err := j.modified(t.Context(), j.tree, index, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.ignored
}

// TestBits: a change of permission bits alone is taken back, of tracked and untracked files, also by Redo, without
// another file in their place; a file that was removed or replaced gets the bits that it had.
func TestBits(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no permission bits")
	}
	for _, git := range []bool{true, false} {
		w := newWorld(t, git, map[string]string{"secret": "s", "gone": "g", "replaced": "r", "run.sh": "x", "set": "s"})
		w.write("mine", "untracked")
		for name, mode := range map[string]fs.FileMode{"secret": 0o600, "gone": 0o600, "replaced": 0o640, "run.sh": 0o750,
			"mine": 0o700, "set": 0o755} {
			if err := os.Chmod(filepath.Join(w.root, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		before := w.look()
		was, err := os.Lstat(filepath.Join(w.root, "secret"))
		if err != nil {
			t.Fatal(err)
		}
		turn := w.turn()
		w.command(func() {
			for name, mode := range map[string]fs.FileMode{"secret": 0o644, "run.sh": 0o644, "mine": 0o600} {
				if err := os.Chmod(filepath.Join(w.root, name), mode); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"gone", "replaced", "set"} {
				w.remove(name)
			}
			w.write("replaced", "other")
		})
		after := w.look()
		if r := w.restore(turn, Options{}); len(r.Files) != 6 || len(r.Left) > 0 {
			t.Errorf("git %t: %+v", git, r)
		}
		if got := w.look(); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("git %t:\n%v, want\n%v", git, got, before)
		}
		if is, err := os.Lstat(filepath.Join(w.root, "secret")); err != nil || !os.SameFile(was, is) {
			t.Errorf("git %t: another file is in the place of the one that got other bits: %v", git, err)
		}
		if _, err := w.j.Redo(t.Context(), Options{}); err != nil || fmt.Sprint(w.look()) != fmt.Sprint(after) {
			t.Errorf("git %t: redo made %v of %v, %v", git, w.look(), after, err)
		}
		w.restore(turn, Options{})
		if err := os.Chmod(filepath.Join(w.root, "secret"), 0o400); err != nil { // by the user, after another turn
			t.Fatal(err)
		}
		turn = w.turn()
		w.command(func() { w.remove("mine") })
		w.restore(turn, Options{})
		if is, err := os.Lstat(filepath.Join(w.root, "secret")); err != nil || is.Mode().Perm() != 0o400 {
			t.Errorf("git %t: bits that the turn did not touch: %v %v", git, is, err)
		}
	}
}

// TestSpecialBits: setuid, setgid and sticky bits that a turn gave, took or removed with the file are what they were.
func TestSpecialBits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere they stay as they are")
	}
	const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	for _, git := range []bool{true, false} {
		w := newWorld(t, git, map[string]string{"given": "g", "taken": "t", "gone": "g", "written": "w"})
		w.write("mine", "untracked")
		chmod := func(mode fs.FileMode, names ...string) {
			for _, name := range names {
				file := filepath.Join(w.root, name)
				if err := errors.Join(os.Chown(file, os.Geteuid(), os.Getegid()), os.Chmod(file, mode)); err != nil {
					t.Fatal(err)
				}
			}
		}
		chmod(0o755|special, "taken", "gone", "written")
		before := w.look()
		turn := w.turn()
		w.command(func() {
			chmod(0o644|special, "given", "mine")
			chmod(0o755, "taken")
			w.remove("gone")
			w.remove("written")
			w.write("written", "other")
		})
		after := w.look()
		if r := w.restore(turn, Options{}); len(r.Files) != 5 || len(r.Left) > 0 {
			t.Errorf("git %t: %+v", git, r)
		}
		if got := w.look(); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("git %t:\n%v, want\n%v", git, got, before)
		}
		if _, err := w.j.Redo(t.Context(), Options{}); err != nil || fmt.Sprint(w.look()) != fmt.Sprint(after) {
			t.Errorf("git %t: redo made %v of %v, %v", git, w.look(), after, err)
		}
	}
}

// TestBitsAfterKill: what a command removed before the process was killed comes back with its bits.
func TestBitsAfterKill(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no permission bits")
	}
	w := newWorld(t, true, map[string]string{"a": "a", "private/key": "k"})
	if err := errors.Join(os.Chmod(filepath.Join(w.root, "private/key"), 0o600),
		os.Chmod(filepath.Join(w.root, "private"), 0o700)); err != nil {
		t.Fatal(err)
	}
	before, turn := w.look(), w.turn()
	if _, err := w.j.Tree(t.Context(), "bash"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(w.root, "private")); err != nil {
		t.Fatal(err)
	}
	w.open()
	w.restore(turn, Options{})
	if got := w.look(); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("%v, want %v", got, before)
	}
}

// TestDirectories: an undo removes the directories that a turn made, those of files outside the tree included, and no
// other that is empty then.
func TestDirectories(t *testing.T) {
	for _, git := range []bool{true, false} {
		w := newWorld(t, git, start)
		outside, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"out", "gone", "dir/empty"} {
			if err := os.Mkdir(filepath.Join(w.root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		before, turn := w.look(), w.turn()
		w.edit("out/edited", "x")
		w.command(func() {
			w.write("out/x/made", "x")
			w.remove("gone")
			if err := os.Rename(filepath.Join(w.root, "dir"), filepath.Join(w.root, "moved")); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(w.root, "only", "a", "directory"), 0o755); err != nil {
				t.Fatal(err)
			}
		})
		file := filepath.Join(outside, "new", "file")
		step, err := w.j.Files(t.Context(), "write", file)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644),
			step.End(t.Context())); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(w.j.Turns()[0].Files), "[{"+file+" created} {dir/c.go removed} {dir/empty/ removed} "+
			"{gone/ removed} {moved/c.go created} {moved/empty/ created} {only/a/directory/ created} {out/edited created} "+
			"{out/x/made created}]"; got != want {
			t.Errorf("git %t: the turn did %s, want %s", git, got, want)
		}
		if r := w.restore(turn, Options{}); len(r.Left) > 0 {
			t.Errorf("git %t: %+v", git, r)
		}
		if got := w.look(); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("git %t:\n%v, want\n%v", git, got, before)
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Errorf("git %t: outside is left %v %v", git, left, err)
		}
	}
}

// TestLoop: files come back where the turn left a link to itself in the place of their directory, through which git
// sees nothing.
func TestLoop(t *testing.T) {
	for _, git := range []bool{true, false} {
		w := newWorld(t, git, map[string]string{"dir/c.go": "c", "dir/sub/d": "d"})
		w.open()
		before, turn := w.look(), w.turn()
		w.command(func() {
			dir := filepath.Join(w.root, "dir")
			if err := errors.Join(os.RemoveAll(dir), os.Symlink("dir", dir)); err != nil {
				t.Fatal(err)
			}
		})
		r := w.restore(turn, Options{})
		if got := w.look(); len(r.Left) > 0 || fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("git %t: %+v\n%v, want\n%v", git, r, got, before)
		}
	}
}
