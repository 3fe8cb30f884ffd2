package servers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/mcp"
)

// TestRememberedSkills: the first request of the second run has the skills of a server that has not answered yet.
func TestRememberedSkills(t *testing.T) {
	t.Parallel()
	caps := &sdk.ServerCapabilities{}
	caps.AddExtension(mcp.SkillsExtension, map[string]any{})
	server := sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, &sdk.ServerOptions{Capabilities: caps})
	sdk.AddReceivingCustomMethod(server, mcp.MethodListSkills, func(context.Context, *sdk.ServerSession,
		*mcp.ListSkillsParams) (*mcp.ListSkillsResult, error) {
		const uri = "skill://x/greet/SKILL.md"
		return &mcp.ListSkillsResult{Skills: []mcp.ListedSkill{{URI: uri,
			Frontmatter: json.RawMessage(`{"name":"greet","description":"Greets people politely"}`),
			Resources: mcp.SkillFiles{Files: []mcp.SkillFile{{URI: uri, Size: 1,
				Digest: "sha256:" + strings.Repeat("0", 64)}}}}}}, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})
	hangs, end := false, make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs {
			<-end
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	defer close(end)
	state := t.TempDir()
	open := func() (*engine.Engine, *engine.Session, *llmtest.Script) {
		m := llmtest.New(llmtest.Answer{Text: "done"})
		e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Model: m, NoSettings: true,
			Env: func(name string) string { return map[string]string{"HOME": state}[name] },
			Values: map[string]any{"sandbox.mode": "off",
				"mcpServers": map[string]any{"srv": map[string]any{"type": "http", "url": web.URL}}}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true})
		if err != nil {
			t.Fatal(err)
		}
		return e, s, m
	}
	e, s, _ := open()
	s.MCP().Connect(t.Context())
	if s.Catalog().Skill("srv:greet") == nil {
		t.Errorf("not connected: %+v", s.MCP().List())
	}
	e.Close()
	hangs = true
	e, s, m := open()
	defer e.Close()
	for _, err := range s.Run(t.Context(), agent.Typed("go")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if first := fmt.Sprintf("%+v", m.Requests()[0]); !strings.Contains(first, "srv:greet") ||
		!strings.Contains(first, "Greets people politely") {
		t.Error("the first request does not have the skill")
	}
}
