package engine_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/openai"
	"github.com/knack-agent/knack/run/mcp"
)

// TestRefusedTools: a tool that the provider refuses, and one whose schema cannot be sent, are left out and reported with
// their server; the run goes on, and the refused one is not sent again.
func TestRefusedTools(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "docs", Version: "1"}, nil)
	none := func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	}
	for name, schema := range map[string]string{
		"good":     `{"type":"object","properties":{"a":{"type":"string"}}}`,
		"refused":  `{"type":"object","properties":{"a":{"type":"string"}}}`,
		"dangling": `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}`,
		"union":    `{"type":"object","anyOf":[{"required":["a"],"properties":{"a":{"type":"string"}}},{"required":["b"]}]}`,
	} {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(schema)}, none)
	}
	var sent []string
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		sent = append(sent, string(data))
		if strings.Contains(string(data), "mcp__docs__refused") {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"message":"Invalid schema for function 'mcp__docs__refused': it is not liked"}}`)
			return
		}
		io.WriteString(w, "data: "+`{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}`+
			"\n\ndata: [DONE]\n\n")
	}))
	defer provider.Close()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" },
		Model:      openai.Chat(llm.Endpoint{Name: "m", BaseURL: provider.URL, Info: llm.Info{ID: "test/m", Window: 100000}}),
		NoSettings: true, Values: map[string]any{"sandbox.mode": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Host: engine.Host{Servers: []mcp.Server{
		enginetest.Server(t, "docs", server)}}})
	if err != nil {
		t.Fatal(err)
	}
	s.MCP().Connect(t.Context())
	for range 2 {
		for _, err := range s.Run(t.Context(), agent.Typed("go")) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(sent) != 3 {
		t.Fatalf("%d requests", len(sent))
	}
	for i, request := range sent {
		for name, want := range map[string]bool{"good": true, "union": true, "dangling": false, "refused": i == 0} {
			if got := strings.Contains(request, `"mcp__docs__`+name+`"`); got != want {
				t.Errorf("request %d: %s is sent: %t", i, name, got)
			}
		}
	}
	told := map[string]int{}
	for _, x := range e.Notices() {
		if strings.Contains(x.Message, "left out") {
			told[x.Message+" | "+x.Hint]++
		}
	}
	for _, want := range []string{
		`MCP server docs: the tool mcp__docs__refused is left out: the provider refused its definition: test/m: ` +
			`Invalid schema for function 'mcp__docs__refused': it is not liked | knack mcp test docs`,
		`MCP server docs: the tool mcp__docs__dangling is left out: its input schema refers to "#/$defs/A", which it does ` +
			`not contain | knack mcp test docs`,
	} {
		if told[want] != 1 {
			t.Errorf("told %v, want %s", told, want)
		}
	}
}
