package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
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

// TestMCPCommand: /mcp shows the servers of the session, and those of agents while they run: states, tools, logins.
func TestMCPCommand(t *testing.T) {
	t.Parallel()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "log in", http.StatusUnauthorized)
	}))
	defer locked.Close()
	all := command.All("")
	mcpServers := all[slices.IndexFunc(all, func(c engine.Command) bool { return c.Name == "mcp" })].Run
	var s *engine.Session
	during := make(chan engine.Reply, 1)
	own := webServer(t, "own", func() string {
		r, err := mcpServers(t.Context(), s, "")
		if err != nil {
			return err.Error()
		}
		during <- r
		return "looked"
	})
	home := t.TempDir()
	env := engine.Env(func(name string) string {
		return map[string]string{"HOME": home, "USERPROFILE": home, "KNACK_KEYRING": "file"}[name]
	})
	m := llmtest.New(
		llmtest.Answer{When: "^go$", Calls: []llmtest.Call{{Name: "Agent", Input: map[string]any{"agent": "worker",
			"prompt": "look around"}}}},
		llmtest.Answer{When: "^look around$", Calls: []llmtest.Call{{Name: "mcp__own__look", Input: map[string]any{}}}},
		llmtest.Answer{Text: "looked"}, llmtest.Answer{Text: "done"},
	)
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: env, Model: m, NoSettings: true,
		Agents: []agent.Definition{{Name: "worker", Description: "Works", Origin: knack.User,
			MCPServers: json.RawMessage(fmt.Sprintf(`{"own":{"type":"http","url":%q}}`, own))}},
		Values: map[string]any{"permissions.allow": []string{"mcp__own"}, "sandbox.mode": "off",
			"mcpServers": map[string]any{"locked": map[string]any{"type": "http", "url": locked.URL}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if s, err = e.Start(t.Context(), nil, engine.SessionOptions{Forget: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.MCP().Connect(t.Context()); err != nil {
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
	var r engine.Reply
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
	type stored struct {
		Key string `json:"key"`
	}
	tokens, err := json.Marshal(map[string]stored{
		"mcp " + locked.URL: {"https://issuer.example"},
		"mcp " + locked.URL + " https://issuer.example": {
			`{"token":{"access_token":"secret"},"issuer":"https://issuer.example"}`},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := env.StateFile("mcp/tokens.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, tokens, 0o600); err != nil {
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
