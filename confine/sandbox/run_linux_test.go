//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestOrdinaryUser runs the tests of this package again as nobody if they run as root.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the tests already run as an ordinary user; not tested as root")
	}
	if testing.Short() {
		t.Skip("not tested: it runs most tests once more")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	os.Chmod(filepath.Dir(root), 0o755)
	mine := filepath.Join(root, "sandbox.test")
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, data, 0o755); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, "nobody")
	const nobody = 65534
	if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(mine, "-test.v",
		"-test.run=^(TestClosed|TestNewProtectedNames|TestOpen|TestTree|TestNetwork|TestPartial|TestReport|TestMemory|"+
			"TestGit|TestTwo|TestLeft|TestBare|TestHome|TestLimits|TestProcesses|TestBetween|TestMoved|TestStart|TestChanges|TestNothing|"+
			"TestCache|TestOther)",
		// What is found after a command, and counted in a cache, is the same for every user.
		"-test.skip=^(TestBareRepositoryMoved|TestBareRepositoryInProject|TestCacheNpmOutside|TestCacheModuleHalfRemoved|"+
			"TestCacheOwnLimits|TestCacheLimits|TestChangesBetweenCommands|TestMoved.*|TestOpenGitNames)$")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "USER=nobody", "KNACK_SANDBOX_TEST_NOBODY=1", "GOCACHE=",
		"GOMODCACHE=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "NOT TESTED") {
			t.Logf("as nobody: %s", line)
		}
	}
	if err != nil || !bytes.Contains(out, []byte("\nPASS")) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

// TestClosedSockets tries to connect to servers outside the sandbox.
func TestClosedSockets(t *testing.T) {
	b := newFixture(t).complete()
	listen := func(network, address string) {
		t.Helper()
		l, err := net.Listen(network, address)
		if err != nil && address == "[::1]:0" {
			t.Log("not tested: no IPv6:", err)
			return
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
				t.Errorf("connected to %s %s", network, address)
			}
		}()
		to := l.Addr().String()
		if network == "unix" && !filepath.IsAbs(to) && to[0] != '@' {
			to, _ = filepath.Abs(to)
		}
		if got := b.call(network + " to " + to); !strings.HasPrefix(got, "refused") {
			t.Errorf("%s: %s", l.Addr(), got)
		}
	}
	os.Mkdir(filepath.Join(b.dir, "d"), 0o777)
	// Short names: a socket address has at most 107 bytes.
	t.Chdir(b.home)
	listen("unix", "agent.sock")
	t.Chdir(b.dir)
	listen("unix", "docker.sock")
	listen("unix", "d/s")
	dir, err := os.MkdirTemp("/tmp", "tmux")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listen("unix", dir+"/default")
	if os.Geteuid() == 0 {
		listen("unix", fmt.Sprintf("/run/knack-%d.sock", os.Getpid()))
		listen("unix", fmt.Sprintf("/var/lib/knack-%d.sock", os.Getpid()))
	}
	listen("unix", fmt.Sprintf("@knack-test-%d", os.Getpid()))
	listen("tcp", "127.0.0.1:0")
	listen("tcp", "[::1]:0")
}

// TestClosedProcesses looks for the environment and the processes of others.
func TestClosedProcesses(t *testing.T) {
	t.Setenv("MY_API_TOKEN", "SECRET-TOKEN")
	t.Setenv("SSH_AUTH_SOCK", "/tmp/SECRET")
	t.Setenv("ALLOWED_ONE", "yes")
	b := newFixture(t, func(p *Policy, _ *system) { p.Env = []string{"ALLOWED_*"} }).complete()
	out, _ := b.run(`env; cat /proc/*/environ; cat /proc/*/cmdline | tr '\0' ' '; ls -d /proc/[0-9]* | wc -l`)
	if strings.Contains(out, "SECRET") || !strings.Contains(out, "ALLOWED_ONE=yes") {
		t.Errorf("environment: %s", out)
	}
	if strings.Contains(out, "test.run") || strings.Contains(out, "test.timeout") {
		t.Errorf("a process from outside is visible: %s", out)
	}
	out, _ = b.run(fmt.Sprintf("kill -9 %d; kill -9 1; kill -STOP 1; kill -9 -1 2>/dev/null; echo alive $$", os.Getpid()))
	if !strings.Contains(out, "alive") {
		t.Errorf("killed: %s", out)
	}
	if out, _ = b.run("echo $$"); strings.TrimSpace(out) == "1" {
		t.Error("the shell is process 1")
	}
	var env bytes.Buffer
	b.local.Run(context.Background(), workspace.Command{Line: "echo $MINE $PATH",
		Env: []string{"MINE=given", "PATH=.:rel:" + b.dir + "/bin:/usr/bin:/bin"}, Output: &env})
	if got := strings.TrimSpace(env.String()); got != "given /usr/bin:/bin" {
		t.Errorf("the command's own environment: %q", got)
	}
}

// alive counts the processes whose command line contains a word.
func alive(word string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if data, _ := os.ReadFile(f); bytes.Contains(data, []byte(word)) {
			n++
		}
	}
	return n
}

func gone(t *testing.T, word string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		if alive(word) == 0 {
			return
		}
	}
	t.Errorf("%s is still alive", word)
}

// A canceller cancels when something is written to it.
type canceller context.CancelFunc

func (c canceller) Write(b []byte) (int, error) { c(); return len(b), nil }

// TestTree: all processes of a command end with it, however it ends.
func TestTree(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap, landlock} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			contained, confine := false, b.local.Confine
			b.local.Confine = func(cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
				ended, err := confine(cmd, c)
				contained = c.Contained
				return ended, err
			}
			// Ended normally, with orphans that left group and session.
			word := strconv.Itoa(7000000 + os.Getpid())
			b.run(fmt.Sprintf("sleep %s & (setsid sleep %s &) ; (env -i setsid setsid /bin/sleep %s & ) ; sleep 0.1", word, word,
				word))
			gone(t, word)
			if contained != (backend != landlock) {
				t.Errorf("Contained is %t", contained)
			}
			// Cancelled.
			word += "1"
			ctx, cancel := context.WithCancel(context.Background())
			_, err := b.local.Run(ctx, workspace.Command{Line: fmt.Sprintf("(env -i setsid /bin/sleep %s &); echo started; "+
				"sleep %s", word, word), Output: canceller(cancel)})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			gone(t, word)
			// Signals and exit codes are the command's.
			if _, exit := b.run("kill -TERM $$"); exit.Code != 143 || exit.Signal == "" {
				t.Errorf("signal: %+v", exit)
			}
			if _, exit := b.run("exit 7"); exit.Code != 7 || exit.Signal != "" {
				t.Errorf("code: %+v", exit)
			}
			if out, _ := b.run("kill -TERM 0; echo not reached"); strings.Contains(out, "not") {
				t.Errorf("signal to the group: %s", out)
			}
		})
	}
}

// TestTreeParentKilled kills the program that started a command.
func TestTreeParentKilled(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("KNACK_SANDBOX_TEST_PARENT") != "" {
		newFixture(t).complete().run("sleep " + os.Getenv("KNACK_SANDBOX_TEST_PARENT"))
		return
	}
	word := strconv.Itoa(8000000 + os.Getpid())
	cmd := exec.Command(exe, "-test.run=^TestTreeParentKilled$")
	cmd.Env = append(os.Environ(), "KNACK_SANDBOX_TEST_PARENT="+word, "TMPDIR="+t.TempDir()) // it cannot clean up
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if alive(word) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if alive(word) == 0 {
		cmd.Process.Kill()
		cmd.Wait()
		t.Skip("not tested: the command did not start (no sandbox on this system?)")
	}
	cmd.Process.Kill()
	cmd.Wait()
	gone(t, word)
}

// TestOpen runs commands that must work. Found by attack: under a rule for one ordinary file, a command put a link in
// its place, through which the next one wrote .git/config and read .env.
func TestOpen(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			var lines []string
			var want string
			for _, c := range []struct{ line, want string }{
				{"cat main.txt ~/other/file .env.example", "textreadableNAME="},
				{"echo x > new && mkdir d && mv new d/n && ln d/n l && ln -s l s && cat s && rm -r d l s", "x\n"},
				{"echo t > /tmp/a && cat /tmp/a $TMPDIR/a && mktemp > /dev/null && echo v > /var/tmp/b && cat /var/tmp/b",
					"t\nt\nv\n"},
				{"seq 3 | sort -r | head -1; cat <(echo sub); cat <<< here", "3\nsub\nhere\n"},
				{"(sleep 0.05; echo late) & wait; echo done", "late\ndone\n"},
				{"echo x > /dev/null; head -c 1 /dev/urandom | wc -c; test -e /dev/stdin && echo ok", "1\nok\n"},
				{"timeout 0.05 sleep 5; echo $?", "124\n"},
				{"mkfifo p; (echo through > p &) ; cat p; rm p", "through\n"},
				{"id -u; cd sub && pwd | sed s,.*/,,", fmt.Sprintf("%d\nsub\n", os.Getuid())},
				{"echo $HOME; cat ~/.config/knack/settings", b.home + "\nours"},
				{"echo x > sub/f && mv sub/f . && mv f sub/f && rm sub/f && echo moved", "moved\n"},
			} {
				lines = append(lines, c.line)
				want += c.want
			}
			if out, exit := b.run("(" + strings.Join(lines, "\n) && (") + "\n)"); out != want || exit.Code != 0 || len(exit.Refused) > 0 {
				t.Errorf("%q (exit %d, refused %q), want %q", out, exit.Code, exit.Refused, want)
			}
			// /tmp is private to the command and removed after it.
			if out, _ := b.run("cat /tmp/a"); !strings.Contains(out, "No such file") {
				t.Errorf("/tmp is kept: %s", out)
			}
			// Allowed for one command: an existing path, a missing one, a secret.
			file, fresh, dir := filepath.Join(b.home, "other/file"), filepath.Join(b.home, "fresh"),
				filepath.Join(b.home, "freshdir")
			out, exit := b.allowed("echo x > ~/other/file; echo y > ~/fresh; mkdir -p ~/freshdir; echo z > ~/freshdir/in; echo q > .git/config; "+
				"cat ~/.ssh/config; cat ~/.ssh/id_ed25519; cat .env",
				workspace.Allowance{
					Write: []string{file, fresh, dir + "/", filepath.Join(b.dir, ".git/config"), filepath.Join(b.home, "unused")},
					Read:  []string{filepath.Join(b.home, ".ssh/config"), filepath.Join(b.dir, ".env")},
				})
			if !strings.HasPrefix(out, "Host x") || strings.Count(out, "SECRET") != 1 || !strings.HasSuffix(out, "SECRET") {
				t.Errorf("allowed: %q %q", out, exit.Refused)
			}
			for path, want := range map[string]string{file: "x\n", fresh: "y\n", dir + "/in": "z\n",
				b.dir + "/.git/config": "q\n"} {
				if data, _ := os.ReadFile(path); string(data) != want {
					t.Errorf("%s: %q", path, data)
				}
			}
			if _, err := os.Lstat(filepath.Join(b.home, "unused")); err == nil {
				t.Error("a placeholder was left behind")
			}
			// A link that replaces an allowed path gives no access.
			b.run("ln -s ~/other/file trap; ln -s ~/.netrc bait")
			trap, bait := filepath.Join(b.dir, "trap"), filepath.Join(b.dir, "bait")
			out, _ = b.allowed("echo evil > trap; cat bait", workspace.Allowance{Write: []string{trap}, Read: []string{bait}})
			if data, _ := os.ReadFile(file); string(data) != "x\n" || strings.Contains(out, "SECRET") {
				t.Errorf("through a link: %q %s", data, out)
			}
			b.run("ln -s .git/config trap2; ln -s .env bait2")
			trap, bait = trap+"2", bait+"2"
			out, _ = b.allowed("echo evil >> trap2; echo evil >> .git/config; cat bait2 .env",
				workspace.Allowance{Write: []string{trap}, Read: []string{bait}})
			if data, _ := os.ReadFile(filepath.Join(b.dir, ".git/config")); string(data) != "q\n" ||
				strings.Contains(out, "SECRET") {
				t.Errorf("through a link in the working directory: %q %s", data, out)
			}
			// It gives access if the decision named both.
			out, _ = b.allowed("echo both > trap2; cat bait2", workspace.Allowance{
				Write: []string{trap, filepath.Join(b.dir, ".git/config")}, Read: []string{bait, filepath.Join(b.dir, ".env")}})
			if data, _ := os.ReadFile(filepath.Join(b.dir, ".git/config")); string(data) != "both\n" ||
				!strings.Contains(out, "SECRET") {
				t.Errorf("through a link that the decision named: %q %s", data, out)
			}
			// Nor does one that the command itself puts in its place.
			_, exit = b.allowed("rm main.txt && ln -s .vscode main.txt && mkdir .vscode && echo evil > .vscode/tasks.json",
				workspace.Allowance{Write: []string{filepath.Join(b.dir, "main.txt")}})
			if _, err := os.Lstat(filepath.Join(b.dir, ".vscode/tasks.json")); err == nil || exit.Code != 0 {
				t.Errorf("a protected directory under the name of an opened file stayed: %+v", exit)
			}
			if _, exit := b.run("echo again > ~/other/file"); exit.Code == 0 {
				t.Error("what was allowed for one command remained accessible")
			}
		})
	}
}

// need skips the test if a program is not installed.
func need(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("not tested: %s is not installed", name)
	}
}

func TestOpenProjects(t *testing.T) {
	for name, c := range map[string]struct {
		program string
		files   map[string]string
		line    string
	}{
		"go": {"go", map[string]string{
			"go.mod": "module example.com/p\n\ngo 1.26\n",
			"p.go": "package p\n\nimport \"net\"\n\nfunc Local() (net.Listener, error) { return net.Listen(\"tcp\", " +
				"\"127.0.0.1:0\") }\n", "p_test.go": "package p\n\nimport (\"net\"; \"os\"; \"testing\")\n\nfunc Test(t " +
				"*testing.T) { l, err := Local(); if err != nil { t.Fatal(err) }; c, err := net.Dial(\"tcp\", " +
				"l.Addr().String()); if err != nil { t.Fatal(err) }; c.Close(); if err := os.WriteFile(t.TempDir()+\"/x\", nil, " +
				"0o600); err != nil { t.Fatal(err) } }\n", "cmd/main.go": "package main\n\nfunc main() { println(1) }\n",
		}, "go vet ./... && go test ./... && go build -o out ./cmd && ./out"},
		"node": {"node", map[string]string{
			"package.json": `{"name":"p","version":"1.0.0","scripts":{"test":"node --test"}}`,
			"a.test.js": "const t=require('node:test'),h=require('http'),cp=require('child_process');t('x',(_,d)=>{const " +
				"s=h.createServer((q,r)=>r.end('ok')).listen(0,'127.0.0.1',()=>h.get(s.address()," +
				"r=>{r.resume();s.close();if(cp.execSync('echo hi').toString()!=='hi\\n')throw 1;d()}))})\n",
		}, "if command -v npm >/dev/null; then npm test; else node --test; fi"},
		"python": {"python3", map[string]string{
			"t.py": "import unittest, multiprocessing, socket, tempfile, subprocess\ndef f(x): return x*x\nclass " +
				"T(unittest.TestCase):\n    def test(self):\n        with multiprocessing.Pool(2) as p: " +
				"self.assertEqual(p.map(f, [2]), [4])\n        s = socket.create_server(('127.0.0.1', 0)); " +
				"socket.create_connection(s.getsockname())\n        tempfile.NamedTemporaryFile().write(b'x'); " +
				"subprocess.check_call(['true'])\n",
		}, "python3 -m unittest t && python3 -m venv --without-pip v && v/bin/python -c 'print(1)'"},
	} {
		t.Run(name, func(t *testing.T) {
			need(t, c.program)
			// The caches are the machine's, because a cold build takes a minute.
			var cache, mod string
			if name == "go" {
				if os.Getenv("GOCACHE") == "" && os.Getenv("KNACK_SANDBOX_TEST_NOBODY") != "" {
					t.Skip("not tested: the user nobody has no build cache; a cold build takes minutes")
				}
				env, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
				if err != nil {
					t.Skipf("not tested: go env: %v", err)
				}
				f := strings.Fields(string(env))
				cache, mod = f[0], f[1]
				if err := os.MkdirAll(cache, 0o755); err != nil || exec.Command("test", "-w", cache).Run() != nil {
					t.Skip("not tested: the build cache is not writable")
				}
			}
			if name == "python" {
				t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
			}
			b := newFixture(t, func(p *Policy, _ *system) {
				if cache != "" {
					p.Caches = []Cache{{Variable: "GOCACHE", Path: cache}, {Variable: "GOMODCACHE", Path: mod}}
					p.Layers = t.TempDir()
					t.Cleanup(func() { removeTree(p.Layers) })
				}
			}).complete()
			if cache != "" {
				t.Setenv("GOCACHE", cache)
				t.Setenv("GOMODCACHE", mod)
				t.Setenv("GOFLAGS", "-buildvcs=false")
				t.Setenv("GOTOOLCHAIN", "local")
				local, err := workspace.NewLocal(b.dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { local.Close() })
				local.Confine = b.box.Confine
				b.local = local
			}
			for path, text := range c.files {
				path = filepath.Join(b.dir, path)
				os.MkdirAll(filepath.Dir(path), 0o755)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.Command(c.program, "--version").CombinedOutput(); err != nil && name != "go" {
				t.Skipf("not tested: %s does not run on this system: %v %s", c.program, err, out)
			}
			if out, exit := b.run(c.line); exit.Code != 0 {
				t.Errorf("%s\n%+v", out, exit)
			}
		})
	}
}

// TestNetwork: a server of the machine can be reached only if it was allowed.
func TestNetwork(t *testing.T) {
	b := newFixture(t).complete()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		io.WriteString(w, "answer to "+r.Host)
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	if got := b.call("tcp to " + address); !strings.HasPrefix(got, "refused") {
		t.Errorf("not allowed: %s", got)
	}
	if got := b.call("tcp to "+address, address); got != "done" {
		t.Errorf("the machine's loopback, allowed: %s", got)
	}
	need(t, "curl")
	if out, _ := b.allowed("curl -sS http://"+address, workspace.Allowance{Hosts: []string{strings.Replace(address,
		"127.0.0.1", "localhost", 1)}}); out != "answer to "+address {
		t.Errorf("allowed: %q", out)
	}
	for _, c := range []struct{ line, host string }{
		{"curl -sS http://example.com/x", "example.com"}, {"curl -sS https://example.com:444/", "example.com"},
		{"curl -sS --noproxy '*' http://example.net/", "example.net"},
		{"curl -sS -x http://127.0.0.1:3128 http://169.254.169.254/latest", "169.254.169.254"},
	} {
		out, exit := b.run(c.line)
		if all := strings.Join(exit.Refused, "\n"); !strings.Contains(all, "host "+c.host) ||
			!strings.Contains(all, "the setting sandbox.allowHosts") {
			t.Errorf("%s: not reported: %q %s", c.line, exit.Refused, out)
		}
	}
	if out, exit := b.run("python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9 " +
		"10; do sleep 0.2; curl -sSf http://127.0.0.1:8123/ >/dev/null && echo up && break; done"); !strings.Contains(out,
		"up") {
		t.Logf("its own loopback with python: %s %+v (also tested in TestOpenProjects)", out, exit)
	}
}

// TestWholeNetwork allows the whole network: the machine's own services can be reached, and only with a policy that
// allows it, whatever ran before.
func TestWholeNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, backend := range []string{namespaces, goLauncher, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t, func(p *Policy, _ *system) { p.Network = true }).on(backend)
			none := []workspace.Limit{{NoNetwork: true}}
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			for i, limits := range [][]workspace.Limit{nil, none, nil, none} {
				var out strings.Builder
				if _, err := b.local.Run(context.Background(), workspace.Command{Args: []string{exe}, Limits: limits,
					Env: []string{callEnv + "=tcp to " + l.Addr().String()}, Output: &out,
					Allow: workspace.Allowance{Read: []string{exe}}}); err != nil {
					t.Fatal(err)
				}
				if done := strings.Contains(out.String(), "done"); done != (limits == nil) {
					t.Errorf("command %d, limits %v: %q", i, limits, out.String())
				}
			}
		})
	}
}

// TestClosedReports: each refusal is reported with its path and its rule.
func TestClosedReports(t *testing.T) {
	b := newFixture(t).complete()
	type row struct{ line, want string }
	rows := []row{
		{"echo x > ~/new", "Edit(/" + b.home + "/new)"},
		{"touch ~/other/new", "Edit(/" + b.home + "/other/new)"},
		{"cp main.txt ~/other/", "Edit(/" + b.home + "/other/main.txt)"},
		{"rm ~/other/file", "Edit(/" + b.home + "/other/file)"},
		{"cd sub && touch ../.mcp.json", "Edit(/" + b.dir + "/.mcp.json)"},
		{"cat ~/.ssh/config", "Read(/" + b.home + "/.ssh/config)"},
		{"cat .env", "Read(/" + b.dir + "/.env)"},
		{"mv .git g", "Edit(/" + b.dir + "/.git)"},
	}
	for _, r := range []row{
		{"node -e \"require('fs').writeFileSync(process.env.HOME+'/n','')\"", "Edit(/" + b.home + "/n)"},
		{"python3 -c 'import os; open(os.environ[\"HOME\"]+\"/p\",\"w\")'", "Edit(/" + b.home + "/p)"},
	} {
		if exec.Command(strings.Fields(r.line)[0], "--version").Run() != nil {
			t.Logf("not tested: %s", r.line)
			continue
		}
		rows = append(rows, r)
	}
	var lines []string
	for _, r := range rows {
		lines = append(lines, r.line)
	}
	all, exit := b.run(together(lines))
	for _, r := range rows {
		if said := strings.Join(exit.Refused, "\n"); !strings.Contains(said, r.want) {
			t.Errorf("%s: %q does not name %s\n%s", r.line, exit.Refused, r.want, all)
		}
	}
	lines = []string{"cat missing", "ls missing/x", "false", "echo Permission denied", "cat main.txt/x"}
	if _, exit := b.run(together(lines)); len(exit.Refused) > 0 {
		t.Errorf("%q", exit.Refused)
	}
}

// TestPartial runs without namespaces.
func TestPartial(t *testing.T) {
	lacking := func(_ *Policy, s *system) { s.without = []string{namespaces, bubblewrap} }
	b := newFixture(t, lacking)
	r := b.box.Report()
	if r.Level == None {
		t.Skipf("not tested: %s", r.Notice())
	}
	if r.Level != Partial || len(r.Open) == 0 || len(r.Missing) == 0 {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"partial", ".git/hooks", "namespaces"} {
		if !strings.Contains(r.Notice(), want) {
			t.Errorf("the notice does not name %s: %s", want, r.Notice())
		}
	}
	before := b.contents()
	for _, line := range []string{"echo x > ~/new", "rm ~/other/file", "cat ~/.ssh/id_ed25519", "cat ~/.netrc",
		"curl -sS http://192.0.2.1",
		fmt.Sprintf("cat /proc/%d/environ", os.Getpid()), fmt.Sprintf("kill -0 %d && echo KILLED", os.Getpid())} {
		out, _ := b.run(line)
		if strings.Contains(out, "SECRET") || strings.Contains(out, "HOME=") || strings.Contains(out, "KILLED") ||
			b.contents() != before {
			t.Errorf("%s: %s", line, out)
		}
	}
	if out, exit := b.run("echo x > f; cat f main.txt; rm f; echo t > $TMPDIR/t; cat $TMPDIR/t"); out != "x\ntextt\n" ||
		exit.Code != 0 {
		t.Errorf("%s %+v", out, exit)
	}
	b = newFixture(t, lacking)
	b.box.mode = Require
	_, err := b.local.Run(context.Background(), workspace.Command{Line: "true"})
	if !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "partial") {
		t.Errorf("require: %v", err)
	}
	b = newFixture(t, func(_ *Policy, s *system) { s.without = []string{namespaces, bubblewrap, landlock} })
	if r := b.box.Report(); r.Level != None || r.Notice() == "" {
		t.Errorf("nothing: %+v", r)
	}
	if out, _ := b.run("echo runs"); out != "runs\n" {
		t.Errorf("auto without a sandbox: %s", out)
	}
	b.box.mode = Require
	if _, err := b.local.Run(context.Background(), workspace.Command{Line: "true"}); !errors.Is(err, ErrIncomplete) {
		t.Errorf("require: %v", err)
	}
}

// manyProcesses starts up to 400 processes that wait, and prints how many started.
func manyProcesses() error {
	var started []int
	defer func() {
		for _, pid := range started {
			unix.Kill(pid, unix.SIGKILL)
		}
	}()
	for len(started) < 400 {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			break
		}
		if pid == 0 { // here nothing of Go works
			for {
				syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
		started = append(started, int(pid))
	}
	fmt.Println(len(started))
	return nil
}

// TestMemory: the memory of a process and the number of processes are limited.
func TestMemory(t *testing.T) {
	b := newFixture(t, func(p *Policy, _ *system) { p.Memory = 64 << 20 }).complete()
	if out, exit := b.run("head -c 100m /dev/zero | tail -c 100m | wc -c"); strings.Contains(out, "104857600") {
		t.Errorf("memory is not limited: %s %+v", out, exit)
	}
	if out, _ := b.run("ulimit -c"); out != "0\n" {
		t.Errorf("core files: %s", out)
	}
	// Not with that little memory, in which no program in Go starts.
	b = newFixture(t, func(p *Policy, _ *system) { p.Processes = 320 }).complete()
	out, _, _ := strings.Cut(b.call("processes"), "\n")
	if n, err := strconv.Atoi(out); err != nil || n < 100 || n > 330 {
		t.Errorf("processes are not limited: %s", out)
	}
}

// TestLimits runs commands with limits, which restrict what the policy and an answer allow, and allow nothing more.
func TestLimits(t *testing.T) {
	for _, backend := range []string{namespaces, goLauncher, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t, func(p *Policy, _ *system) { p.Hosts = []string{"example.com"} }).on(backend)
			gitProject(b)
			os.Mkdir(filepath.Join(b.dir, "out"), 0o755)
			under := func(line string, limits ...workspace.Limit) string {
				var out bytes.Buffer
				exit, err := b.local.Run(context.Background(), workspace.Command{
					Line: line, Output: &out, Limits: limits,
					Allow: workspace.Allowance{Write: []string{filepath.Join(b.home, "other/file")},
						Hosts: []string{"one.example.org"}},
				})
				if err != nil {
					t.Fatal(err)
				}
				return out.String() + strings.Join(exit.Refused, "\n")
			}
			try := `try() { echo x 2>/dev/null > "$1" && echo "$1"; }; cd ` + b.dir + `
try f; try out/f; try new/f; try report.md; try ~/other/file; try ~/new; try /tmp/f; try .git/f; ` +
				`try .git/modules/a/f; try .mcp.json; cat main.txt`
			at := func(names ...string) *workspace.Limit {
				l := &workspace.Limit{Write: []string{}}
				for _, n := range names {
					l.Write = append(l.Write, filepath.Join(b.dir, n))
				}
				return l
			}
			for _, c := range []struct {
				limits []workspace.Limit
				want   string
			}{
				{nil, "f out/f report.md ~/other/file /tmp/f .git/f .git/modules/a/f"},
				{[]workspace.Limit{*at()}, "/tmp/f"},
				{[]workspace.Limit{*at("out", "new", "report.md", ".mcp.json", "../../etc")}, "out/f new/f report.md /tmp/f"},
				{[]workspace.Limit{*at("out", "new"), *at("out/deeper", "new", "f")}, "new/f /tmp/f"},
				{[]workspace.Limit{*at("."), {NoNetwork: true}}, "f out/f report.md /tmp/f .git/f .git/modules/a/f"},
				{[]workspace.Limit{*at("..")}, "f out/f report.md ~/other/file /tmp/f .git/f .git/modules/a/f"},
			} {
				got := strings.ReplaceAll(under(try, c.limits...), b.home+"/", "~/")
				if want := strings.ReplaceAll(c.want, " ", "\n") + "\ntext"; got != want {
					t.Errorf("%+v: got\n%s\nwant\n%s", c.limits, got, want)
				}
				for _, name := range []string{"f", "out/f", "new", "report.md"} {
					os.RemoveAll(filepath.Join(b.dir, name))
				}
			}
			line := "for h in example.com one.example.org; do curl -sS -m 5 http://$h/ 2>&1 | head -c 100; done"
			if _, err := exec.LookPath("curl"); err != nil {
				t.Skip("not tested: curl is not installed")
			}
			if out := under(line, workspace.Limit{NoNetwork: true}); !strings.Contains(out, "host example.com:80 is blocked") ||
				!strings.Contains(out, "host one.example.org:80 is blocked") {
				t.Errorf("without network: %s", out)
			}
		})
	}
	t.Run("no sandbox", func(t *testing.T) {
		b := newFixture(t, func(_ *Policy, s *system) { s.without = []string{namespaces, bubblewrap, landlock} })
		if _, err := b.local.Run(context.Background(), workspace.Command{Line: "true",
			Limits: []workspace.Limit{{NoNetwork: true}}}); !errors.Is(err, workspace.ErrLimits) {
			t.Errorf("limits without a sandbox: %v", err)
		}
	})
}

// TestProbeOnce counts the launchers that are started: one for each command, and one more while it is not known that
// the launcher works.
func TestProbeOnce(t *testing.T) {
	b := newFixture(t).complete()
	p := b.box.policy
	p.State = filepath.Join(b.home, ".local/state/knack/sandbox")
	for i, want := range []int{2, 1, 1} {
		box := newBox(t, p)
		b.local.Confine = box.Confine
		starts := 0
		box.system.started = func() { starts++ }
		// The command has no children, and lists the processes: the launcher and itself.
		out, exit := b.run("for p in /proc/[0-9]*; do echo ${p#/proc/}; done")
		if starts != want || out != "1\n2\n" && len(strings.Fields(out)) != 2 || exit.Code != 0 {
			t.Errorf("program %d: %d launchers, want %d; processes inside: %q", i, starts, want, out)
		}
	}
	// A wrong remembered result does not let a command run without a sandbox.
	box := newBox(t, p)
	box.Report()
	if box.system.remembered == "" {
		t.Fatal("not remembered")
	}
	b.local.Confine = func(cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
		ended, err := box.Confine(cmd, c)
		// As if the machine refused it: a user without a number gets no namespace.
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return ended, err
	}
	if out, exit := b.run("echo ran"); out != "" || exit.Code == 0 || len(exit.Refused) == 0 {
		t.Errorf("ran without a sandbox: %q %+v", out, exit)
	}
	if _, err := os.Lstat(box.system.remembered); err == nil {
		t.Error("still remembered")
	}
}

// TestProcesses counts the processes of one command: the command, process 1 of its namespace and, with a stub, the
// process outside that watches them. Afterwards there is none.
func TestProcesses(t *testing.T) {
	for _, noStub := range []bool{false, true} {
		b := newFixture(t, func(_ *Policy, s *system) { s.noStub = noStub }).complete()
		if b.box.Report().Backend != namespaces {
			t.Skip("not tested: another backend has its own processes")
		}
		eventually(t, "no launcher of an earlier test is left", func() bool { return len(descendants(os.Getpid())) == 0 })
		want := 3
		if noStub {
			want = 2
		}
		for range 2 {
			r, w := io.Pipe()
			go w.Write([]byte("x"))
			running, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := b.local.Run(context.Background(), workspace.Command{Args: []string{"cat"}, Stdin: r,
					Output: writer(func() { close(running) })})
				ended <- err
			}()
			select {
			case <-running:
			case err := <-ended:
				t.Fatalf("the command has ended: %v", err)
			}
			eventually(t, fmt.Sprintf("there are %d processes", want),
				func() bool { return len(descendants(os.Getpid())) == want })
			w.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			eventually(t, "no process remains", func() bool { return len(descendants(os.Getpid())) == 0 })
		}
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// A writer calls a function when something is written.
type writer func()

func (w writer) Write(b []byte) (int, error) { w(); return len(b), nil }

// descendants returns the running processes that a process started, directly or not.
func descendants(of int) (found []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		// "pid (name) state ppid …"
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(of) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		found = append(append(found, pid), descendants(pid)...)
	}
	return found
}

// TestBetweenCommands changes what a plan depends on between two commands.
func TestBetweenCommands(t *testing.T) {
	b := newFixture(t).on(namespaces)
	// Two commands at the same time have separate namespaces. Each waits until both run.
	out := make(chan string)
	for i := range 2 {
		go func() {
			var s strings.Builder
			b.local.Run(context.Background(), workspace.Command{Output: &s, Line: fmt.Sprintf("readlink /proc/self/ns/net; "+
				">runs%d; until [ -e runs0 ] && [ -e runs1 ]; do sleep 0.01; done", i)})
			out <- s.String()
		}()
	}
	if x, y := <-out, <-out; x == y || x == "" || y == "" {
		t.Errorf("two commands have one network namespace: %q, %q", x, y)
	}
	// A new repository, a new worktree, and new protected names.
	for path, text := range map[string]string{
		"new/.git/HEAD": "ref: refs/heads/main\n", "new/.git/config": "kept", "new/.git/hooks/old": "kept",
		".git/worktrees/w/commondir": "../..\n", ".git/worktrees/w/config.worktree": "kept", ".husky/pre-commit": "kept",
	} {
		path = filepath.Join(b.dir, path)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A new secret.
	if _, exit := b.run("cat ~/.pgpass"); exit.Code == 0 {
		t.Error("the secret already exists")
	}
	if err := os.WriteFile(filepath.Join(b.home, ".pgpass"), []byte("SECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, exit := b.run("cat ~/.pgpass"); exit.Code == 0 {
		t.Errorf("a new secret is read: %q", out)
	}
	before := b.contents()
	b.run("for f in new/.git/config new/.git/hooks/old new/.git/hooks/new .git/worktrees/w/config.worktree " +
		".git/worktrees/w/commondir .husky/pre-commit .husky/new; do echo x > $f; done; mv .husky h; rm -rf new/.git/hooks")
	if now := b.contents(); now != before {
		t.Errorf("changed\n%s\nto\n%s", before, now)
	}
}

// TestConnected: the program learns that a command has reached a host, whatever made the connection, and that another
// has not. Found by attack: a page that came by a script or an interpreter was no reason to ask before a note.
func TestConnected(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash on this machine")
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "page") }))
	defer page.Close()
	b := newFixture(t).on(namespaces)
	for _, c := range []struct {
		open bool
		want string
	}{{true, "127.0.0.1"}, {false, ""}} {
		var mu sync.Mutex
		reached := ""
		var out bytes.Buffer
		_, err := b.local.Run(t.Context(), workspace.Command{Output: &out,
			Line: "bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf \"GET " + page.URL + "/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n\" >&3; cat <&3'",
			Allow: workspace.Allowance{Reach: func(context.Context, workspace.Destination) error {
				if c.open {
					return nil
				}
				return errors.New("closed")
			}},
			Connected: func(host string) {
				mu.Lock()
				defer mu.Unlock()
				reached = host
			}})
		mu.Lock()
		if err != nil || reached != c.want || strings.HasSuffix(out.String(), "page") != c.open {
			t.Errorf("open %t: reached %q, %v\n%s", c.open, reached, err, &out)
		}
		mu.Unlock()
	}
}

// TestHomeAsWorkspace: Knack's own directories and the secrets in the workspace stay what they are for the next command,
// whatever directory above them a command renames. Found by attack: "mv .config x; mkdir -p .config/knack" replaced
// Knack's own settings and uncovered .config/gcloud.
func TestHomeAsWorkspace(t *testing.T) {
	for _, backend := range []string{namespaces, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t)
			p, err := Default(b.home)
			if err != nil {
				t.Fatal(err)
			}
			os.MkdirAll(filepath.Join(b.home, "notes/sub"), 0o755)
			os.WriteFile(filepath.Join(b.home, "notes/sub/private"), []byte("SECRET"), 0o600)
			p.Secrets = append(p.Secrets, filepath.Join(b.home, "notes/sub/private"), filepath.Join(b.home, ".config/gh/hosts"))
			os.Mkdir(filepath.Join(b.home, ".config/gh"), 0o755)
			os.WriteFile(filepath.Join(b.home, ".config/gh/hosts"), []byte("SECRET"), 0o600)
			b.box, b.dir = newBox(t, p), b.home
			if b.local, err = workspace.NewLocal(b.home); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.local.Close() })
			b.local.Confine = b.box.Confine
			b.on(backend)
			b.run("mv notes n2; mv notes/sub n3; mv .config c2; mkdir -p .config/knack; echo evil > .config/knack/settings; " +
				"mkdir -p .local/share/knack; echo evil > .local/share/knack/trust")
			out, _ := b.run("cat n2/sub/private n3/private notes/sub/private c2/gh/hosts .config/gh/hosts")
			if strings.Contains(out, "SECRET") {
				t.Errorf("read: %s", out)
			}
			if data, _ := os.ReadFile(filepath.Join(b.home, ".config/knack/settings")); string(data) != "ours" {
				t.Errorf("settings: %q", data)
			}
			if _, err := os.Lstat(filepath.Join(b.home, ".local/share/knack/trust")); err == nil {
				t.Error("a directory of Knack that was missing was written")
			}
		})
	}
}

// TestLinkedConfig: a command that replaces a link on the way to Knack's own settings replaces it until it ends. Found
// by attack: "rm .config; mkdir -p .config/knack" replaced the settings for good where ~/.config is a link.
func TestLinkedConfig(t *testing.T) {
	for _, backend := range []string{namespaces, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t)
			config := filepath.Join(b.home, ".config")
			for _, err := range []error{os.Mkdir(b.home+"/dot", 0o755), os.Rename(config, b.home+"/dot/config"),
				os.Symlink("dots/config", config), os.Symlink("dot", b.home+"/dots")} {
				if err != nil {
					t.Fatal(err)
				}
			}
			p, err := Default(b.home)
			if err != nil {
				t.Fatal(err)
			}
			b.box, b.dir = newBox(t, p), b.home
			if b.local, err = workspace.NewLocal(b.home); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.local.Close() })
			b.local.Confine = b.box.Confine
			b.on(backend)
			for _, line := range []string{
				"rm .config; mkdir -p .config/knack; echo evil > .config/knack/settings",
				"rm dots; mkdir -p dots/config/knack; echo evil > dots/config/knack/settings",
				"mkdir -p evil/knack; echo evil > evil/knack/settings; ln -sfn evil .config",
				"rm .config dots", "mv dot d2; echo evil > dot/config/knack/settings",
			} {
				b.run(line)
				if data, _ := os.ReadFile(config + "/knack/settings"); string(data) != "ours" {
					t.Errorf("after %s: %q", line, data)
				}
			}
		})
	}
}

// TestProtect: names that become protected between two commands are protected for the next one, also while another one
// runs, and files that were there are not moved aside. Found by attack: git's configuration was read once in a session,
// so that a script could set core.hooksPath and then write that hook.
func TestProtect(t *testing.T) {
	b := newFixture(t).complete()
	hooks := filepath.Join(b.dir, "tools/hooks")
	os.MkdirAll(hooks, 0o755)
	os.WriteFile(filepath.Join(hooks, "pre-commit"), []byte("ok"), 0o755)
	if out, exit := b.run("echo ok > tools/hooks/pre-commit"); exit.Code != 0 {
		t.Fatal(out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() {
		defer close(done)
		b.local.Run(ctx, workspace.Command{Line: "touch started; sleep 100"})
	}()
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(filepath.Join(b.dir, "started")); err == nil {
			break
		}
	}
	b.box.Protect([]string{filepath.ToSlash(hooks)})
	if out, exit := b.run("echo evil > tools/hooks/pre-commit"); exit.Code == 0 {
		t.Errorf("written: %s", out)
	}
	cancel()
	<-done
	if out, exit := b.run("cat tools/hooks/pre-commit; echo evil > tools/hooks/new"); !strings.HasPrefix(out, "ok\n") ||
		exit.Code == 0 {
		t.Errorf("%s %+v", out, exit)
	}
	b.box.Protect(nil)
	if out, exit := b.run("echo mine > tools/hooks/pre-commit"); exit.Code != 0 {
		t.Errorf("no longer protected: %s", out)
	}
}

// TestReplacedDirectories: a link that a command puts in the place of a directory of the workspace, which lies in
// another one, opens nothing to the next command. Found by attack: with a link to the home directory there, the next
// command wrote all of it.
func TestReplacedDirectories(t *testing.T) {
	for _, backend := range []string{namespaces, bubblewrap, landlock} {
		t.Run(backend, func(t *testing.T) {
			b := newFixture(t).on(backend)
			outer := filepath.Join(b.home, "outer")
			for _, dir := range []string{"inner", "root", "write"} {
				os.MkdirAll(filepath.Join(outer, dir), 0o755)
			}
			at := func(dir string) *fixture {
				p, err := Default(filepath.Join(outer, dir))
				if err != nil {
					t.Fatal(err)
				}
				p.Roots = []string{outer, filepath.Join(outer, "root")}
				p.Write = []string{filepath.Join(outer, "write")}
				c := &fixture{t: t, home: b.home, dir: p.Dir, box: newBox(t, p)}
				if c.local, err = workspace.NewLocal(p.Dir); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.local.Close() })
				c.local.Confine = c.box.Confine
				return c.on(backend)
			}
			c := at("inner")
			if out, exit := c.run("cd ..; for d in root write; do echo a > $d/a; mv $d old-$d; ln -s ~/other $d; done"); exit.Code != 0 {
				t.Fatal(out)
			}
			if out, exit := c.run("echo x > ~/other/evil"); exit.Code == 0 {
				t.Errorf("through a link in the place of a directory: %s", out)
			}
			if out, exit := c.run("cd /; mv ~/outer/inner ~/outer/old && ln -s ~/other ~/outer/inner"); exit.Code != 0 {
				t.Fatal(out)
			}
			for _, c := range []*fixture{c, at("inner")} { // also in a new session there
				out, err := "", error(nil)
				_, err = c.local.Run(t.Context(), workspace.Command{Line: "echo x > ~/other/evil"})
				if err == nil || !strings.Contains(err.Error(), "was replaced by a link") {
					t.Errorf("with a link as the working directory: %s %v", out, err)
				}
			}
			if _, err := os.Lstat(filepath.Join(b.home, "other/evil")); err == nil {
				t.Error("a file outside the workspace was written")
			}
		})
	}
}
