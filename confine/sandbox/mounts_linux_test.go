//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/workspace"
)

// settled waits until a change of a file would be noticed by its time.
func settled() { time.Sleep(2 * fresh) }

// replaceAll tries to write and to replace what is protected, and prints what it can read of secrets. It runs inside the
// sandbox, in the project.
func replaceAll() error {
	for name := range strings.FieldsSeq(`.mcp.json .git .git/config .git/commondir .git/config.worktree .git/hooks
		.git/hooks/old .git/hooks/new .git/modules .git/modules/new .git/modules/m/config .claude .claude/x .claude/new
		sub*/.vscode sub*/.vscode/new in/.git in/.git/config in/.git/hooks in/.git/hooks/old .git/worktrees/w
		.git/worktrees/w/commondir .git/worktrees/w/config.worktree .husky .husky/pre-commit .husky/new`) {
		paths, _ := filepath.Glob(name)
		for _, path := range paths {
			os.WriteFile(path, []byte("x\n"), 0o644)
			os.Rename(path, path+".away")
			os.Link("main.txt", path+"/main.txt")
			os.Remove(path)
			os.Link("main.txt", path)
			os.RemoveAll(path + ".away")
		}
	}
	for _, name := range []string{".env", "sub*/.env*", os.Getenv("HOME") + "/.ssh/*"} {
		paths, _ := filepath.Glob(name)
		for _, path := range paths {
			secret, _ := os.ReadFile(path)
			fmt.Printf("%s\n", secret)
		}
	}
	return nil
}

// TestChangesBetweenCommands changes what mounts depend on between two commands: the second must be restricted like the
// first.
func TestChangesBetweenCommands(t *testing.T) {
	b := newFixture(t).on(namespaces)
	at := func(name string) string { return filepath.Join(b.dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(at(from), at(to)); err != nil {
			t.Fatal(err)
		}
	}
	write("other/x", "kept")
	write(".git/modules/m/HEAD", "ref: refs/heads/main\n") // so that it is not a placeholder
	write(".git/modules/m/config", "kept")
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"nothing", func() {}},
		{"a file that is not protected", func() { write("sub/new", "x") }},
		{"written in place", func() { write(".mcp.json", "{1}") }},
		{"replaced by renaming", func() { write("new", "kept"); rename("new", ".git/config") }},
		{"removed and made again", func() { os.Remove(at(".mcp.json")); write(".mcp.json", "{2}") }},
		{"another name of the same file", func() {
			if err := os.Link(at(".mcp.json"), at("link")); err != nil {
				t.Fatal(err)
			}
			rename(".mcp.json", "away")
			rename("link", ".mcp.json")
		}},
		{"another directory in its place", func() { rename(".claude", "away2"); rename("other", ".claude") }},
		{"a directory removed and made again", func() {
			os.RemoveAll(at(".git/hooks"))
			write(".git/hooks/pre-commit", "kept")
		}},
		{"a directory above it renamed", func() { rename("sub", "sub2") }},
		{"a directory above it renamed, and back", func() { rename("sub2", "sub"); rename("sub", "sub2") }},
		{"another directory above it", func() {
			rename(".git", "git")
			write(".git/HEAD", "ref: refs/heads/main\n")
			rename("git/config", ".git/config")
			rename("git/hooks", ".git/hooks")
		}},
		{"git init", func() {
			write("in/.git/HEAD", "ref: refs/heads/main\n")
			write("in/.git/config", "kept")
			write("in/.git/hooks/old", "kept")
		}},
		{"a new worktree", func() {
			write(".git/worktrees/w/commondir", "../..\n")
			write(".git/worktrees/w/gitdir", at("w/.git\n"))
			write(".git/worktrees/w/config.worktree", "kept")
		}},
		{"a new .husky", func() { write(".husky/pre-commit", "kept") }},
		{"a new secret", func() { write("sub2/.env", "SECRET") }},
	} {
		b.call("nothing") // not "true": the second command has the same mounts as the first
		c.change()
		contents := b.contents()
		out := b.call("replace")
		if now := b.contents(); now != contents {
			t.Errorf("%s: the files changed from\n%s\nto\n%s", c.name, contents, now)
		}
		if strings.Contains(out, "SECRET") {
			t.Errorf("%s: a secret is read: %s", c.name, out)
		}
	}
}

// TestMovedAtStart moves the directory above a secret and a protected name while a command starts, as another
// command may: it must not read the one or write the other, wherever they are. Found by attack: while one command
// renamed the directory back and forth, 18 of 60 others read the secret; mounts stayed in the wrong place, and 2 of 28
// read it after that command had ended.
func TestMovedAtStart(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher} {
		for _, other := range []bool{false, true} { // another directory with the same names takes its place
			b := newFixture(t).on(backend)
			sub, away := filepath.Join(b.dir, "sub"), filepath.Join(b.dir, "away")
			for _, dir := range []string{sub, filepath.Join(b.dir, "other")} {
				err := errors.Join(os.MkdirAll(filepath.Join(dir, ".vscode"), 0o755),
					os.WriteFile(filepath.Join(dir, ".env.local"), []byte("SECRET"), 0o644))
				if err != nil {
					t.Fatal(err)
				}
			}
			settled()
			b.box.system.encoded = func() {
				b.box.system.encoded = nil
				err := os.Rename(sub, away)
				if other {
					err = errors.Join(err, os.Rename(filepath.Join(b.dir, "other"), sub))
				}
				if err != nil {
					t.Error(err)
				}
			}
			const line = "cat */.env*; echo x > away/.vscode/tasks.json"
			for i := range 2 {
				out, exit := b.run(line)
				if _, err := os.Lstat(filepath.Join(away, ".vscode/tasks.json")); err == nil || strings.Contains(out, "SECRET") {
					t.Errorf("%s, %v: a secret is read or a protected name written: %q (%v)", backend, other, out, err)
				}
				if refused := strings.Contains(strings.Join(exit.Refused, "\n"), "run the command again"); refused != (i == 0) {
					t.Errorf("%s, %v, command %d: refused: %v: %q", backend, other, i, refused, exit.Refused)
				}
			}
		}
	}
}

// TestMovedElsewhere moves the directory above a secret and a protected name to where nothing is looked for,
// between two commands and while one runs. Found by attack: "mv sub node_modules" uncovered what is in sub, for the
// next command and for the next session.
func TestMovedElsewhere(t *testing.T) {
	b := newFixture(t).on(namespaces)
	if err := os.Mkdir(filepath.Join(b.dir, "node_modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.run("true")
	const line = "cat node_modules/sub/.env* sub/.env*; echo x > node_modules/sub/.vscode/tasks.json"
	check := func(when string) {
		t.Helper()
		out, _ := b.run(line)
		_, err := os.Lstat(filepath.Join(b.dir, "node_modules/sub/.vscode/tasks.json"))
		if err == nil || strings.Contains(out, "SECRET") {
			t.Errorf("%s: a secret is read or a protected name written: %q (%v)", when, out, err)
		}
	}
	if _, exit := b.run("mv sub node_modules"); exit.Code != 0 {
		t.Fatalf("%+v", exit)
	}
	check("between two commands")
	check("and again")
	if _, exit := b.run("mv node_modules/sub ."); exit.Code != 0 || len(exit.Refused) > 0 {
		t.Fatalf("%+v", exit)
	}
	r, w := io.Pipe()
	moved, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		b.local.Run(context.Background(), workspace.Command{Line: "mv sub node_modules; echo; read x", Stdin: r,
			Output: writer(sync.OnceFunc(func() { close(moved) }))})
	}()
	<-moved
	check("while a command runs")
	w.Close()
	<-ended
	check("afterwards")
	// A new session knows nothing of this one, but what it left in the state directory.
	next := func() {
		p := b.box.policy
		p.State = filepath.Join(b.home, ".local/state/knack/sandbox")
		b.box = newBox(t, p)
		b.local.Confine = b.box.Confine
	}
	if _, exit := b.run("mv node_modules/sub ."); exit.Code != 0 || len(exit.Refused) > 0 {
		t.Fatalf("%+v", exit)
	}
	next()
	if _, exit := b.run("mv sub node_modules"); exit.Code != 0 {
		t.Fatalf("%+v", exit)
	}
	next()
	check("in another session")
	if _, exit := b.run("mv node_modules/sub ."); exit.Code != 0 || len(exit.Refused) > 0 {
		t.Fatalf("%+v", exit)
	}
}

// TestNothingShared leaves something wherever a command can write; the next command must not find it.
func TestNothingShared(t *testing.T) {
	b := newFixture(t).on(namespaces)
	places := "/tmp /var/tmp /run /dev/shm /dev/pts /dev / " + b.home
	for range 2 {
		out, _ := b.run("for d in " + places + "; do ls -A $d | grep left; echo x > $d/left; done 2>/dev/null;" +
			"mkdir /dev/left 2>/dev/null; chmod 777 /dev /dev/.hidden-file 2>/dev/null; cat /dev/.hidden-file 2>/dev/null;" +
			"cat /proc/sysvipc/shm | wc -l; command -v ipcmk >/dev/null && ipcmk -M 100 >/dev/null")
		if strings.TrimSpace(out) != "1" {
			t.Errorf("found from an earlier command: %q", out)
		}
	}
}

// TestMounts checks the exact list of a command's mounts in its home and in /dev.
func TestMounts(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher} {
		b := newFixture(t).on(backend)
		settled()
		for range 2 {
			out, _ := b.run("cut -d' ' -f5,6 /proc/self/mountinfo")
			var got []string
			for line := range strings.Lines(out) {
				point, options, _ := strings.Cut(strings.TrimSpace(line), " ")
				if rel, ok := strings.CutPrefix(point, b.home); ok {
					mode, _, _ := strings.Cut(options, ",")
					got = append(got, strings.TrimPrefix(rel, "/")+" "+mode)
				}
			}
			slices.Sort(got)
			got = slices.Compact(got) // below /tmp the list includes what /tmp covers
			want := []string{" ro", ".aws ro", ".netrc ro", ".ssh ro", "project rw", "project/.claude ro", "project/.env ro",
				"project/.git rw", "project/.git/commondir ro", "project/.git/config ro", "project/.git/config.worktree ro",
				"project/.git/hooks ro", "project/.git/info rw", "project/.git/info/attributes ro", "project/.git/modules ro",
				"project/.mcp.json ro", "project/sub/.env.local ro", "project/sub/.vscode ro"}
			if !slices.Equal(got, want) {
				t.Errorf("%s: mounts\n%q, want\n%q", backend, got, want)
			}
		}
	}
}

// TestOpenedFiles checks which files of the workspace and the home the checks before and after a command open, if
// nothing has changed since the last command.
func TestOpenedFiles(t *testing.T) {
	b := newFixture(t).on(namespaces)
	settled()
	b.run("true") // reads what is new to the sandbox
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip("not tested, inotify does not work:", err)
	}
	defer unix.Close(watch)
	names := map[int32]string{}
	for _, dir := range []string{"", ".ssh", ".config", "project", "project/.git", "project/.git/hooks", "project/.claude",
		"project/sub"} {
		id, err := unix.InotifyAddWatch(watch, filepath.Join(b.home, dir), unix.IN_OPEN|unix.IN_ONLYDIR)
		if err != nil {
			t.Fatal(err)
		}
		names[int32(id)] = dir
	}
	var ended func(*workspace.Exit)
	cmd := exec.Command("/bin/true")
	cmd.Dir = b.dir
	if ended, err = b.box.Confine(cmd, &workspace.Command{}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	ended(&workspace.Exit{})
	var got []string
	buf := make([]byte, 1<<16)
	n, _ := unix.Read(watch, buf)
	for at := 0; at+unix.SizeofInotifyEvent <= n; {
		id := int32(binary.NativeEndian.Uint32(buf[at:]))
		length := int(binary.NativeEndian.Uint32(buf[at+12:]))
		name := strings.TrimRight(string(buf[at+16:at+16+length]), "\x00")
		// A directory's events are also reported by its parent, and a placeholder is made from a file without a name.
		if name != "" && name[0] != '#' {
			got = append(got, filepath.Join(names[id], name))
		}
		at += unix.SizeofInotifyEvent + length
	}
	// The placeholders change this one, so it is read again.
	got = slices.DeleteFunc(got, func(path string) bool { return path == "project/.git" })
	slices.Sort(got)
	want := []string{"project/.git/HEAD", // compared afterwards, see checkout
		"project/.git/hooks", "project/.git/info", "project/.git/modules"} // placeholders, if empty
	if !slices.Equal(got, want) {
		t.Errorf("opened\n%q, want\n%q", got, want)
	}
}
