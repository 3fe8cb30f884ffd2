package engine_test

import (
	"context"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/llm/llmtest"
	"github.com/knack-agent/knack/mcp"
)

// TestGivenServers: a host gives a session a server of its own process.
func TestGivenServers(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "calc", Version: "1"}, nil)
	type in struct{ A, B int }
	sdk.AddTool(server, &sdk.Tool{Name: "add"}, func(_ context.Context, _ *sdk.CallToolRequest, x in) (*sdk.CallToolResult, any, error) {
		return nil, map[string]int{"sum": x.A + x.B}, nil
	})
	m := llmtest.New(llmtest.Answer{Calls: []llmtest.Call{{Name: "mcp__calc__add", Input: map[string]any{"A": 2, "B": 40}}}}, llmtest.Answer{Text: "done"})
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" }, Model: m, NoSettings: true,
		Values: map[string]any{"permissions.allow": []string{"mcp__calc"}, "sandbox.mode": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Given: engine.Given{Servers: []mcp.Server{{
		Name: "calc", Open: func(context.Context) (mcp.Conn, error) {
			a, b := mcp.Pipe()
			go server.Run(context.WithoutCancel(t.Context()), mcp.Transport(a))
			return b, nil
		},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	// The first request may be sent before the server has answered: connect first.
	s.ConnectServers(t.Context())
	if st := s.Status().Servers; len(st) != 1 || st[0].State != mcp.Connected {
		t.Fatalf("%+v", st)
	}
	for _, err := range s.Run(t.Context(), agent.Typed("add")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := m.Requests()
	if len(r) != 2 {
		t.Fatalf("%d requests", len(r))
	}
	text := ""
	for _, x := range r[1].Messages {
		for _, p := range x.Parts {
			if p.Result != nil {
				text += llm.TextOf(p.Result.Parts)
			}
		}
	}
	if !strings.Contains(text, "42") {
		t.Errorf("the result is %q", text)
	}
}
