//go:build linux && (amd64 || arm64)

package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestLinkRestoredElsewhere: a protected link that a command removed is put back only into the directory where it was,
// not where a link leads that took that directory's place. Found by attack: x/.zshenv of the repository, with a target
// of its choice, became ~/.zshenv.
func TestLinkRestoredElsewhere(t *testing.T) {
	for _, backend := range []string{namespaces, bubblewrap, goLauncher} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t)
			for _, dir := range []string{"links", "deep/er"} {
				dir = filepath.Join(b.dir, dir)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(b.dir+"/evil.sh", dir+"/.zshenv"); err != nil {
					t.Fatal(err)
				}
			}
			b.on(backend)
			b.run("true")
			b.run("echo 'echo evil' > evil.sh; rm links/.zshenv deep/er/.zshenv; rmdir links deep/er; ln -s " + b.home + " links; " +
				"mkdir deep/own; rmdir deep/own deep; ln -s " + filepath.Dir(b.home) + " deep; ln -s home er")
			for _, path := range []string{b.home + "/.zshenv", filepath.Dir(b.home) + "/.zshenv"} {
				if to, err := os.Readlink(path); err == nil {
					t.Errorf("%s leads to %s", path, to)
				}
			}
		})
	}
}

// TestExchangedLinks: a command that runs exchanges files and directories for links all the time, while the next one
// begins. What is decided about is what is opened. Found by attack: links were resolved twice, to decide and to open,
// and 5 of 60 commands wrote ~/.bashrc. An allowed file that was missing was made through a link in the place of its
// directory.
func TestExchangedLinks(t *testing.T) {
	b := newFixture(t)
	other, outer := filepath.Join(b.home, "other"), filepath.Join(b.home, "outer")
	p, err := Default(filepath.Join(outer, "inner"))
	if err != nil {
		t.Fatal(err)
	}
	p.Roots, p.Write = []string{outer, filepath.Join(outer, "root")}, []string{filepath.Join(outer, "write")}
	names := []string{"inner", "root", "write", "allowed"}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(outer, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, filepath.Join(outer, name+"-link")); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(other, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	box := newBox(t, p)
	var exchanging sync.WaitGroup
	done := make(chan struct{})
	exchanging.Go(func() {
		for {
			for _, name := range names {
				select {
				case <-done:
					return
				default:
				}
				at := filepath.Join(outer, name)
				unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, at+"-link", unix.RENAME_EXCHANGE)
			}
		}
	})
	defer exchanging.Wait()
	defer close(done)
	allowed := filepath.Join(outer, "allowed")
	allow := workspace.Allowance{Write: []string{allowed, allowed + "/new"}, Read: []string{allowed, allowed + "/socket"}}
	checked := 0
	for range 3000 {
		p, err := box.current()
		if err != nil {
			continue // it has seen the link
		}
		for _, s := range p.openedSockets(allow, []string{outer}) {
			if withinAny([]string{other}, s.path) {
				t.Fatalf("%s is open", s.path)
			}
		}
		v, err := p.viewFor(allow, nil, present{}, nil, nil, nil, false)
		v.remove(false)
		if err != nil {
			continue
		}
		checked++
		for _, path := range slices.Concat(v.writable, v.opened) {
			if withinAny([]string{other}, path) {
				t.Fatalf("%s is open", path)
			}
		}
	}
	if checked == 0 {
		t.Error("no command would have started")
	}
	if entries, err := os.ReadDir(other); err != nil || len(entries) != 2 {
		t.Errorf("outside: %v %v, want the file and the socket", entries, err)
	}
}

// TestMovedAsideElsewhere: what appeared under a protected name is moved aside only if it is still where it was found.
// Found by attack: with a directory exchanged for a link at that moment, ~/.ssh was moved aside.
func TestMovedAsideElsewhere(t *testing.T) {
	b := newFixture(t)
	n := newProtectedFiles(b.box.policy)
	n.begin()
	made := filepath.Join(b.dir, "made")
	if err := os.MkdirAll(made+"/.vscode", 0o755); err != nil {
		t.Fatal(err)
	}
	id, ok := identify(made + "/.vscode")
	if !ok {
		t.Fatal("not found")
	}
	if err := os.Rename(made, made+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", made); err != nil {
		t.Fatal(err)
	}
	n.aside(made+"/.vscode", id)
	if _, err := os.Lstat(b.dir + "/sub/.vscode/x.json"); err != nil {
		t.Error(err)
	}
	// A directory of the workspace that lies in another one can be replaced, too.
	if err := os.Rename(b.dir, b.dir+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(b.dir+"2", b.dir); err != nil {
		t.Fatal(err)
	}
	if id, ok = identify(b.dir + "/.claude"); !ok {
		t.Fatal("not found")
	}
	if m := n.aside(b.dir+"/.claude", id); m.to != "" {
		t.Error(m.note)
	}
}

// TestHeadNamesSecret: a HEAD that a command made to lead to a secret tells nothing of it when git is put back. Found
// by attack.
func TestHeadNamesSecret(t *testing.T) {
	need(t, "git")
	b := newFixture(t).complete()
	os.RemoveAll(filepath.Join(b.dir, ".git"))
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = b.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q", "-b", "one")
	git("config", "user.name", "n")
	git("config", "user.email", "a@b")
	git("add", "main.txt")
	git("commit", "-qm", "one")
	git("checkout", "-q", "-b", "two")
	for path, text := range map[string]string{".husky/pre-commit": "two", "main.txt": "two"} {
		path = filepath.Join(b.dir, path)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("add", ".husky", "main.txt")
	git("commit", "-qm", "two")
	git("checkout", "-q", "one")
	for name, head := range map[string]string{
		"a ref with dots":  "echo 'ref: refs/heads/../../../.env' > .git/HEAD",
		"a linked ref":     "ln -sf ../../../.env .git/refs/heads/secret; echo 'ref: refs/heads/secret' > .git/HEAD",
		"a linked HEAD":    "rm .git/HEAD; ln -s ../.env .git/HEAD",
		"a linked, packed": "rm .git/packed-refs; ln -s ../.env .git/packed-refs; echo 'ref: refs/heads/x' > .git/HEAD",
	} {
		t.Run(name, func(t *testing.T) {
			b.run("rm -f .git/HEAD; echo 'ref: refs/heads/one' > .git/HEAD; " + head)
			_, exit := b.run("rm -f .git/HEAD; echo 'ref: refs/heads/one' > .git/HEAD; git checkout -q two")
			if said := strings.Join(exit.Refused, "\n"); strings.Contains(said, "SECRET") {
				t.Error(said)
			}
			for _, name := range []string{"HEAD", "packed-refs", "refs/heads/secret"} {
				os.Remove(b.dir + "/.git/" + name)
			}
			os.WriteFile(b.dir+"/.git/HEAD", []byte("ref: refs/heads/one\n"), 0o644)
			git("reset", "-q", "--hard", "one")
			os.RemoveAll(b.dir + "/.husky")
		})
	}
}

// TestPlaceholdersOfOthers: what other commands and programs reserve in the git directory while a command ends, and
// release at any moment, has not appeared.
func TestPlaceholdersOfOthers(t *testing.T) {
	b := newFixture(t)
	n := newProtectedFiles(b.box.policy)
	n.begin() // while a command runs, nothing new counts as known
	git := filepath.Join(b.dir, ".git")
	for _, name := range []gitName{{git + "/modules", "", true}, {git + "/commondir", placeholderDir, false}} {
		done := make(chan error)
		go func() {
			for range 300 {
				p, err := reserve(name)
				if err != nil {
					done <- err
					return
				}
				release([]*placeholder{p})
			}
			done <- nil
		}()
		for over := false; !over; {
			select {
			case err := <-done:
				if over = true; err != nil {
					t.Errorf("%s: %v", name.name, err)
				}
			default:
				n.begin()
				for _, note := range n.end(nil, nil) {
					t.Error(note)
				}
			}
		}
	}
}
