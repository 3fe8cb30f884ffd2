package servers_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/mcp"
)

// TestGivenServers: a host adds an MCP server that runs in its own process.
func TestGivenServers(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "calc", Version: "1"}, nil)
	type in struct{ A, B int }
	add := func(_ context.Context, _ *sdk.CallToolRequest, x in) (*sdk.CallToolResult, any, error) {
		return nil, map[string]int{"sum": x.A + x.B}, nil
	}
	sdk.AddTool(server, &sdk.Tool{Name: "add"}, add)
	m := llmtest.New(llmtest.Answer{Calls: []llmtest.Call{{Name: "mcp__calc__add",
		Input: map[string]any{"A": 2, "B": 40}}}}, llmtest.Answer{Text: "done"})
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" }, Model: m,
		NoSettings: true,
		Values:     map[string]any{"permissions.allow": []string{"mcp__calc"}, "sandbox.mode": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Host: engine.Host{Servers: []mcp.Server{
		enginetest.Server(t, "calc", server)}}})
	if err != nil {
		t.Fatal(err)
	}
	// The first request may be sent before the server has answered, so connect first.
	s.MCP().Connect(t.Context())
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

// TestResourcesOfBoth: with configured servers and servers of the host, the tools for resources are listed once and
// reach both.
func TestResourcesOfBoth(t *testing.T) {
	t.Parallel()
	server := func(name string) *sdk.Server {
		x := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
		x.AddResource(&sdk.Resource{Name: "note", URI: "note://" + name},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "note://" + name, Text: "text of " + name}}},
					nil
			})
		return x
	}
	configured := server("configured")
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return configured },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	m := llmtest.New(llmtest.Answer{Calls: []llmtest.Call{
		{Name: "read_mcp_resource", Input: map[string]any{"server": "configured", "uri": "note://configured"}},
		{Name: "read_mcp_resource", Input: map[string]any{"server": "host", "uri": "note://host"}},
		{Name: "list_mcp_resources", Input: map[string]any{}},
	}}, llmtest.Answer{Text: "done"})
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" }, Model: m,
		NoSettings: true,
		Values: map[string]any{"permissions.allow": []string{"mcp__configured", "mcp__host"}, "sandbox.mode": "off",
			"mcpServers": map[string]any{"configured": map[string]any{"type": "http", "url": web.URL}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Host: engine.Host{Servers: []mcp.Server{
		enginetest.Server(t, "host", server("host"))}}})
	if err != nil {
		t.Fatal(err)
	}
	s.MCP().Connect(t.Context())
	if st := s.Status().Servers; len(st) != 2 || st[0].State != mcp.Connected || st[1].State != mcp.Connected {
		t.Fatalf("%+v", st)
	}
	for _, err := range s.Run(t.Context(), agent.Typed("read")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := m.Requests()
	if len(r) != 2 {
		t.Fatalf("%d requests", len(r))
	}
	names := map[string]int{}
	for _, d := range r[0].Tools {
		names[d.Name]++
	}
	if names["read_mcp_resource"] != 1 || names["list_mcp_resources"] != 1 {
		t.Errorf("tools %v", names)
	}
	text := ""
	for _, x := range r[1].Messages {
		for _, p := range x.Parts {
			if p.Result != nil {
				text += llm.TextOf(p.Result.Parts) + "\n"
			}
		}
	}
	for _, want := range []string{"text of configured", "text of host"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the results: %s", want, text)
		}
	}
	if strings.Count(text, "note://") < 2 {
		t.Errorf("the list: %s", text)
	}
}

// TestFailureOnce: a server that fails repeatedly is reported once.
func TestFailureOnce(t *testing.T) {
	t.Parallel()
	tries := make(chan struct{}, 100)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusInternalServerError)
		select {
		case tries <- struct{}{}:
		default:
		}
	}))
	defer web.Close()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" },
		Model: llmtest.New(), NoSettings: true,
		Values: map[string]any{"mcpServers": map[string]any{"bad": map[string]any{"type": "http", "url": web.URL}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.MCP().Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 { // more attempts after the first
		for len(tries) > 0 {
			<-tries
		}
		e.MCP().Retry("bad")
		select {
		case <-tries:
		case <-t.Context().Done():
			t.Fatal("the connection was not tried again")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var st engine.Status
	for st = range s.Watch(ctx) {
		if st.Servers[0].State == mcp.Failed {
			break
		}
	}
	n := 0
	for _, p := range st.Problems {
		if strings.Contains(p.Message, "MCP server bad is not connected") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d reports: %v", n, st.Problems)
	}
}

// requestTime is a model that calls f while it handles a request, before its answer begins.
type requestTime struct {
	*llmtest.Script
	f func()
}

func (m requestTime) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		m.f()
		m.Script.Stream(ctx, req)(yield)
	}
}

// TestServersAfterRequest: servers start when the first request was sent, not before.
func TestServersAfterRequest(t *testing.T) {
	t.Parallel()
	opened := make(chan struct{})
	var s *engine.Session
	var state mcp.ServerState
	m := requestTime{llmtest.New(llmtest.Answer{Text: "done"}), func() { state = s.MCP().List()[0].State }}
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" }, Model: m,
		NoSettings: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err = e.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Host: engine.Host{Servers: []mcp.Server{{
		Name: "late", Open: func(context.Context) (mcp.Conn, error) {
			close(opened)
			return nil, errors.New("no connection")
		},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Run(t.Context(), agent.Typed("go")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if state != mcp.Waiting {
		t.Errorf("before the request was sent, the server was %s", state)
	}
	select {
	case <-opened:
	case <-time.After(time.Minute):
		t.Error("the server was not started")
	}
}

// TestServerMissingProgram: a server whose program does not exist, or whose address is not used, has failed, and is
// reported, before the turn ends: the shortest run shows it.
func TestServerMissingProgram(t *testing.T) {
	t.Parallel()
	m := llmtest.New(llmtest.Use("mcp__gone__echo", map[string]any{"text": "hi"}),
		llmtest.Answer{Want: []string{"The MCP server gone is not connected \\(failed\\), so none of its tools can be called: " +
			"cannot run no-such-program"}, Text: "done"})
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" }, Model: m,
		NoSettings: true, Values: map[string]any{"mcpServers": map[string]any{
			"gone":  map[string]any{"command": "no-such-program"},
			"moved": map[string]any{"command": filepath.Join(t.TempDir(), "server")},
			"unset": map[string]any{"command": "sh", "args": []string{"${NO_SUCH_VARIABLE}"}},
			"plain": map[string]any{"url": "http://mcp.example/"},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true})
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	for ev, err := range s.Run(t.Context(), agent.Typed("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.End == nil {
			continue
		}
		ended = true
		var found []string
		for _, p := range s.Status().Problems {
			found = append(found, p.Message)
		}
		all := strings.Join(found, "\n")
		for _, want := range []string{"gone is not connected: cannot run no-such-program: not found on PATH", "moved is not",
			"unset is not connected: the environment variable NO_SUCH_VARIABLE",
			"plain is not connected: http://mcp.example/: http is for this machine only"} {
			if strings.Count(all, want) != 1 {
				t.Fatalf("%q is not reported once:\n%s", want, all)
			}
		}
	}
	if !ended {
		t.Error("the turn did not end")
	}
}

// TestWaitForServers: a model whose first request comes before a server's tools are known can wait for
// them, so that even a run whose only turn needs the server can use it.
func TestWaitForServers(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "calc", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "look"}, func(context.Context, *sdk.CallToolRequest,
		struct{}) (*sdk.CallToolResult,
		any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "looked"}}}, nil, nil
	})
	m := llmtest.New(llmtest.Use("wait_for_mcp_servers", map[string]any{}),
		llmtest.Use("mcp__calc__look", map[string]any{}),
		llmtest.Answer{Text: "done"})
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" }, Model: m,
		NoSettings: true, Values: map[string]any{"permissions.allow": []string{"mcp__calc"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Host: engine.Host{Servers: []mcp.Server{
		enginetest.Server(t, "calc", server),
		{Name: "broken", Open: func(context.Context) (mcp.Conn, error) { return nil, errors.New("no connection") }},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, err := range s.Run(t.Context(), agent.Typed("look")) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(m.Requests()) == 3 {
			m.Answers = append(m.Answers, llmtest.Answer{Text: "again"})
		}
	}
	r := m.Requests()
	if len(r) != 4 {
		t.Fatalf("%d requests", len(r))
	}
	offers := func(r *llm.Request, name string) bool {
		return slices.ContainsFunc(r.Tools, func(x llm.ToolSpec) bool { return x.Name == name })
	}
	for i, x := range r {
		if !offers(x, "wait_for_mcp_servers") || !offers(x, "tool_search") || offers(x, "mcp__calc__look") ||
			len(x.Tools) != len(r[0].Tools) {
			t.Errorf("request %d has %v", i, x.Tools)
		}
	}
	results := func(r *llm.Request) (text string) {
		for _, x := range r.Messages {
			for _, p := range x.Parts {
				if p.Result != nil {
					text += llm.TextOf(p.Result.Parts) + "\n"
				}
			}
		}
		return text
	}
	if text := results(r[2]); !strings.Contains(text, "calc: 1 tool\nbroken: failed: no connection\nlooked") {
		t.Errorf("the results are %q", text)
	}
}
