//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A fixture is a project in its own home directory, with a sandbox around it.
type fixture struct {
	t     testing.TB
	home  string
	dir   string
	local *workspace.Local
	box   *Sandbox
}

// newFixture makes a home directory with secrets and a project with protected files.
func newFixture(t testing.TB, change ...func(*Policy, *system)) *fixture {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, "home")
	dir := filepath.Join(home, "project")
	for path, text := range map[string]string{
		"home/.ssh/id_ed25519":            "SECRET",
		"home/.ssh/config":                "Host x",
		"home/.aws/credentials":           "SECRET",
		"home/.netrc":                     "SECRET",
		"home/other/file":                 "readable",
		"home/.config/knack/settings":     "ours",
		"home/project/main.txt":           "text",
		"home/project/.env":               "SECRET",
		"home/project/.env.example":       "NAME=",
		"home/project/.git/HEAD":          "ref: refs/heads/main\n",
		"home/project/.git/config":        "[core]\n",
		"home/project/.git/hooks/old":     "hook",
		"home/project/.claude/skills/s":   "skill",
		"home/project/.mcp.json":          "{}",
		"home/project/sub/.vscode/x.json": "{}",
		"home/project/sub/.env.local":     "SECRET",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	for variable, dir := range map[string]string{"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state",
		"XDG_DATA_HOME": ".local/share"} {
		t.Setenv(variable, filepath.Join(home, dir))
	}
	p, err := Default(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := &fixture{t: t, home: home, dir: dir, box: newBox(t, p)}
	for _, c := range change {
		c(&b.box.policy, &b.box.system)
	}
	if b.local, err = workspace.NewLocal(dir); err != nil {
		t.Fatal(err)
	}
	b.local.Confine = b.box.Confine
	t.Cleanup(func() { b.local.Close() })
	return b
}

// newBox returns a sandbox that is closed when the test ends.
func newBox(t testing.TB, p Policy) *Sandbox {
	box := New(p, Auto)
	t.Cleanup(box.Close)
	return box
}

// complete skips the test if the machine has no complete sandbox.
func (b *fixture) complete() *fixture {
	b.t.Helper()
	if r := b.box.Report(); r.Level != Complete {
		b.t.Skipf("not tested: no complete sandbox on this machine: %s", r.Notice())
	}
	return b
}

// goLauncher is the backend namespaces with the launcher that needs no stub.
const goLauncher = "namespaces, no stub"

// on disables the backends that come before the given one.
func (b *fixture) on(backend string) *fixture {
	b.t.Helper()
	if backend == goLauncher {
		backend, b.box.system.noStub = namespaces, true
	} else if backend == namespaces && stub() == nil {
		b.t.Skip("not tested: no stub on this machine")
	}
	all := []string{namespaces, bubblewrap, landlock}
	b.box.system.without = all[:slices.Index(all, backend)]
	if r := b.box.Report(); r.Backend != backend {
		b.t.Skipf("not tested: no %s on this machine: %q", backend, r.Missing)
	}
	return b
}

// run runs a command line and returns its output.
func (b *fixture) run(line string) (string, workspace.Exit) {
	b.t.Helper()
	return b.allowed(line, workspace.Allowance{})
}

func (b *fixture) allowed(line string, a workspace.Allowance) (string, workspace.Exit) {
	b.t.Helper()
	var out bytes.Buffer
	exit, err := b.local.Run(context.Background(), workspace.Command{Line: line, Output: &out, Allow: a})
	if err != nil {
		b.t.Fatalf("%s: %v", line, err)
	}
	return out.String(), exit
}

// call runs one of the calls of calls_linux_test.go inside the sandbox.
func (b *fixture) call(name string, hosts ...string) string {
	b.t.Helper()
	return b.callAllowed(name, workspace.Allowance{Hosts: hosts})
}

func (b *fixture) callAllowed(name string, allow workspace.Allowance) string {
	b.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	exit, err := b.local.Run(context.Background(), workspace.Command{
		Args: []string{exe}, Env: []string{callEnv + "=" + name}, Output: &out,
		Allow: allow.Union(workspace.Allowance{Read: []string{exe}}),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if exit.Code != 0 {
		return fmt.Sprintf("%s (exit %d, %s)", out.String(), exit.Code, exit.Signal)
	}
	return strings.TrimRight(out.String(), "\n")
}

// contents returns every file of the fixture with its content.
func (b *fixture) contents() string {
	var s strings.Builder
	filepath.WalkDir(b.home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, _ := os.ReadFile(path)
			fmt.Fprintf(&s, "%s: %s %q\n", strings.TrimPrefix(path, b.home), d.Type(), data)
		}
		return nil
	})
	return s.String()
}

// together joins commands into one, each in its own shell.
func together(lines []string) string {
	return "(" + strings.Join(lines, "\n)\n(") + "\n)"
}

// TestClosedFiles runs commands that must neither change files nor read secrets.
func TestClosedFiles(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			outside := filepath.Join(filepath.Dir(b.home), "outside")
			if err := os.WriteFile(outside, []byte("kept"), 0o666); err != nil {
				t.Fatal(err)
			}
			before := b.contents()
			writes := []string{
				// Outside.
				"echo x > ~/new", "echo x >> ~/other/file", "rm ~/other/file", "mv ~/other ~/o", "ln -s x ~/link", "mkdir ~/d",
				"echo x > ../new", "touch /etc/x /usr/x /x", "chmod 777 ~/other/file", "ln ~/other/file .", "echo x > " + outside,
				"ln -s ~/other out && echo x >> out/file; rm -f out", "cp -r ~/.ssh s; rm -rf s",
				// Knack's own files.
				"echo x >> ~/.config/knack/settings", "rm -rf ~/.config/knack", "mv ~/.config ~/c",
				// Protected: written, replaced, renamed, linked.
				"echo x >> .git/config", "echo x > .git/hooks/pre-commit", "rm -rf .git/hooks", "mv .git/hooks .git/h",
				"mv .git .g", "rm -rf .git/config .git/hooks", "ln -sfn /tmp .git/hooks", "ln .git/hooks/old out && echo x >> out",
				"rm -rf .claude", "mv .claude c", "echo x > .claude/skills/new", "mkdir .claude/agents", "ln -sfn /tmp .claude",
				"echo y > .mcp.json", "echo y > z && mv -f z .mcp.json; rm -f z", "rm -f .mcp.json", "ln .mcp.json m && echo y > m",
				"ln -f main.txt .mcp.json", "cp main.txt .mcp.json", "truncate -s 0 .mcp.json", "chmod 777 .mcp.json",
				"touch -d 2001-01-01 .mcp.json", "rm -rf sub/.vscode", "echo y > sub/.vscode/x.json", "mv ../project ../p",
				"rm -rf .env", "mv .env e", "echo x > .env", "exec 5<>.git/config && echo x >&5", "mv .mcp.json .claude /tmp/",
				// Unmounting.
				"umount .mcp.json", "umount -l ~/.ssh", "mount -o remount,rw /", "mount --bind /tmp ~/.ssh",
				"unshare -Urm umount ~/.ssh", "unshare -Urm mount -t tmpfs x ~/.ssh", "mount -t proc proc /tmp",
				"nsenter -t 1 -m cat ~/.ssh/id_ed25519", "chroot / cat ~/.ssh/id_ed25519", "pivot_root . .",
			}
			b.run(together(writes))
			if b.contents() != before {
				for _, line := range writes { // find the line
					b := newFixture(t).on(backend)
					before := b.contents()
					out, exit := b.run(line)
					if now := b.contents(); now != before {
						t.Errorf("%s: changed\n%s\nto\n%s\noutput: %s\nrefused: %q", line, before, now, out, exit.Refused)
					}
				}
				t.Fatalf("changed\n%s\nto\n%s", before, b.contents())
			}
			if data, _ := os.ReadFile(outside); string(data) != "kept" {
				t.Errorf("a file next to the home directory was changed")
			}
			// Not in what the machine's owner keeps, which may be a million files.
			skip := "-path /usr"
			if u, err := user.Current(); err == nil && len(u.HomeDir) > 1 && !subpath.Contains(u.HomeDir, b.home) {
				skip += " -o -path '" + u.HomeDir + "'"
			}
			reads := []string{
				"cat ~/.ssh/id_ed25519", "ls ~/.ssh", "cp -r ~/.ssh /tmp/x; cat /tmp/x/*", "cat ~/.aws/credentials", "cat ~/.netrc",
				"cat .env sub/.env.local", "cat /proc/self/root$HOME/.netrc", "cat /proc/1/root$HOME/.netrc",
				"cat /proc/self/cwd/.env", "chmod 777 .env ~/.ssh ~/.netrc; cat .env ~/.ssh/* ~/.netrc", "ln .env e; cat e",
				"ln -s ~/.netrc n; cat n; rm n", "cd ~/.ssh && cat id_ed25519",
				"chmod -R 777 /dev/.hidden-dir /dev/.hidden-file; cat ~/.ssh/id_ed25519", "tar cf - ~/.ssh .env",
				"grep -r SECRET ~ .", "find / \\( " + skip + " \\) -prune -o -name id_ed25519 -exec cat {} +",
				"dd if=/dev/vda bs=1M count=1", "cat /proc/kcore | head -c 10",
			}
			if out, _ := b.run(together(reads)); strings.Contains(out, "SECRET") {
				for _, line := range reads {
					if out, _ := b.run(line); strings.Contains(out, "SECRET") {
						t.Errorf("%s: read a secret: %s", line, out)
					}
				}
				t.Errorf("read a secret: %s", out)
			}
		})
	}
}

// TestHomeStaysAsItIs runs a command on a machine with tools that were never used.
func TestHomeStaysAsItIs(t *testing.T) {
	tools := t.TempDir()
	for _, c := range toolCaches {
		t.Setenv(c.variable, "")
		if err := os.WriteFile(filepath.Join(tools, c.program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	b := newFixture(t).complete()
	before := b.dirs(b.home)
	if out, _ := b.run("echo hi"); out != "hi\n" || b.dirs(b.home) != before {
		t.Errorf("%s: before\n%s\nafter\n%s", out, before, b.dirs(b.home))
	}
	line := `for d in "$GOCACHE" "$GOMODCACHE" "$npm_config_cache" "$CARGO_HOME/registry" "$PIP_CACHE_DIR" ` +
		`"$BUN_INSTALL_CACHE_DIR" "$GOPATH/pkg/sumdb"; do mkdir -p "$d/x" && echo kept >> "$d/x/y" && cat "$d/x/y"; done`
	if out, exit := b.run(line); out != strings.Repeat("kept\n", 7) || b.dirs(b.home) != before {
		t.Errorf("private caches: %s %+v", out, exit)
	}
	// With a directory for caches, the next command finds what the last one stored.
	p := b.box.policy
	p.Layers = filepath.Join(b.home, ".local/state/knack/layers/p")
	b.local.Confine = newBox(t, p).Confine
	b.run(line)
	if out, exit := b.run(line); out != strings.Repeat("kept\n", 14) {
		t.Errorf("kept caches: %s %+v", out, exit)
	}
	// Of cargo's directory, nothing else can be written.
	if out, exit := b.run(`echo x > "$CARGO_HOME/config.toml" || mkdir "$CARGO_HOME/bin"`); exit.Code == 0 {
		t.Errorf("CARGO_HOME: %s", out)
	}
	// An existing directory of a tool is used, and so is one that a variable names.
	os.Mkdir(filepath.Join(b.home, ".cargo"), 0o755)
	t.Setenv("GOCACHE", filepath.Join(b.home, "named"))
	p, err := Default(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"CARGO_HOME": ".cargo/git", "GOCACHE": "named", "npm_config_cache": ""}
	for _, c := range p.Caches {
		if path, ok := want[c.Variable]; ok && c.Under != "registry" &&
			c.Path != map[bool]string{true: filepath.Join(b.home, path)}[path != ""] {
			t.Errorf("%+v", c)
		}
	}
}

// TestNewProtectedNames: commands create protected names that did not exist.
func TestNewProtectedNames(t *testing.T) {
	for _, c := range []struct{ line, path string }{
		{"echo x > .envrc", ".envrc"}, {"mkdir -p .husky && echo x > .husky/pre-commit", ".husky"},
		{"ln -s /tmp .vscode", ".vscode"},
		{"mkdir -p sub/.claude/skills/evil; echo x > sub/.claude/skills/evil/SKILL.md", "sub/.claude"},
		{"mkdir -p new/deep/.agents", "new/deep/.agents"},
		{"git init -q new2 || mkdir -p new2/.git", "new2/.git"},
		{"mv sub sub2; mkdir -p sub/.vscode; touch -d 2001-01-01 sub .", "sub/.vscode"},
		{"mkfifo .npmrc", ".npmrc"}, {"mkdir x; mkdir x/.pi; touch -d 2001-01-01 x x/.pi .", "x/.pi"},
		{"mkdir x; mv x .idea", ".idea"}, {"mkdir -p a/.cargo; mv a b", "b/.cargo"},
	} {
		if strings.HasPrefix(c.line, "mkdir ") && os.Getenv("KNACK_SANDBOX_TEST_NOBODY") != "" {
			continue // these do not depend on the user
		}
		t.Run(c.line, func(t *testing.T) {
			b := newFixture(t).complete()
			b.run("true") // makes the directories known, so that only changes are checked
			time.Sleep(2 * fresh)
			_, exit := b.run(c.line)
			path := filepath.Join(b.dir, c.path)
			if now, err := os.Lstat(path); err == nil {
				t.Errorf("%s was not removed: %v", c.path, now)
			}
			if len(exit.Refused) != 1 {
				t.Errorf("more than one report: %q", exit.Refused)
			}
			// What has files is kept beside it; a directory without files is not worth that.
			empty := strings.HasPrefix(c.line, "m") && !strings.Contains(c.line, "echo") && !strings.Contains(c.line, "mkfifo")
			if _, err := os.Lstat(path + ".refused-1"); (err != nil) != empty {
				t.Errorf("moved aside: %v", err)
			}
			if !strings.Contains(strings.Join(exit.Refused, "\n"), "Edit(/"+path+")") {
				t.Errorf("not reported with its rule: %q", exit.Refused)
			}
		})
	}
	t.Run("opened", func(t *testing.T) {
		b := newFixture(t).complete()
		path := filepath.Join(b.dir, ".envrc")
		_, exit := b.allowed("echo x > .envrc", workspace.Allowance{Write: []string{path}})
		b.run("true")
		if _, err := os.Stat(path); err != nil || len(exit.Refused) > 0 {
			t.Errorf("an allowed file was removed: %v, %q", err, exit.Refused)
		}
	})
	t.Run("kept", func(t *testing.T) {
		b := newFixture(t, func(p *Policy, s *system) { s.protected.keepNew = true }).complete()
		_, exit := b.run("echo x > .envrc; mkdir -p new/.vscode; echo x > .mcp.json; echo x > .git/config")
		for _, name := range []string{".envrc", "new/.vscode"} {
			if _, err := os.Stat(filepath.Join(b.dir, name)); err != nil {
				t.Error(err)
			}
		}
		for _, what := range exit.Refused {
			if !strings.Contains(what, ".mcp.json") && !strings.Contains(what, ".git/config") {
				t.Errorf("refused: %s", what)
			}
		}
		for _, name := range []string{".mcp.json", ".git/config"} { // these existed
			if data, err := os.ReadFile(filepath.Join(b.dir, name)); err != nil || string(data) == "x\n" {
				t.Errorf("%s: %q, %v", name, data, err)
			}
		}
	})
	t.Run("made outside between commands", func(t *testing.T) {
		b := newFixture(t).complete()
		b.run("true")
		path := filepath.Join(b.dir, ".envrc")
		os.WriteFile(path, []byte("mine"), 0o644)
		os.WriteFile(filepath.Join(b.dir, ".git/config"), []byte("changed"), 0o644)
		if out, exit := b.run("echo x > .envrc; cat .git/config"); !strings.Contains(out, "changed") ||
			len(exit.Refused) == 0 {
			t.Errorf("%s %q", out, exit.Refused)
		}
		if data, _ := os.ReadFile(path); string(data) != "mine" {
			t.Errorf("the user's file was changed: %q", data)
		}
	})
	t.Run("link", func(t *testing.T) {
		b := newFixture(t).complete()
		os.Symlink("sub", filepath.Join(b.dir, ".pi"))
		b.run("true")
		b.run("rm .pi && mkdir .pi && echo evil > .pi/SYSTEM.md")
		if to, err := os.Readlink(filepath.Join(b.dir, ".pi")); to != "sub" {
			t.Errorf("the link was removed: %v", err)
		}
	})
}

// TestNewNamesSeenBefore: a protected name that was already noticed while the command ran is moved aside at its end.
// Found by attack: a repository with core.fsmonitor that a script made in a subdirectory stayed, because an earlier
// look had found it and nobody remembered.
func TestNewNamesSeenBefore(t *testing.T) {
	b := newFixture(t).complete()
	aside := func(name string) {
		t.Helper()
		path := filepath.Join(b.dir, name)
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was not moved aside", name)
		}
		if _, err := os.Lstat(path + ".refused-1"); err != nil {
			t.Error(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = b.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("not tested: git: %v: %s", err, out)
		}
	}
	b.run("true")
	b.run("mkdir -p one/.cargo; echo x > one/.cargo/config; sleep 0.2") // at its end, the work tree is compared first
	aside("one/.cargo")

	made, end := filepath.Join(b.dir, "made"), filepath.Join(b.dir, "end")
	done := make(chan bool)
	go func() {
		defer close(done)
		b.local.Run(context.Background(), workspace.Command{
			Line: "mkdir -p two/.cargo; echo x > two/.cargo/config; touch made; until [ -e end ]; do sleep 0.05; done"})
	}()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Lstat(made); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * fresh)
	b.run("true") // its beginning looks, too
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	<-done
	aside("two/.cargo")
}

// TestClosedCalls makes system calls inside that must be refused.
func TestClosedCalls(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap, landlock} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			got := b.call("every one")
			for name := range calls {
				if !strings.Contains(got, "\n"+name+": refused") {
					t.Errorf("%s: done\n%s", name, got)
				}
			}
		})
	}
}
