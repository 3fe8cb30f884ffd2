package engine

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/run/mcp"
)

// TestPartialSandbox: a sandbox that is not complete is reported once, whether servers or commands start
// in it first.
func TestPartialSandbox(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Options{Dir: t.TempDir(), Env: func(string) string { return "" }, NoSettings: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := sandbox.Report{Level: sandbox.Partial, Missing: []string{"no namespaces"}, Open: []string{"all network is off"}}
	var reports sync.WaitGroup
	for range 20 {
		reports.Go(func() { e.notices.sandbox(r) })
	}
	reports.Wait()
	e.notices.sandbox(sandbox.Report{Level: sandbox.Complete})
	if n := e.Notices(); len(n) != 1 || n[0].Message != "the sandbox is partial (no namespaces): all network is off" {
		t.Errorf("%v", n)
	}
}

// TestBelowTemp: the directory in /tmp that contains a file of a user's server is visible, unless it contains more.
func TestBelowTemp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only the sandbox for Linux has its own /tmp")
	}
	p := &Project{dir: "/tmp/work/project", root: "/tmp/work", home: "/home/me"}
	for file, want := range map[string]string{
		"/tmp/server/dist/main.js":       "/tmp/server /tmp/server",
		"/tmp/main.py":                   "/tmp/main.py /tmp/main.py",
		"/tmp/work/server/dist/main.js":  "/tmp/work/server /tmp/work/server",
		"/tmp/work/project":              "",
		"/tmp":                           "",
		"/tmp/../etc/passwd":             "",
		"/var/tmp/server/main.js":        "/var/tmp/server /var/tmp/server",
		"/usr/bin/python3":               "",
		"tmp/main.py":                    "",
		"--config=/tmp/server/main.json": "",
	} {
		if got := strings.Join(p.belowTemp(mcp.Server{Origin: permission.User}, file), " "); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
		if got := p.belowTemp(mcp.Server{Origin: permission.Project}, file); len(got) > 0 {
			t.Errorf("%s of a project: %q", file, got)
		}
	}
}
