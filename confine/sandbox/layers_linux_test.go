//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/workspace"
)

// withCache adds a user's cache with the file m/v.go to a fixture, and a directory for layers.
func withCache(t testing.TB) *fixture {
	b := newFixture(t)
	b.addCache()
	return b
}

func (b *fixture) addCache() {
	b.t.Helper()
	b.write("go/pkg/mod/m/v.go", "theirs")
	b.write("go/pkg/mod/cache/download/m/list", "v1")
	p := &b.box.policy
	p.Caches = []Cache{{Variable: "GOMODCACHE", Path: b.at("go/pkg/mod")}}
	p.Layers = b.at(".local/state/knack/layers/p")
	b.t.Cleanup(func() { removeTree(b.at(".local/state/knack/layers")) })
}

// at returns a path in the home.
func (b *fixture) at(name string) string { return filepath.Join(b.home, name) }

func (b *fixture) write(name, text string) {
	b.t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(b.at(name)), 0o755), os.WriteFile(b.at(name), []byte(text), 0o644))
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) read(name string) string {
	text, err := os.ReadFile(b.at(name))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// layered skips the test if the machine has no overlays.
func (b *fixture) layered() *fixture {
	b.t.Helper()
	b.on(namespaces)
	if r := b.box.CacheReport(); r.Problem != "" {
		b.t.Skipf("not tested: no overlays on this machine: %s", r.Problem)
	}
	return b
}

// check runs a command and compares its output.
func (b *fixture) check(line, want string) {
	b.t.Helper()
	if out, exit := b.run(line); out != want {
		b.t.Errorf("%s: %q, want %q (%+v)", line, out, want, exit)
	}
}

// other returns another program's sandbox for the same project.
func (b *fixture) other(change func(*Policy)) *fixture {
	b.t.Helper()
	p := b.box.policy
	if change != nil {
		change(&p)
	}
	other := &fixture{t: b.t, home: b.home, dir: b.dir, box: newBox(b.t, p)}
	other.local = must(workspace.NewLocal(b.dir))
	other.local.Confine = other.box.Confine
	b.t.Cleanup(func() { other.local.Close() })
	return other
}

func must[T any](v T, _ error) T { return v }

const mod = "~/go/pkg/mod"

// TestCacheStaysClosed changes a cache in every way: the next command of the project sees it, and neither the user nor
// another project does.
func TestCacheStaysClosed(t *testing.T) {
	b := withCache(t)
	before := b.dirs(b.at("go"))
	b.layered()
	b.run("cd " + mod + "; echo hostile > m/v.go; echo x > m/new; chmod 700 m; mv cache cache2; mkdir n; ln -s /etc n/l; " +
		"ln m/v.go m/hard; touch -d 2001-01-01 m")
	b.check("cd "+mod+"; cat m/v.go m/new cache2/download/m/list; ls; cat m/hard",
		"hostile\nx\nv1cache2\nm\nn\nhostile\n")
	b.run("cd " + mod + "; rm -r m; mkdir m; mv cache2 cache")
	b.check("cd "+mod+"; ls m; ls cache/download", "m\n")
	if now := b.dirs(b.at("go")); now != before || b.read("go/pkg/mod/m/v.go") != "theirs" {
		t.Errorf("the user's cache was\n%s\nand is\n%s, %s", before, now, b.read("go/pkg/mod/m/v.go"))
	}
	b.other(func(p *Policy) { p.Layers += "2" }).check("cat "+mod+"/m/v.go", "theirs")
	b.box.Close()
	b.check("ls "+mod, "cache\nm\nn\n") // the same layer again
	b.check("ls "+mod+"/m", "")
}

// TestCacheChangesOutside changes the user's cache while a session runs, as the user's own `go get` does: commands see
// it, also names for which they looked before, and while another command runs.
func TestCacheChangesOutside(t *testing.T) {
	b := withCache(t).layered()
	const look = "cd " + mod + "; cat m/new n/x 2>/dev/null; ls m"
	b.check(look, "v.go\n")
	r, w := io.Pipe()
	running, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		b.local.Run(context.Background(), workspace.Command{Line: look + "; read x", Stdin: r,
			Output: writer(sync.OnceFunc(func() { close(running) }))})
	}()
	<-running
	b.write("go/pkg/mod/m/new", "new ")
	b.write("go/pkg/mod/n/x", "x ")
	b.check(look, "new x new\nv.go\n")
	b.write("go/pkg/mod/m/v.go", "changed")
	b.check("cat "+mod+"/m/v.go", "changed")
	// go clean -modcache
	if err := os.RemoveAll(b.at("go/pkg/mod")); err != nil {
		t.Fatal(err)
	}
	b.write("go/pkg/mod/m/later", "later")
	b.check("ls "+mod+"/m; echo x > "+mod+"/m/own; cat "+mod+"/m/own", "later\nx\n")
	w.Close()
	<-ended
	b.check("ls "+mod+"/m", "later\nown\n")
	if b.read("go/pkg/mod/m/own") == "x\n" {
		t.Error("the user's cache was written")
	}
}

// TestCacheShared uses a cache in commands that run at the same time, and in the background: they see what the others
// write.
func TestCacheShared(t *testing.T) {
	b := withCache(t).layered()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var out bytes.Buffer
			b.local.Run(context.Background(), workspace.Command{Output: &out, Line: fmt.Sprintf(
				"cd %s; echo x > in%d; until [ -e in0 ] && [ -e in7 ]; do sleep 0.01; done; echo seen", mod, i)})
			if out.String() != "seen\n" {
				t.Errorf("command %d: %q", i, &out)
			}
		})
	}
	wg.Wait()
	b.check("ls "+mod+" | wc -l", "10\n")
}

// TestCacheTwoPrograms uses a cache in two programs at a time: each has a layer of its own.
func TestCacheTwoPrograms(t *testing.T) {
	b := withCache(t).layered()
	other := b.other(nil)
	for i, x := range []*fixture{b, other} {
		x.run(fmt.Sprintf("echo %d > %s/mine", i, mod))
	}
	b.check("cat "+mod+"/mine", "0\n")
	other.check("cat "+mod+"/mine", "1\n")
	// A layer that is free again is used again.
	b.box.Close()
	b.other(nil).check("cat "+mod+"/mine", "0\n")
	if b.read("go/pkg/mod/mine") == "0\n" {
		t.Error("the user's cache was written")
	}
}

// TestCacheKilled kills a program while its command uses a cache: the next one can use it, and the same layer as soon
// as the command has ended.
func TestCacheKilled(t *testing.T) {
	const mark = "KNACK_SANDBOX_TEST_KILLED"
	if home := os.Getenv(mark); home != "" {
		b := newFixture(t)
		b.home = home
		b.addCache()
		b.on(namespaces)
		b.local.Run(context.Background(), workspace.Command{Output: os.Stdout,
			Line: "echo killed > " + b.at("go/pkg/mod/left") + "; echo ready; while :; do sleep 0.01; echo x > " +
				b.at("go/pkg/mod/m/v.go") + "; done"})
		return
	}
	b := withCache(t).layered()
	b.box.Close()
	cmd := exec.Command(must(os.Executable()), "-test.run=^TestCacheKilled$")
	cmd.Env = append(os.Environ(), mark+"="+b.home, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	var text string
	for buf := make([]byte, 512); !strings.Contains(text, "ready"); {
		n, err := out.Read(buf)
		if text += string(buf[:n]); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	for deadline := time.Now().Add(time.Minute); ; {
		next := b.other(nil)
		next.check("cat "+mod+"/cache/download/m/list", "v1")
		if found, _ := next.run("cat " + mod + "/left"); found == "killed\n" {
			break
		}
		if next.box.Close(); time.Now().After(deadline) {
			t.Fatal("the layer of the killed program is not used again")
		}
	}
	if b.read("go/pkg/mod/m/v.go") != "theirs" {
		t.Error("the user's cache was written")
	}
}

// TestCacheOfOthers has files of another user in a cache: they can be read and not written, and the rest of the cache
// works.
func TestCacheOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not tested: only root can make files of others")
	}
	b := withCache(t)
	b.write("go/pkg/mod/theirs/f", "other")
	for _, path := range []string{"theirs/f", "theirs"} {
		if err := os.Chown(b.at("go/pkg/mod/"+path), 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	b.layered()
	b.check("cd "+mod+"; cat theirs/f; { echo x > theirs/f; } 2>/dev/null; cat theirs/f; echo x > m/v.go; cat m/v.go",
		"otherotherx\n")
}

// TestCacheReadOnlyDirectories has directories without write permission, as Go makes them; removing the layer removes
// them.
func TestCacheReadOnlyDirectories(t *testing.T) {
	b := withCache(t).layered()
	b.run("cd " + mod + "; mkdir -p r/d && echo x > r/d/f && chmod 444 r/d/f && chmod 555 r r/d")
	b.check("cat "+mod+"/r/d/f", "x\n")
	b.box.Close()
	emptyLayers(b.box.policy.Layers)
	if left, err := os.ReadDir(b.box.policy.Layers); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	b.check("ls "+mod, "cache\nm\n")
}

// TestCacheOwn runs commands where overlays do not work: variables lead to caches of the project, with the user's as a
// source, and the user's cannot be written. Found by attack: GOPROXY overrode what "go env -w" stores, "off" included.
func TestCacheOwn(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap, landlock} {
		t.Run(backend, func(t *testing.T) {
			b := withCache(t)
			b.on(backend)
			b.box.system.layers.failed = errors.New("not here")
			proxy := "https://proxy.golang.org,direct"
			if _, err := exec.LookPath("go"); err == nil { // what `go env -w` stores counts
				proxy = "https://proxy.example,off"
				os.MkdirAll(b.at(".config/go"), 0o755)
				if err := os.WriteFile(b.at(".config/go/env"), []byte("GOPROXY="+proxy+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			b.run("echo x > $GOMODCACHE/new; echo x > " + mod + "/new; echo x > " + mod + "/m/v.go")
			b.check("cat $GOMODCACHE/new; echo $GOPROXY", "x\nfile://"+b.at("go/pkg/mod/cache/download")+
				","+proxy+"\n")
			if _, err := os.Stat(b.at("go/pkg/mod/new")); err == nil || b.read("go/pkg/mod/m/v.go") != "theirs" {
				t.Error("the user's cache was written")
			}
			if r := b.box.CacheReport(); r.Problem == "" || !slices.Equal(r.Own, []string{b.at("go/pkg/mod")}) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestCacheOwnLimits has the limits where overlays do not work: nothing is removed while a command of any program uses
// it.
func TestCacheOwnLimits(t *testing.T) {
	const big = "head -c 3000000 /dev/zero > $GOMODCACHE/big"
	for _, backend := range []string{namespaces, goLauncher, bubblewrap, landlock} {
		t.Run(backend, func(t *testing.T) {
			b := withCache(t)
			b.box.policy.LayerLimit = 1 << 20
			b.on(backend)
			program := func() *fixture { // as another process would have it
				other := b.other(nil)
				other.box.system.without, other.box.system.noStub = b.box.system.without, b.box.system.noStub
				other.box.system.layers.failed = errors.New("not here")
				return other
			}
			layers, once := b.box.policy.Layers, program()
			once.run(big)
			if r := once.box.CacheReport(); r.Bytes < 3000000 || r.Problem == "" {
				t.Errorf("%+v", r)
			}
			once.box.Close()
			if size := layersSize(layers); size > 1<<20 {
				t.Errorf("after a program with one command: %d bytes", size)
			}

			r, w := io.Pipe()
			used, ended := make(chan struct{}), make(chan struct{})
			var out bytes.Buffer
			using := program()
			go func() {
				defer close(ended)
				using.local.Run(context.Background(), workspace.Command{Stdin: r,
					Line:   "echo x > $GOMODCACHE/mine && echo ready; read x; cat $GOMODCACHE/mine",
					Output: io.MultiWriter(&out, writer(sync.OnceFunc(func() { close(used) })))})
			}()
			<-used
			once = program()
			once.run(big)
			long := time.Now().AddDate(-1, 0, 0)
			os.Chtimes(layers, long, long)
			removeUnused(filepath.Dir(layers), time.Now())
			once.box.Close()
			w.Close()
			<-ended
			if out.String() != "ready\nx\n" {
				t.Errorf("what a command used: %q", &out)
			}
			using.box.Close()
			if size := layersSize(layers); size > 1<<20 {
				t.Errorf("after the command: %d bytes", size)
			}
			b.box.system.layers.failed = errors.New("not here")
			b.run("echo x > $GOMODCACHE/mine")
			b.box.Close()
			os.Chtimes(layers, long, long)
			removeUnused(filepath.Dir(layers), time.Now())
			if _, err := os.Stat(layers); err == nil {
				t.Error("not removed after a year")
			}
		})
	}
}

// TestCacheOnOverlay has the layers in a file system in which they cannot be, as in a container.
func TestCacheOnOverlay(t *testing.T) {
	const mark = "KNACK_SANDBOX_TEST_OVERLAY"
	if dir := os.Getenv(mark); dir != "" {
		for _, name := range []string{"lower", "upper", "work"} {
			os.Mkdir(filepath.Join(dir, name), 0o755)
		}
		options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
		if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
			t.Skipf("not tested: no overlay: %v", err)
		}
		t.Setenv("TMPDIR", dir)
		b := withCache(t).on(namespaces)
		b.check("echo x > $GOMODCACHE/new; cat $GOMODCACHE/new; ls "+mod, "x\ncache\nm\n")
		if r := b.box.CacheReport(); r.Problem == "" {
			t.Errorf("%+v", r)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("not tested: only root can mount")
	}
	cmd := exec.Command(must(os.Executable()), "-test.run=^TestCacheOnOverlay$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCacheOpened: what the user opened by name, or what is part of the project, has no layer.
func TestCacheOpened(t *testing.T) {
	b := withCache(t)
	b.box.policy.Write = []string{b.at("go")}
	b.box.policy.Caches = append(b.box.policy.Caches, Cache{Variable: "GOCACHE", Path: filepath.Join(b.dir, "build")})
	b.on(namespaces)
	b.check("echo x > "+mod+"/mine; echo x > build/mine; echo $GOMODCACHE$GOCACHE", "\n")
	if b.read("go/pkg/mod/mine") != "x\n" || b.read("project/build/mine") != "x\n" {
		t.Error("not written")
	}
}

// TestCacheHome works in the home, which contains the cache.
func TestCacheHome(t *testing.T) {
	b := withCache(t)
	b.write("go/pkg/mod/m/.env", "not a secret")
	b.box = newBox(t, func() Policy { p := b.box.policy; p.Dir = b.home; return p }())
	b.local.Confine = b.box.Confine
	b.layered()
	for range 2 {
		b.check("cd; echo x > mine; cat mine; echo hostile > "+mod+"/m/v.go; cat "+mod+"/m/v.go", "x\nhostile\n")
	}
	if b.read("go/pkg/mod/m/v.go") != "theirs" || b.read("mine") != "x\n" {
		t.Errorf("%q, %q", b.read("go/pkg/mod/m/v.go"), b.read("mine"))
	}
}

// TestCacheLimits empties layers that are too large, and removes those of projects that nobody uses.
func TestCacheLimits(t *testing.T) {
	b := withCache(t)
	b.box.policy.LayerLimit = 1 << 20
	b.layered()
	system := &b.box.system
	b.run("head -c 3000000 /dev/zero > " + mod + "/big")
	if r := b.box.CacheReport(); r.Bytes < 3000000 || r.Limit != 1<<20 || r.Projects != 1 {
		t.Errorf("%+v", r)
	}
	eventually(t, "the layer is emptied", func() bool {
		limits := &system.layers.limits
		limits.mu.Lock()
		limits.measured = time.Time{} // measure again after this command
		limits.mu.Unlock()
		out, _ := b.run("ls " + mod)
		return out == "cache\nm\n"
	})
	if r := b.box.CacheReport(); r.Bytes > 1<<20 {
		t.Errorf("after: %+v", r)
	}
	// A program that runs one command, as knack -p does, empties them when it ends.
	b.box.Close()
	once := b.other(nil)
	once.run("head -c 3000000 /dev/zero > " + mod + "/big")
	once.box.Close()
	if size := layersSize(b.box.policy.Layers); size > 1<<20 {
		t.Errorf("after a program with one command: %d bytes", size)
	}
	b.check("ls "+mod, "cache\nm\n")
	base, now := filepath.Dir(b.box.policy.Layers), time.Now()
	for name, age := range map[string]time.Duration{"old": 31 * 24 * time.Hour, "new": 29 * 24 * time.Hour} {
		dir := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Join(dir, "1/gomodcache/upper/d"), 0o755); err != nil {
			t.Fatal(err)
		}
		os.Chmod(filepath.Join(dir, "1/gomodcache/upper/d"), 0o555)
		os.Chtimes(dir, now.Add(-age), now.Add(-age))
	}
	os.Chtimes(b.box.policy.Layers, now.AddDate(-1, 0, 0), now.AddDate(-1, 0, 0)) // in use
	removeUnused(base, now)
	entries := must(os.ReadDir(base))
	if len(entries) != 2 || entries[0].Name() != "new" {
		t.Errorf("%v", entries)
	}
}

// TestLayersOf: worktrees of a repository are one project, and another repository at the same path is another one.
func TestLayersOf(t *testing.T) {
	need(t, "git")
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v %s", args, err, out)
		}
	}
	at := func(name string) string { return LayersOf("/layers", filepath.Join(dir, name)) }
	git("init", "-q", "r")
	git("-C", "r", "commit", "-q", "--allow-empty", "-m", "x")
	git("-C", "r", "worktree", "add", "-q", "../w")
	os.MkdirAll(filepath.Join(dir, "r/sub"), 0o755)
	os.MkdirAll(filepath.Join(dir, "plain"), 0o755)
	os.MkdirAll(filepath.Join(dir, "liar"), 0o755)
	os.WriteFile(filepath.Join(dir, "liar/.git"), []byte("gitdir: "+dir+"/r/.git/worktrees/w\n"), 0o644)
	if at("r") != at("w") || at("r") != at("r/sub") {
		t.Error("a worktree is another project")
	}
	if at("r") == at("plain") || at("r") == at("liar") || at("plain") == at("liar") {
		t.Error("two projects are one")
	}
	before := at("r")
	os.Rename(filepath.Join(dir, "r"), filepath.Join(dir, "r0"))
	git("init", "-q", "r")
	if birth(dir) != "" && before == at("r") {
		t.Error("another repository at the path is the same project")
	}
}
