//go:build linux && (amd64 || arm64)

package sandbox

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// proxied adds a module with one package, which imports nothing, to the GOPROXY in the directory proxy of the home.
func (b *fixture) proxied(path string) {
	b.t.Helper()
	const version = "v1.0.0"
	at := filepath.Join("proxy", path, "@v")
	b.write(filepath.Join(at, version+".info"), `{"Version": "`+version+`"}`)
	b.write(filepath.Join(at, version+".mod"), "module "+path+"\n\ngo 1.21\n")
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, text := range map[string]string{"go.mod": "module " + path + "\n\ngo 1.21\n", "m.go": "package m\n\nconst N = 1\n"} {
		f, err := w.Create(path + "@" + version + "/" + name)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.write(filepath.Join(at, version+".zip"), archive.String())
}

// module writes a module that imports another one.
func (b *fixture) module(dir, imports string) {
	b.t.Helper()
	b.write(dir+"/go.mod", "module example.com/user\n\ngo 1.21\n\nrequire "+imports+" v1.0.0\n")
	b.write(dir+"/user.go", "package user\n\nimport m \""+imports+"\"\n\nconst N = m.N\n")
}

// TestCacheGoOutside builds in the sandbox while the user's own go fills and cleans the same caches. A module for which
// a command looked in vain is there for later ones as soon as the user has it.
func TestCacheGoOutside(t *testing.T) {
	need(t, "go")
	if os.Getenv("KNACK_SANDBOX_TEST_NOBODY") != "" {
		t.Skip("not tested: TestCacheOwn has what depends on the user")
	}
	b := withCache(t)
	b.write(".cache/go-build/README", "")
	b.box.policy.Caches = append(b.box.policy.Caches, Cache{Variable: "GOCACHE", Path: b.at(".cache/go-build")})
	b.layered()
	env := []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH"), "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GOSUMDB=off",
		"GOENV=off", "CGO_ENABLED=0", "GOPROXY=file://" + b.at("proxy")}
	outside := func(dir string, args ...string) error {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = b.at(dir), env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	t.Cleanup(func() { removeTree(b.at("go/pkg/mod")) })
	inside := func(dir, proxy string) string {
		out, exit := b.run("cd " + dir + " && export GOTOOLCHAIN=local GOFLAGS=-mod=mod GOSUMDB=off GOENV=off CGO_ENABLED=0 " +
			proxy + " && go build . 2>&1")
		if exit.Code == 0 {
			return ""
		}
		return out
	}
	const never, always = "GOPROXY=off", "GOPROXY=file://$HOME/proxy"
	b.proxied("example.com/always")
	b.module("project/always", "example.com/always")
	if out := inside("always", always); out != "" {
		t.Fatal(out)
	}
	for i := range 3 {
		path, late, own := fmt.Sprintf("example.com/late%d", i), fmt.Sprintf("late%d", i), fmt.Sprintf("own%d", i)
		b.module("project/"+late, path)
		b.module("project/"+own, "example.com/"+own)
		b.proxied("example.com/" + own)
		// An unreachable proxy lets go make directories and locks for the module, another one than "off".
		if out := inside(late, "GOPROXY=file:///nowhere"); out == "" {
			t.Error("a build without its module succeeded")
		}
		if out := inside(late, never); out == "" {
			t.Error("a build without its module succeeded")
		}
		b.proxied(path)
		b.write("elsewhere/go.mod", "module example.com/elsewhere\n\ngo 1.21\n")
		got := make(chan error, 1)
		go func() {
			got <- errors.Join(outside("elsewhere", "get", path+"@v1.0.0"), outside("elsewhere", "build", path))
		}()
		for _, dir := range []string{"always", own} {
			if out := inside(dir, always); out != "" {
				t.Errorf("while the user's go runs: %s", out)
			}
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if out := inside(late, never); out != "" {
			t.Errorf("the user has the module: %s", out)
		}
	}
	if err := outside("elsewhere", "clean", "-modcache"); err != nil {
		t.Fatal(err)
	}
	if out := inside("always", always); out != "" {
		t.Errorf("after go clean -modcache: %s", out)
	}
}

// TestCacheModuleHalfRemoved: while the user's go unpacks a module, one in the sandbox may remove a part of it and fail.
// Later commands see the whole module.
func TestCacheModuleHalfRemoved(t *testing.T) {
	b := withCache(t)
	const module = mod + "/example.com/a@v1.0.0"
	for _, name := range []string{"a.go", "sub/b.go", "sub/c.go"} {
		b.write("go/pkg/mod/example.com/a@v1.0.0/"+name, "theirs ")
	}
	b.layered()
	const whole = "cd " + module + "; ls . sub; cat sub/b.go"
	const list = ".:\na.go\nsub\n\nsub:\nb.go\nc.go\ntheirs "
	b.check(whole, list)
	b.check("cd "+module+"; rm sub/b.go; chmod 555 sub; ls; exit 1", "a.go\nsub\n")
	b.check(whole, list)
	b.check("cd "+module+"; chmod 755 sub; rm -r sub; ls", "a.go\n")
	b.check(whole, list)
	b.check("rm -r "+module+"; mkdir "+module+"; echo ours > "+module+"/x; ls "+module, "x\n") // unpacked anew: all its own
	b.check("ls "+module, "x\n")
	if b.read("go/pkg/mod/example.com/a@v1.0.0/sub/b.go") != "theirs " {
		t.Error("the user's cache was written")
	}
}

// npmStore stores a package in the order of npm: a temporary file, which is renamed to the name of its content, then
// a line that names it, which is appended to a file of the index.
const npmStore = `store() {
	mkdir -p tmp content/$1 index/$1 && echo "content of $1 $2" > tmp/$1$2 && mv tmp/$1$2 content/$1/$2 &&
		echo $1/$2 >> index/$1/$2
}
`

// TestCacheNpmOutside uses npm's cache in the sandbox while the user's own npm stores in it: what its index names is
// there, and all is there later.
func TestCacheNpmOutside(t *testing.T) {
	b := withCache(t)
	b.write(".npm/_cacache/tmp/x", "")
	b.box.policy.Caches = append(b.box.policy.Caches, Cache{Variable: "npm_config_cache", Path: b.at(".npm")})
	b.layered()
	const look = `for f in index/*/*; do
	while read name; do [ -s content/$name ] || echo "broken: $name"; done < $f
done
`
	const missing = "cd ~/.npm/_cacache; cat index/theirs9/3 content/theirs9/3 content/both/theirs 2>/dev/null"
	b.check(missing, "")
	began, stored := make(chan struct{}), make(chan error, 1)
	cmd := exec.Command("sh", "-ec", npmStore+`for i in 0 1 2 3 4 5 6 7 8 9; do for k in 0 1 2 3; do
	store theirs$i $k; [ $i$k != 00 ] || echo began
done; done; store both theirs; store both shared`)
	cmd.Dir, cmd.Stdout = b.at(".npm/_cacache"), writer(sync.OnceFunc(func() { close(began) }))
	go func() { stored <- cmd.Run() }()
	<-began
	for i := range 5 {
		b.check("cd ~/.npm/_cacache; "+npmStore+
			fmt.Sprintf("store ours%d 1; store both ours%[1]d; store both shared; ", i)+look, "")
		b.run(missing)
	}
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	b.check("cd ~/.npm/_cacache; "+look+"ls content/theirs*/* | wc -l; ls -d content/ours*; ls content/both | tr '\\n' ' '",
		"40\ncontent/ours0\ncontent/ours1\ncontent/ours2\ncontent/ours3\ncontent/ours4\n"+
			"ours0 ours1 ours2 ours3 ours4 shared theirs ")
	b.check(missing, "theirs9/3\ncontent of theirs9 3\ncontent of both theirs\n")
	if list := must(os.ReadDir(b.at(".npm/_cacache/content/both"))); len(list) != 2 {
		t.Errorf("the user's cache: %v", list)
	}
}

// TestCacheBackground has a command in the background that keeps a layer in use while other commands, the user and a
// second program use and change the cache, and while the layer is too large.
func TestCacheBackground(t *testing.T) {
	b := withCache(t)
	b.box.policy.LayerLimit = 1 << 20
	b.layered()
	r, w := io.Pipe()
	var out bytes.Buffer
	running, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		b.local.Run(context.Background(), workspace.Command{Stdin: r,
			Line: "cd " + mod + "/m; echo x > mine; exec 3< v.go; cat late other 2>/dev/null; echo ready; read x; " +
				"cat <&3; ls; cat other mine; rm mine; echo more > last; test -s ../big && echo big",
			Output: io.MultiWriter(&out, writer(sync.OnceFunc(func() { close(running) })))})
	}()
	<-running
	b.run("cd " + mod + "; echo ours > m/other; mv cache renamed; head -c 3000000 /dev/zero > big")
	b.write("go/pkg/mod/m/late", "late")
	b.write("go/pkg/mod/m/v.go", "changed")
	b.check("cd "+mod+"; cat m/late m/other; ls m renamed", "lateours\nm:\nlate\nmine\nother\nv.go\n\nrenamed:\ndownload\n")
	second := b.other(nil)
	second.check("cd "+mod+"; cat m/v.go m/late; ls . m", "changedlate.:\ncache\nm\n\nm:\nlate\nv.go\n")
	second.run("echo second > " + mod + "/m/other")
	// Both programs find the layers too large, and only the second one's is removed.
	for _, x := range []*fixture{b, second} {
		limits := &x.box.system.layers.limits
		limits.mu.Lock()
		limits.tooLarge = true
		limits.mu.Unlock()
	}
	b.check("cat "+mod+"/m/other", "ours\n")
	second.check("ls "+mod+"/m", "late\nv.go\n")
	w.Close()
	<-ended
	const want = "ready\nchanged" + "late\nmine\nother\nv.go\n" + "ours\nx\n" + "big\n"
	if out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
	b.box.Close() // too large
	b.check("ls "+mod+" "+mod+"/m", b.at("go/pkg/mod")+":\ncache\nm\n\n"+b.at("go/pkg/mod/m")+":\nlate\nv.go\n")
	if b.read("go/pkg/mod/m/v.go") != "changed" || b.read("go/pkg/mod/m/other") == "ours\n" {
		t.Error("the user's cache was written")
	}
}
