package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/project/config"
	"github.com/knack-agent/knack/llm/llmtest"
	"github.com/knack-agent/knack/mcp"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/sandbox"
)

// webServer is an MCP server with one tool, which calls run.
func webServer(t *testing.T, name string, run func() string) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "look"}, func(context.Context, *sdk.CallToolRequest,
		struct{}) (*sdk.CallToolResult,
		any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: run()}}}, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	return web.URL
}

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
		reports.Go(func() { e.reportSandbox(r) })
	}
	reports.Wait()
	e.reportSandbox(sandbox.Report{Level: sandbox.Complete})
	if n := e.Notices(); len(n) != 1 || n[0].Message != "the sandbox is partial (no namespaces): all network is off" {
		t.Errorf("%v", n)
	}
}

// TestMCPCommand: /mcp shows the servers of the session, and those of agents while they run: states, tools, logins.
func TestMCPCommand(t *testing.T) {
	t.Parallel()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "log in", http.StatusUnauthorized)
	}))
	defer locked.Close()
	var s *Session
	during := make(chan Reply, 1)
	own := webServer(t, "own", func() string {
		r, err := mcpServers(t.Context(), s, "")
		if err != nil {
			return err.Error()
		}
		during <- r
		return "looked"
	})
	home := t.TempDir()
	env := Env(func(name string) string {
		return map[string]string{"HOME": home, "USERPROFILE": home, "KNACK_KEYRING": "file"}[name]
	})
	m := llmtest.New(
		llmtest.Answer{When: "^go$", Calls: []llmtest.Call{{Name: "Agent", Input: map[string]any{"agent": "worker",
			"prompt": "look around"}}}},
		llmtest.Answer{When: "^look around$", Calls: []llmtest.Call{{Name: "mcp__own__look", Input: map[string]any{}}}},
		llmtest.Answer{Text: "looked"}, llmtest.Answer{Text: "done"},
	)
	e, err := Open(t.Context(), Options{Dir: t.TempDir(), Env: env, Model: m, NoSettings: true,
		Agents: []agent.Definition{{Name: "worker", Description: "Works", Origin: knack.User,
			MCPServers: json.RawMessage(fmt.Sprintf(`{"own":{"type":"http","url":%q}}`, own))}},
		Values: map[string]any{"permissions.allow": []string{"mcp__own"}, "sandbox.mode": "off",
			"mcpServers": map[string]any{"locked": map[string]any{"type": "http", "url": locked.URL}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if s, err = e.Start(t.Context(), nil, SessionOptions{Forget: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.ConnectServers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := e.Notices(); len(n) != 1 || n[0].Message != "MCP server locked needs a login" ||
		n[0].Hint != "/mcp login locked, or knack mcp login locked" {
		t.Errorf("%+v", n)
	}
	for _, err := range s.Run(t.Context(), agent.Typed("go")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var r Reply
	select {
	case r = <-during:
	default:
		t.Fatal("the agent did not call its server")
	}
	var table strings.Builder
	r.Table.Write(&table)
	for _, want := range []string{"locked", "needs login", "/mcp login locked", "own", "connected",
		"user, agent worker"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	data, err := json.Marshal(r.Value)
	if err != nil || !strings.Contains(string(data), `"tools":["mcp__own__look"]`) ||
		!strings.Contains(string(data), `"agent":"worker"`) || !strings.Contains(string(data), `"state":"needs login"`) {
		t.Errorf("%s %v", data, err)
	}
	after, err := mcpServers(t.Context(), s, "")
	if data, _ := json.Marshal(after.Value); err != nil || strings.Contains(string(data), "worker") {
		t.Errorf("after the agent ended: %s %v", data, err)
	}
	// A stored token counts as a login; naming one server shows its tools.
	key := "mcp " + locked.URL
	tokens := serverTokens{env}
	if err := tokens.Set(key, "https://issuer.example"); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Set(key+" https://issuer.example",
		`{"token":{"access_token":"secret"},"issuer":"https://issuer.example"}`); err != nil {
		t.Fatal(err)
	}
	one, err := mcpServers(t.Context(), s, "locked")
	if data, _ := json.Marshal(one.Value); err != nil || !strings.Contains(string(data), `"logged_in":true`) ||
		!strings.HasPrefix(one.Text, "locked: needs login (http, defined by ") || strings.Contains(string(data), "secret") {
		t.Errorf("%s %s %v", one.Text, data, err)
	}
	if _, err := mcpServers(t.Context(), s, "nowhere"); err == nil ||
		!strings.Contains(err.Error(), `no MCP server "nowhere"`) {
		t.Error(err)
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
		p, err := Load(t.Context(), Options{Dir: dir, Trust: true, StrictMCP: strict, Env: func(string) string { return "" },
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
