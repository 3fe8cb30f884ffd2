//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// gitProject adds to a project every kind of git directory: a worktree's, submodules', and one that a .git file
// points to.
func gitProject(b *fixture) {
	b.t.Helper()
	for path, text := range map[string]string{
		".git/objects/pack/x": "", ".git/refs/heads/x": "",
		".git/worktrees/w/HEAD": "x", ".git/worktrees/w/commondir": "../..\n", ".git/worktrees/w/gitdir": filepath.Join(b.dir,
			"w/.git") + "\n", "w/.git": "gitdir: " + filepath.Join(b.dir, ".git/worktrees/w") + "\n",
		".git/modules/a/HEAD": "x", ".git/modules/a/config": "a", ".git/modules/deep/er/b/HEAD": "x",
		".git/modules/deep/er/b/hooks/h": "x", "nested/.git": "gitdir: ../data\n", "data/HEAD": "x", "data/config": "x",
		"data/objects/x": "", "data/refs/x": "", "data/modules/c/HEAD": "x",
	} {
		path = filepath.Join(b.dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(b.dir, ".git/hooks")); err != nil {
		b.t.Fatal(err)
	}
}

// gitTargets are the names in gitProject through which git runs programs.
var gitTargets = []string{
	".git/commondir", ".git/config.worktree", ".git/info/attributes", ".git/hooks/pre-commit", ".git/config",
	".git/modules/new/config", ".git/worktrees/w/config.worktree", ".git/worktrees/w/commondir", ".git/worktrees/w/gitdir",
	".git/worktrees/w/modules/m/config", "w/.git", ".git/modules/a/config", ".git/modules/a/commondir",
	".git/modules/a/hooks/post-checkout", ".git/modules/a/info/attributes", ".git/modules/deep/er/b/config",
	".git/modules/deep/er/b/config.worktree", ".git/modules/deep/er/b/modules/n/config", ".git/modules/deep/new/config",
	"data/config", "data/commondir", "data/config.worktree", "data/info/attributes", "data/hooks/pre-commit",
	"data/modules/c/config", "nested/.git",
}

// plant tries every way of creating a file at a path, and returns those that worked, if only for a moment. It runs
// inside the sandbox, in the project.
func plant(target string) (reached []string) {
	const evil = "evil"
	dir := filepath.Dir(target)
	try := func(how string, f func() error) {
		f()
		if data, _ := os.ReadFile(target); strings.Contains(string(data), evil) {
			reached = append(reached, target+" by "+how)
			os.RemoveAll(target)
		}
	}
	create := func() error { return os.WriteFile(target, []byte(evil), 0o644) }
	source := func(f func() error) func() error {
		return func() error {
			defer os.RemoveAll("evil.tmp")
			return errors.Join(os.WriteFile("evil.tmp", []byte(evil), 0o644), f())
		}
	}
	try("create", create)
	try("mkdir", func() error { return errors.Join(os.MkdirAll(dir, 0o755), create()) })
	try("rename", source(func() error { return os.Rename("evil.tmp", target) }))
	try("exchange", source(func() error {
		return unix.Renameat2(unix.AT_FDCWD, "evil.tmp", unix.AT_FDCWD, target, unix.RENAME_EXCHANGE)
	}))
	try("link", source(func() error { return os.Link("evil.tmp", target) }))
	try("symlink", source(func() error { return os.Symlink("evil.tmp", target) }))
	try("remove", func() error { return errors.Join(os.Remove(target), create()) })
	try("remove all", func() error {
		return errors.Join(unix.Unlink(target), unix.Rmdir(target), unix.Rmdir(dir),
			create())
	})
	for top := dir; top != "."; top = filepath.Dir(top) {
		if filepath.Dir(top) == "." && top != ".git" {
			break // any directory of the project can be renamed; names checks afterwards
		}
		try("rename of "+top, func() error {
			if err := os.Rename(top, "moved.tmp"); err != nil {
				return err
			}
			os.MkdirAll(dir, 0o755)
			create()
			data, _ := os.ReadFile(target)
			os.RemoveAll(top)
			err := os.Rename("moved.tmp", top)
			if string(data) == evil {
				reached = append(reached, target+" by rename of "+top)
			}
			return err
		})
		try("symlink for "+top, func() error {
			if err := os.Mkdir("evil.dir", 0o755); err != nil {
				return err
			}
			defer os.RemoveAll("evil.dir")
			return unix.Renameat2(unix.AT_FDCWD, "evil.dir", unix.AT_FDCWD, top, unix.RENAME_EXCHANGE)
		})
	}
	return reached
}

func plantAll() error {
	var errs []error
	for _, target := range gitTargets {
		for _, how := range plant(target) {
			errs = append(errs, errors.New("reached "+how))
		}
	}
	return errors.Join(errs...)
}

// TestClosedGitNames: a command cannot create a name that git would use, not even for a moment, and the sandbox
// leaves nothing behind.
func TestClosedGitNames(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			gitProject(b)
			before := b.contents() + b.dirs(b.dir)
			if out := b.call("plant"); out != "done" {
				t.Error(out)
			}
			if now := b.contents() + b.dirs(b.dir); now != before {
				t.Errorf("changed from\n%s\nto\n%s", before, now)
			}
		})
	}
}

// dirs lists the directories below root.
func (b *fixture) dirs(root string) string {
	var s strings.Builder
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			s.WriteString(strings.TrimPrefix(path, root) + "\n")
		}
		return nil
	})
	return s.String()
}

// TestOpenGitNames: the files that git itself writes are writable.
func TestOpenGitNames(t *testing.T) {
	b := newFixture(t).complete()
	gitProject(b)
	for _, dir := range []string{".git", ".git/worktrees/w", ".git/modules/a", ".git/modules/deep/er/b", "data",
		"data/modules/c"} {
		line := "cd " + dir + " && echo x > index.lock && mv index.lock index && echo x > HEAD.lock && mv -f HEAD.lock " +
			"HEAD && mkdir -p refs/heads objects/ab logs && " +
			"echo x > refs/heads/y.lock && mv refs/heads/y.lock refs/heads/y && mkdir rebase-merge && rm -r rebase-merge && " +
			"echo x > objects/ab/tmp && mv objects/ab/tmp objects/ab/cd"
		if out, exit := b.run(line); exit.Code != 0 || len(exit.Refused) > 0 {
			t.Errorf("%s: %s %+v", dir, out, exit)
		}
	}
	if out, exit := b.run("echo '*.bin' > .git/info/exclude && mkdir -p .git/worktrees/new && echo ../.. > " +
		".git/worktrees/new/commondir && cat .git/info/exclude"); exit.Code != 0 {
		t.Errorf("%s %+v", out, exit)
	}
}

// TestGitReadOnlyWhenFull: a git directory in which no placeholder can be made is read-only as a whole.
func TestGitReadOnlyWhenFull(t *testing.T) {
	b := newFixture(t).complete()
	lock, err := os.OpenFile(filepath.Join(b.dir, ".git/commondir"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	lock.WriteString(placeholderDir)
	// A lock that is never released simulates a full disk.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if out, exit := b.run("echo x > .git/new; echo x > other && cat other"); out == "x\n" ||
		!strings.HasSuffix(out, "x\n") || len(exit.Refused) == 0 {
		t.Errorf("%s %+v", out, exit)
	}
}

// TestTwoPrograms: two sandboxes of one repository share placeholders. Found by attack: an empty .git/modules stayed
// where the program that began first ended first.
func TestTwoPrograms(t *testing.T) {
	b := newFixture(t).complete()
	os.RemoveAll(filepath.Join(b.dir, ".git/hooks"))
	other := newBox(t, b.box.policy)
	local, err := workspace.NewLocal(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	local.Confine = other.Confine
	in, out := newLines(), newLines()
	done := make(chan error, 1)
	go func() {
		_, err := local.Run(context.Background(), workspace.Command{
			Line: "echo started; read -r line; echo evil > .git/commondir; mkdir -p .git/hooks; echo evil > " +
				".git/hooks/pre-commit; cat .git/commondir .git/hooks/*",
			Stdin: in, Output: out,
		})
		out.Close()
		done <- err
	}()
	if got := out.next(); got != "started" {
		t.Fatal(got)
	}
	b.run("true") // starts and ends while the other sandbox's command runs
	in.Write([]byte("go\n"))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if all := out.String(); strings.Contains(all, "\nevil") {
		t.Errorf("planted: %s", all)
	}
	nothingLeft := func(names ...string) {
		t.Helper()
		for _, name := range append(names, "commondir", "hooks", "config.worktree", "modules") {
			if _, err := os.Lstat(filepath.Join(b.dir, ".git", name)); err == nil {
				t.Errorf("%s was left behind", name)
			}
		}
	}
	nothingLeft("info")

	// The command that began first ends first. Git itself makes info.
	if err := os.Mkdir(filepath.Join(b.dir, ".git/info"), 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(local *workspace.Local) (in *lines, ended chan error) {
		lines, out := newLines(), newLines()
		ended = make(chan error, 1)
		go func() {
			_, err := local.Run(context.Background(), workspace.Command{Line: "echo started; read -r line", Stdin: lines,
				Output: out})
			ended <- err
		}()
		if got := out.next(); got != "started" {
			t.Fatal(got)
		}
		return lines, ended
	}
	first, firstEnded := start(local)
	second, secondEnded := start(b.local)
	first.Close()
	err = <-firstEnded
	second.Close()
	if err = errors.Join(err, <-secondEnded); err != nil {
		t.Fatal(err)
	}
	nothingLeft()

	// An empty directory of the user stays.
	if err := os.Mkdir(filepath.Join(b.dir, ".git/modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.run("true")
	if _, err := os.Lstat(filepath.Join(b.dir, ".git/modules")); err != nil {
		t.Error(err)
	}
}

// TestLeftovers kills the program while a command runs. Found by attack: an empty .git/modules stayed.
func TestLeftovers(t *testing.T) {
	b := newFixture(t).complete()
	state := filepath.Join(b.home, ".local/state/knack/sandbox")
	if dir := os.Getenv("KNACK_SANDBOX_TEST_LEFT"); dir != "" {
		p := b.box.policy
		p.Dir, p.State = dir, os.Getenv("KNACK_SANDBOX_TEST_STATE")
		local, err := workspace.NewLocal(dir)
		if err != nil {
			t.Fatal(err)
		}
		local.Confine = New(p, Auto).Confine
		local.Run(context.Background(), workspace.Command{Line: "mkdir .husky; echo x > .husky/pre-commit; ln -s " +
			"/nowhere .git/FETCH_HEAD; echo exec evil >> .git/rebase-merge/git-rebase-todo; echo done; sleep 1000",
			Output: os.Stdout})
		return
	}
	b.run("true")
	if err := errors.Join(os.Symlink("/nowhere", filepath.Join(b.dir, ".git/mine")),
		os.Mkdir(filepath.Join(b.dir, ".git/rebase-merge"), 0o755),
		os.WriteFile(filepath.Join(b.dir, ".git/rebase-merge/git-rebase-todo"), []byte("exec mine\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestLeftovers$")
	cmd.Env = append(os.Environ(), "KNACK_SANDBOX_TEST_LEFT="+b.dir, "KNACK_SANDBOX_TEST_STATE="+state,
		"TMPDIR="+t.TempDir()) // it cannot clean up
	out := newLines()
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got := out.next(); got != "done" {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("the command did not start: %s", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := os.Lstat(filepath.Join(b.dir, ".git/commondir")); err != nil {
		t.Fatalf("the program had no time to remove a placeholder, and there is none: %v", err)
	}
	p := b.box.policy
	p.State = state
	box := newBox(t, p)
	all := strings.Join(box.Leftovers(), "\n")
	for _, want := range []string{filepath.Join(b.dir, ".husky") + " is protected", ".git/commondir was a placeholder",
		".git/config.worktree was", "FETCH_HEAD, a link to /nowhere", "run programs (evil)"} {
		if !strings.Contains(all, want) {
			t.Errorf("not reported: %s\n%s", want, all)
		}
	}
	for _, name := range []string{".git/commondir", ".git/modules"} {
		if _, err := os.Lstat(filepath.Join(b.dir, name)); err == nil {
			t.Errorf("%s was not removed", name)
		}
	}
	list, err := os.ReadFile(filepath.Join(b.dir, ".git/rebase-merge/git-rebase-todo"))
	if string(list) != "exec mine\n"+heldStep+"exec evil\n" || strings.Contains(all, "mine") {
		t.Errorf("%q, %v, %s", list, err, all)
	}
	if again := New(p, Auto).Leftovers(); len(again) > 0 {
		t.Errorf("reported twice: %q", again)
	}
	b.box = box
	b.local.Confine = box.Confine
	b.run("true") // an ordinary exit leaves nothing behind
	if more := New(p, Auto).Leftovers(); len(more) > 0 {
		t.Errorf("after an ordinary exit: %q", more)
	}
}

// TestBareRepository: a directory that becomes a repository without the name .git is reported.
func TestBareRepository(t *testing.T) {
	b := newFixture(t).complete()
	b.run("true")
	line := "mkdir -p sub/x/objects sub/x/refs; echo ref: refs/heads/main > sub/x/HEAD; echo '[core]' > sub/x/config"
	shared := "mkdir -p c/objects c/refs s; echo '[core]' > c/config; echo ref: refs/heads/main > s/HEAD; echo ../c > s/commondir"
	for _, c := range [][2]string{{line, "sub/x"}, {shared, "s"}, {"mkdir objects refs; echo ref: refs/heads/main > HEAD", "HEAD"}} {
		_, exit := b.run(c[0])
		path := filepath.Join(b.dir, c[1])
		if !strings.Contains(strings.Join(exit.Refused, "\n"), path+" ") {
			t.Errorf("%s: not reported: %q", c[1], exit.Refused)
		}
		_, err := os.Lstat(path)
		_, aside := os.Lstat(path + ".refused-1")
		if err == nil || aside != nil {
			t.Errorf("%s: not moved aside: %v, %v", c[1], err, aside)
		}
	}
	if _, exit := b.run("true"); len(exit.Refused) > 0 {
		t.Errorf("reported twice: %q", exit.Refused)
	}
	opened := filepath.Join(b.dir, "new.git")
	b.allowed("git init -q --bare new.git", workspace.Allowance{Replace: []string{opened}})
	if _, err := os.Lstat(opened + "/config"); err != nil {
		t.Errorf("opened by an answer: %v", err)
	}
}

// TestBareRepositoryMoved: of a directory that was there before only what the command made is moved aside, and git runs
// nothing that a command planted, in what was moved neither.
func TestBareRepositoryMoved(t *testing.T) {
	plant := func(dir string) string {
		return fmt.Sprintf(`; printf '[core]\n\tfsmonitor = touch %%s/ran; false\n' "$PWD" >> %[1]s/config; cd %[1]s && `+
			`for h in pre-commit post-checkout; do printf '#!/bin/sh\ntouch ran\n' > hooks/$h; chmod +x hooks/$h; done`, dir)
	}
	for name, c := range map[string]struct{ line, gone, kept string }{
		"existing": {"git init -q --bare docs" + plant("docs"), "docs/HEAD docs/config docs/hooks docs/objects",
			"docs/guide.md docs/refs.md docs/info"},
		"renamed": {"mv docs d2; git init -q --bare d2" + plant("d2"), "d2/HEAD d2/config d2/hooks", "d2/guide.md d2/info"},
		"new":     {"git init -q --bare new" + plant("new"), "new new.refused-1/config new.refused-1/hooks", "docs/guide.md"},
		"nested":  {"mkdir -p a/.git; git init -q --bare a/.git/b" + plant("a/.git/b"), "a/.git a/.git.refused-1/b/config", ""},
		"dot git": {"rm -rf sub2; git init -q sub2" + plant("sub2/.git"), "sub2/.git sub2/.git.refused-1/config", ""},
		"commondir": {"mkdir -p c/objects c/refs c/hooks; echo ref: refs/heads/x > docs/HEAD; echo ../c > docs/commondir" + plant("c"),
			"docs/HEAD docs/commondir", "docs/guide.md c/config"},
		"empty": {"mkdir -p .pi/agent .agents docs/objects docs/refs; echo ref: refs/heads/x > docs/HEAD",
			".pi .agents .pi.refused-1 docs/objects.refused-1 docs/refs.refused-1 docs/HEAD", "docs/HEAD.refused-1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t).complete()
			b.write("project/docs/guide.md", "user's")
			b.write("project/docs/refs.md", "user's")
			b.write("project/docs/info/text", "user's")
			time.Sleep(2 * fresh) // so that the directory is older than the command
			b.run("true")
			_, exit := b.run(c.line)
			for _, path := range strings.Fields(c.gone) {
				if _, err := os.Lstat(b.at("project/" + path)); err == nil {
					t.Errorf("%s is there", path)
				}
			}
			for _, path := range strings.Fields(c.kept) {
				if _, err := os.Lstat(b.at("project/" + path)); err != nil {
					t.Error(err)
				}
			}
			said := strings.Join(exit.Refused, "; ")
			if strings.Contains(said, "/docs is protected and did not exist") || !strings.Contains(said, "did not exist before") &&
				!strings.Contains(said, "moved aside") {
				t.Errorf("said: %s", said)
			}
			// In other directories, git does what it does in the one above.
			git := exec.Command("sh", "-c", "find . -name HEAD -o -name .git | while read -r f; do "+
				"(cd $(dirname $f) && git status && git commit --allow-empty -m x); done")
			git.Dir = b.dir
			git.Run()
			filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Name() == "ran" {
					t.Errorf("git ran the planted program: %s", path)
				}
				if entries, _ := os.ReadDir(path); strings.Contains(path, ".refused-") && d.IsDir() && len(entries) == 0 &&
					strings.Contains(filepath.Base(path), ".refused-") {
					t.Errorf("an empty directory is left: %s", path)
				}
				return nil
			})
		})
	}
}

// TestBareRepositoryInProject: nothing from which git runs programs can be written in a bare repository that was there
// before, also after a directory above it was renamed; objects and branches can.
func TestBareRepositoryInProject(t *testing.T) {
	b := newFixture(t).complete()
	for _, name := range []string{"sub/r.git", "."} {
		cmd := exec.Command("git", "init", "-q", "--bare", name)
		cmd.Dir = b.dir
		if name == "." {
			os.RemoveAll(filepath.Join(b.dir, ".git"))
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		b.box = newBox(t, b.box.policy)
		b.local.Confine = b.box.Confine
		b.run("cd " + name + "; echo '[core] fsmonitor = evil' >> config; echo evil > hooks/pre-commit; rm -f config; echo evil > " +
			"config.worktree; mkdir -p info; echo '* filter=evil' > info/attributes; mv hooks h; mkdir hooks; echo evil > hooks/x")
		dir := filepath.Join(b.dir, name)
		config, err := os.ReadFile(filepath.Join(dir, "config"))
		if err != nil || strings.Contains(string(config), "evil") {
			t.Errorf("%s: config: %v %s", name, err, config)
		}
		for _, file := range []string{"hooks/pre-commit", "hooks/x", "config.worktree", "info/attributes", "h"} {
			if data, err := os.ReadFile(filepath.Join(dir, file)); err == nil && strings.Contains(string(data), "evil") {
				t.Errorf("%s: %s was written", name, file)
			}
		}
		if out, exit := b.run("cd " + name + " && git hash-object -w --stdin < /dev/null && mkdir refs/heads/d"); exit.Code != 0 {
			t.Errorf("%s: %s %+v", name, out, exit)
		}
	}
	if _, exit := b.run("mv sub moved"); len(exit.Refused) > 0 {
		t.Errorf("renamed: %q", exit.Refused)
	}
	if _, err := os.Lstat(filepath.Join(b.dir, "moved/r.git/config")); err != nil {
		t.Error(err)
	}
}

// TestGitFileThatNeverEnds: a .git that is not a small file does no harm.
func TestGitFileThatNeverEnds(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"FIFO":    func(path string) error { return unix.Mkfifo(path, 0o644) },
		"endless": func(path string) error { return os.Symlink("/dev/zero", path) },
		"sparse":  func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 1<<40)) },
		"commondir": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o755), unix.Mkfifo(path+"/commondir", 0o644), unix.Mkfifo(path+"/config", 0o644))
		},
		"pointer": func(path string) error {
			dir := filepath.Dir(path) + "/data"
			return errors.Join(os.Mkdir(dir, 0o755), unix.Mkfifo(dir+"/commondir", 0o644),
				os.WriteFile(path, []byte("gitdir: data\n"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t).complete()
			git := filepath.Join(b.dir, ".git")
			if err := errors.Join(os.RemoveAll(git), plant(git)); err != nil {
				t.Fatal(err)
			}
			b.box = newBox(t, b.box.policy)
			b.local.Confine = b.box.Confine
			if out, exit := b.run("echo runs"); out != "runs\n" || exit.Code != 0 {
				t.Errorf("%s %+v", out, exit)
			}
		})
	}
}

// lines is a pipe that a test reads line by line.
type lines struct {
	r, w *os.File
	all  bytes.Buffer
}

func newLines() *lines {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	return &lines{r: r, w: w}
}

func (l *lines) Write(b []byte) (int, error) { return l.w.Write(b) }
func (l *lines) Read(b []byte) (int, error)  { return l.r.Read(b) }
func (l *lines) Close() error                { return l.w.Close() }

// next reads one line.
func (l *lines) next() string {
	l.r.SetReadDeadline(time.Now().Add(time.Minute))
	var line []byte
	for b := make([]byte, 1); ; {
		if n, err := l.r.Read(b); n == 0 || err != nil {
			return fmt.Sprintf("%s (%v)", line, err)
		}
		l.all.Write(b)
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

// String returns everything up to the end.
func (l *lines) String() string {
	l.all.ReadFrom(l.r)
	return l.all.String()
}

// gitReads matches what only reads in gitDay.
var gitReads = regexp.MustCompile(`^git (log|diff|show|stash list|worktree list|fsck|rev-parse|ls-files|grep|blame|describe|` +
	`shortlog|for-each-ref|cat-file|symbolic-ref|config --get|check-|submodule status|merge-base|sparse-checkout list)`)

// gitDay is a typical day's work with git.
var gitDay = []string{
	`git status --short`,
	`echo one > one.txt && git add one.txt`,
	`git commit -qm one`,
	`echo two >> one.txt && git commit -qam two`,
	`git log --oneline`,
	`git diff HEAD~1`,
	`git show --stat`,
	`echo dirty >> one.txt && git stash`,
	`git stash list`,
	`git stash pop`,
	`git checkout -q -- one.txt`,
	`git branch topic`,
	`git checkout -q topic`,
	`echo topic > topic.txt && git add topic.txt && git commit -qm topic`,
	`git switch -q $B`,
	`echo main > main2.txt && git add main2.txt && git commit -qm main2`,
	`git rebase -q $B topic`,
	`git switch -q $B`,
	`git merge -q --no-edit topic`,
	`git branch -d topic`,
	`git tag v1`,
	`git tag -a v2 -m two`,
	`git checkout -q -b pick HEAD~1 && echo p > p && git add p && git commit -qm p && git switch -q $B && git ` +
		`cherry-pick pick`,
	`git revert --no-edit HEAD`,
	`git reset -q --soft HEAD~1`,
	`git reset -q --hard HEAD`,
	`GIT_SEQUENCE_EDITOR=true git rebase -q -i --exec true HEAD~1`,
	`git commit -q --amend --no-edit --allow-empty`,
	`git worktree add -q wt -b wtbranch`,
	`git -C wt status --short`,
	`git -C wt commit -q --allow-empty -m inwt`,
	`git worktree list`,
	`git gc -q`,
	`git repack -adq`,
	`git prune`,
	`git fsck`,
	`git pack-refs --all`,
	`git reflog expire --expire=now --all`,
	`git notes add -m note`,
	`git bisect start HEAD HEAD~2`,
	`git bisect reset`,
	`git clone -q . clone`,
	`git init -q --bare bare.git`,
	`git push -q ./bare.git $B`,
	`git fetch -q ./bare.git $B`,
	`git pull -q --no-rebase ./bare.git $B`,
	`git format-patch -q -1 -o patches`,
	`git apply --check -R patches/*.patch`,
	`git archive HEAD -o a.tar`,
	`git bundle create -q b.bundle HEAD`,
	`git clean -fdq -e wt -e clone -e bare.git -e .env -e .claude -e .mcp.json -e sub`,
	`git update-index --refresh`,
	`git rev-parse --git-common-dir --show-toplevel --is-bare-repository`,
	`git ls-files`,
	`git grep -n one`,
	`git blame one.txt`,
	`git describe --all`,
	`git shortlog -s HEAD`,
	`git mv one.txt uno.txt && git commit -qm mv`,
	`git rm -q uno.txt && git commit -qm rm`,
	`git checkout -q --detach HEAD~1`,
	`git switch -q $B`,
	`git for-each-ref`,
	`git cat-file -p HEAD`,
	`git symbolic-ref HEAD`,
	`git stash push -q --message x`,
	`git config --get user.name`,
	`git check-ignore -q x.o; true`,
	`git check-attr -a main.txt`,
	`git maintenance run --task=gc --quiet`,
	`git commit-graph write`,
	`git multi-pack-index write`,
	`git read-tree HEAD`,
	`git write-tree`,
	`git submodule status`,
	`git worktree prune`,
	`git rerere`,
	`git merge-base HEAD HEAD~1`,
	`git am patches/*.patch || git am --abort; true`,
	`git sparse-checkout list; true`,
	`git switch -q -c feature && git switch -q $B && git branch -D feature`,
}

func TestOpenGit(t *testing.T) {
	need(t, "git")
	for _, shape := range []string{"repository", "worktree", "below the repository"} {
		if shape != "repository" && os.Getenv("KNACK_SANDBOX_TEST_NOBODY") != "" {
			continue // where the git directory is does not depend on the user
		}
		t.Run(shape, func(t *testing.T) {
			b := newFixture(t)
			os.RemoveAll(filepath.Join(b.dir, ".git"))
			git := func(args ...string) {
				t.Helper()
				cmd := exec.Command("git", append([]string{"-C", b.dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %v: %v %s", args, err, out)
				}
			}
			git("init", "-q", "-b", "main")
			git("add", "main.txt", "sub/.vscode")
			git("commit", "-qm", "first")
			git("config", "user.name", "a")
			git("config", "user.email", "a@b")
			dir := b.dir
			switch shape {
			case "worktree":
				dir = filepath.Join(b.home, "tree")
				git("worktree", "add", "-q", dir)
			case "below the repository":
				dir = filepath.Join(b.dir, "sub")
			}
			b.box = newBox(t, Policy{Dir: dir, Home: b.home, Protected: protectedNames()})
			b.complete()
			local, err := workspace.NewLocal(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { local.Close() })
			local.Confine = b.box.Confine
			b.local = local
			out, exit := b.run("git status --short && echo x > f && git add f && git commit -qm two && git log --oneline | " +
				"wc -l && git stash list && git branch b && git checkout -q b && git diff HEAD~1 --stat | tail -1")
			if exit.Code != 0 || !strings.Contains(out, "2\n") || len(exit.Refused) > 0 {
				t.Errorf("%s %+v", out, exit)
			}
			script := []string{"B=$(git symbolic-ref --short HEAD)"}
			for i, line := range gitDay {
				if shape == "worktree" && gitReads.MatchString(line) {
					continue // as in the repository
				}
				script = append(script, fmt.Sprintf("{ %s; } >/dev/null 2>/tmp/err || { echo \"%d failed:\"; cat /tmp/err; }", line,
					i))
			}
			// Who runs git decides nothing that the first commands do not show.
			all := shape != "below the repository" && os.Getenv("KNACK_SANDBOX_TEST_NOBODY") == ""
			if all {
				if out, _ := b.run(strings.Join(script, "\n")); out != "" {
					t.Errorf("failed inside: %s", out)
				}
			}
			if all && shape == "repository" {
				// The worktree that the command made is complete, and is known from now on.
				cmd := exec.Command("git", "-C", filepath.Join(dir, "wt"), "status", "--short")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("the worktree that a command added: %v %s", err, out)
				}
			}
			out, exit = b.run("git config core.fsmonitor evil; git remote add o u; d=$(git rev-parse --git-common-dir); echo " +
				"evil > $d/hooks/pre-commit; mv $d/hooks $d/h; echo x > $d/commondir")
			for _, path := range []string{"config", "hooks"} {
				if data, _ := os.ReadFile(filepath.Join(b.dir, ".git", path)); strings.Contains(string(data), "evil") {
					t.Errorf("%s was changed", path)
				}
			}
			if _, err := os.Stat(filepath.Join(b.dir, ".git/hooks/pre-commit")); err == nil {
				t.Error("a hook was planted")
			}
			if _, err := os.Stat(filepath.Join(b.dir, ".git/commondir")); err == nil {
				t.Error("commondir was planted")
			}
			if all := strings.Join(exit.Refused, "\n"); !strings.Contains(all, ".git/config)") {
				t.Errorf("not reported: %s\n%s", all, out)
			}
		})
	}
}

func TestDirSet(t *testing.T) {
	paths := []string{"", "/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/a/../c", "/c/d", "/a/..b", "/d//e", "/d/e/f"}
	for _, dir := range paths {
		for _, path := range paths {
			set := newDirSet([]string{"/x", dir, "/y/z"})
			if got, want := set.contain(path), withinAny([]string{dir}, path); got != want {
				t.Errorf("%q contains %q: %t, want %t", dir, path, got, want)
			}
			above := newDirSet([]string{dir}).above()
			if got, want := above[filepath.Clean(path)], subpath.Contains(path, dir); path != "" && got != want {
				t.Errorf("%q is above %q: %t, want %t", path, dir, got, want)
			}
		}
	}
}
