package engine

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/engine/project/config"
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

// TestManagedServers: a server of the managed settings has its name for itself, whoever else defines one that has the
// same name to models; a name of the user's is not the project's.
func TestManagedServers(t *testing.T) {
	dir, home, managed := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(managed, "settings.json"), `{"mcpServers": {"the_db": {"command": "managed"}}}`)
	write(filepath.Join(home, "settings.json"), `{"mcpServers": {"the db": {"command": "user"},
		"mine": {"command": "user"}}}`)
	write(filepath.Join(dir, ".mcp.json"), `{"mcpServers": {"the_db": {"command": "project"},
		"mine": {"command": "project"}, "theirs": {"command": "project"}}}`)
	for _, strict := range []bool{false, true} {
		p, err := Load(t.Context(), Options{Dir: dir, Trust: true, StrictMCP: strict,
			Env:       func(string) string { return "" },
			MCPConfig: []string{`{"the.db": {"command": "flag"}, "given": {"command": "flag"}}`}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if p.config, err = config.Load(config.Options{Managed: []string{managed}, ConfigHome: home, Dir: dir,
			Root: dir}); err != nil {
			t.Fatal(err)
		}
		servers, problems := p.Servers()
		var got []string
		for _, s := range servers {
			got = append(got, s.Name+" "+s.Command)
		}
		want, left := "the_db managed, given flag, mine user, theirs project", 4
		if strict {
			want, left = "the_db managed, given flag", 1
		}
		if all := strings.Join(got, ", "); all != want || len(problems) != left {
			t.Errorf("strict %v: %s; %v", strict, all, problems)
		}
	}
}
