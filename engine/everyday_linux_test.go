package engine_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// Where the sessions of TestEveryday run. In those after the first, /tmp is the machine's, so a directory stands for it.
const (
	sandboxed = iota
	contained // behind a command prefix, as docker exec is
	plainly   // as a shell does
	places
)

// An everyday is a session of testdata/everyday: what it needs, its calls with what they print, and how many questions
// it asks in each place.
type everyday struct {
	needs   []string
	closed  bool // no rule opens the registry: who runs a command is asked about it
	asks    [places]int
	calls   []llmtest.Answer
	prints  []string // the whole of what a command prints; of another call, a part
	command []bool   // the call is a command
	files   []string
}

// readEveryday reads a session. Its lines are "need PROGRAM", "closed", "asks N N N", "$ COMMAND" or "@TOOL INPUT", each followed
// by what it prints. Without a sandbox, temp stands for /tmp.
func readEveryday(t *testing.T, file, registry, temp string) (e everyday) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer("$REGISTRY", registry, "/tmp/", temp+"/")
	archive := txtar.Parse([]byte(replace.Replace(string(data))))
	for line := range strings.Lines(string(archive.Comment)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case word == "need":
			e.needs = append(e.needs, strings.Fields(rest)...)
		case word == "closed":
			e.closed = true
		case word == "asks":
			if n, err := fmt.Sscan(rest, &e.asks[0], &e.asks[1], &e.asks[2]); n != places {
				t.Fatal(file, err)
			}
		case word == "$":
			e.calls = append(e.calls, llmtest.Use("bash", map[string]any{"command": rest}))
		case strings.HasPrefix(word, "@"):
			e.calls = append(e.calls, calls(word[1:], rest))
		case len(e.calls) > 0:
			e.prints[len(e.prints)-1] += line
			continue
		default:
			continue // what the session is about
		}
		if len(e.prints) < len(e.calls) {
			e.prints, e.command = append(e.prints, ""), append(e.command, word == "$")
		}
	}
	for _, f := range archive.Files {
		e.files = append(e.files, f.Name, string(f.Data))
	}
	return e
}

// TestEveryday: approved, ordinary work ends in the sandbox and behind a command prefix as it does in a shell, and asks
// no more there. Every second session runs in the sandbox, every tenth in the other places, and all where KNACK_EVERYDAY
// is set. Packages come from a registry on the loopback interface, to which a rule opens commands the way; sessions that
// are closed have none.
func TestEveryday(t *testing.T) {
	registry := everydayRegistry(t)
	files, err := filepath.Glob("testdata/everyday/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatal(len(files), err)
	}
	bin := t.TempDir()
	const docker = "#!/bin/sh\nshift 3\nexec \"$@\"\n" // docker exec -i box
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(docker), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	// rustup looks for the toolchain in the home directory.
	if sysroot, err := exec.Command("rustc", "--print", "sysroot").Output(); err == nil {
		t.Setenv("PATH", filepath.Join(strings.TrimSpace(string(sysroot)), "bin")+":"+os.Getenv("PATH"))
	}
	for at, name := range [places]string{"sandbox", "container", "plain"} {
		for i, file := range files {
			if (i%2 != 1 || at != sandboxed && i%10 != 3) && os.Getenv("KNACK_EVERYDAY") == "" {
				continue
			}
			t.Run(name+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				runEveryday(t, at, file, registry)
			})
		}
	}
}

// skipWithout skips a test if a program that the session needs is missing. Rustup's cargo may be there alone.
func (e everyday) skipWithout(t *testing.T) {
	t.Helper()
	for _, program := range e.needs {
		path, err := exec.LookPath(program)
		if err != nil || program == "cargo" && exec.Command(path, "-V").Run() != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

var everydayGit = []string{"~/.gitconfig", "[user]\nname = A\nemail = a@example.com\n[init]\ndefaultBranch = main\n" +
	"[protocol \"file\"]\nallow = always\n"}

func runEveryday(t *testing.T, at int, file, registry string) {
	temp := "/tmp"
	if at != sandboxed {
		temp = t.TempDir()
	}
	day := readEveryday(t, file, registry, temp)
	day.skipWithout(t)
	p := newFixture(t, append(day.files, everydayGit...)...)
	o := p.options(llmtest.New(append(day.calls, llmtest.Reply("done"))...))
	if !day.closed {
		o.Values["permissions.allow"] = []string{"Network(" + strings.TrimPrefix(registry, "http://") + ")"}
	}
	o.Values["sandbox.mode"] = "off"
	switch at {
	case sandboxed:
		o.Values["sandbox.mode"] = "require"
		policy, err := sandbox.Default(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		box := sandbox.New(policy, sandbox.Auto)
		defer box.Close()
		if r := box.Report(); r.Level != sandbox.Complete {
			t.Skipf("the sandbox is %s here", r.Level)
		}
	case contained:
		o.Workspace = "docker://box" + p.dir
	}
	var asked atomic.Int32
	var titles []string
	_, s := p.open(t, o, personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		asked.Add(1)
		titles = append(titles, q.Title+": "+q.Text)
		for _, option := range q.Options {
			if option.Lasts == gate.Once {
				return engine.Answer{Option: option.ID}, nil
			}
		}
		return engine.Answer{Declined: true}, nil
	}), engine.SessionOptions{Wait: true})
	run(t, s, "go")
	n := 0
	for _, entry := range s.Log().Branch() {
		if entry.Result == nil || n == len(day.calls) {
			continue
		}
		got, want := strings.TrimSpace(llm.TextOf(entry.Result.Parts)), strings.TrimSpace(day.prints[n])
		got = strings.TrimSpace(strings.TrimPrefix(got, "(no output)"))
		if day.command[n] && got != want || !strings.Contains(got, want) {
			t.Errorf("call %d: %q, want %q", n+1, got, want)
		}
		n++
	}
	if int(asked.Load()) != day.asks[at] || n != len(day.calls) {
		t.Errorf("%d questions, want %d, of %d results of %d\n%s", asked.Load(), day.asks[at], n, len(day.calls),
			strings.Join(titles, "\n"))
	}
}

// everydayRegistry serves packages as the registries of npm, Python, Go and Rust do, and a git repository.
func everydayRegistry(t *testing.T) (url string) {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "--bare", "r.git"}, {"clone", "-q", "r.git", "w"},
		{"-C", "w", "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"},
		{"-C", "w", "push", "-q", "origin", "HEAD:refs/heads/main"},
		{"-C", "r.git", "symbolic-ref", "HEAD", "refs/heads/main"}, {"-C", "r.git", "update-server-info"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	tgz := tarGzip(t, "package/package.json", `{"name":"left-pad","version":"1.3.0","main":"index.js"}`,
		"package/index.js", "module.exports = s => '  ' + s\n")
	wheel := zipOf(t, "hello.py", "def hi(): return 'hi from a wheel'\n",
		"hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
		"hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hello-1.0.dist-info/RECORD", "")
	module := zipOf(t, "example.com/hello@v1.0.0/go.mod", "module example.com/hello\n",
		"example.com/hello@v1.0.0/hello.go", "package hello\n\nconst Text = \"hi from a module\"\n")
	crate := tarGzip(t, "hello-1.0.0/Cargo.toml", "[package]\nname = \"hello\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
		"hello-1.0.0/src/main.rs", "fn main() { println!(\"hi from a crate\") }\n")
	served := map[string][]byte{
		"/cargo/he/ll/hello": fmt.Appendf(nil, `{"name":"hello","vers":"1.0.0","deps":[],"cksum":"%x","features":{},`+
			`"yanked":false}`, sha256.Sum256(crate)), "/cargo/dl/hello/1.0.0/download": crate,
		"/npm/left-pad.tgz": tgz, "/simple/hello/": []byte(`<a href="/hello-1.0-py3-none-any.whl">hello</a>`),
		"/hello-1.0-py3-none-any.whl": wheel, "/go/example.com/hello/@v/list": []byte("v1.0.0\n"),
		"/go/example.com/hello/@v/v1.0.0.info": []byte(`{"Version":"v1.0.0"}`),
		"/go/example.com/hello/@v/v1.0.0.mod":  []byte("module example.com/hello\n"),
		"/go/example.com/hello/@v/v1.0.0.zip":  module, "/page": []byte("the page\n"),
	}
	git := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := served[r.URL.Path]
		switch {
		case r.URL.Path == "/npm/left-pad":
			fmt.Fprintf(w, `{"name":"left-pad","dist-tags":{"latest":"1.3.0"},"versions":{"1.3.0":{"name":"left-pad",`+
				`"version":"1.3.0","dist":{"tarball":"http://%s/npm/left-pad.tgz"}}}}`, r.Host)
		case r.URL.Path == "/cargo/config.json":
			fmt.Fprintf(w, `{"dl":"http://%s/cargo/dl"}`, r.Host)
		case strings.HasPrefix(r.URL.Path, "/r.git/"):
			git.ServeHTTP(w, r)
		case ok:
			if strings.HasSuffix(r.URL.Path, "/") {
				w.Header().Set("Content-Type", "text/html")
			}
			w.Write(body)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func tarGzip(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for f := range slices.Chunk(files, 2) {
		err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))})
		if err == nil {
			_, err = w.Write([]byte(f[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for f := range slices.Chunk(files, 2) {
		part, err := w.Create(f[0])
		if err == nil {
			_, err = part.Write([]byte(f[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
