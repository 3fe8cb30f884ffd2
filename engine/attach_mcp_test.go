package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestAttachResource: @server:uri in the user's input adds the resource to the prompt; deny rules apply, and an
// unknown server leaves the text unchanged.
func TestAttachResource(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "docs", Version: "1"}, nil)
	for _, uri := range []string{"note://a/b", "https://docs.example/x?y=1"} {
		server.AddResource(&sdk.Resource{Name: "note", URI: uri},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, Text: "text of " + uri}}}, nil
			})
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close) // closed after the engines
	session := func(deny []string) (*engine.Session, *llmtest.Script) {
		m := llmtest.New(llmtest.Answer{Text: "read"})
		e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" }, Model: m,
			NoSettings: true, Values: map[string]any{"permissions.deny": append([]string{}, deny...), "sandbox.mode": "off",
				"mcpServers": map[string]any{"docs": map[string]any{"type": "http", "url": web.URL}}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true})
		if err != nil {
			t.Fatal(err)
		}
		return s, m
	}
	// The server need not be connected: typing its name connects it.
	s, m := session(nil)
	in, err := s.Attach(t.Context(),
		agent.Typed("compare @docs:note://a/b, @docs:https://docs.example/x?y=1 and @other:note://a/b"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Run(t.Context(), in) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var text string
	for _, x := range m.Requests()[0].Messages {
		text += llm.TextOf(x.Parts)
	}
	for _, want := range []string{"compare @docs:note://a/b, ", "<resource server=\"docs\" uri=\"note://a/b\">",
		"text of note://a/b",
		"text of https://docs.example/x?y=1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Count(text, "<resource ") != 2 {
		t.Errorf("other resources: %s", text)
	}
	if _, err := s.Attach(t.Context(), agent.Typed("@docs:note://none")); err == nil ||
		!strings.Contains(err.Error(), "docs:note://none cannot be attached") {
		t.Error(err)
	}
	if in, err := s.Attach(t.Context(), agent.Input{Text: "@docs:note://a/b"}); err != nil || len(in.Parts) != 0 {
		t.Errorf("text that was not typed: %v %v", in.Parts, err)
	}
	if found, err := s.MCP().Resources(t.Context(), "docs"); err != nil || len(found) != 2 ||
		s.Now().Complete("see @do")[0] != "see @docs:" {
		t.Errorf("%v %v %q", found, err, s.Now().Complete("see @do"))
	}
	if found := s.Now().Complete("see @other:"); len(found) != 0 {
		t.Errorf("%q", found)
	}
	s, _ = session([]string{"mcp__docs__read"})
	if _, err := s.Attach(t.Context(), agent.Typed("@docs:note://a/b")); err == nil ||
		!strings.Contains(err.Error(), "cannot be attached") {
		t.Errorf("with a deny rule: %v", err)
	}
}

// TestAttachBrokenResource: a person hears that the model does not get the image of a resource.
func TestAttachBrokenResource(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "docs", Version: "1"}, nil)
	server.AddResource(&sdk.Resource{Name: "cut", URI: "image://cut"},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "image://cut", MIMEType: "image/png",
				Blob: []byte("\x89PNG\r\n\x1a\n")}}}, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" },
		Model: llmtest.New(), NoSettings: true, Values: map[string]any{"sandbox.mode": "off",
			"mcpServers": map[string]any{"docs": map[string]any{"type": "http", "url": web.URL}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true})
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Attach(t.Context(), agent.Typed("see @docs:image://cut"))
	if err != nil || len(in.Parts) != 1 || in.Parts[0].Media != nil {
		t.Fatalf("%+v, %v", in.Parts, err)
	}
	if said := fmt.Sprint(e.Notices()); !strings.Contains(said, "@docs:image://cut: the model gets only this line: ") {
		t.Error(said)
	}
}
