package web_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/web"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestTools: which tools the session and its agents are offered, by settings, and which problem is shown.
func TestTools(t *testing.T) {
	for name, c := range map[string]struct {
		values   map[string]any
		own, sub string // of the tools that are about the web
		problem  string
		without  bool // the part
		outside  string
	}{
		"default": {own: "web_fetch", sub: "web_fetch", outside: "web_fetch"},
		"an engine": {values: map[string]any{"web.search.engine": "searxng", "web.search.url": "http://127.0.0.1:1"},
			own: "web_fetch web_search", sub: "web_fetch web_search", outside: "web_fetch web_search"},
		"an engine that needs a key": {values: map[string]any{"web.search.engine": "brave"},
			own: "web_fetch", sub: "web_fetch", outside: "web_fetch", problem: "web.search: "},
		"an MCP server": {values: map[string]any{"web.search.engine": "mcp__x__find"},
			own: "web_fetch web_search", sub: "web_fetch web_search", outside: "web_fetch"},
		"a provider that cannot search": {values: map[string]any{"web.search.engine": "provider"},
			own: "web_fetch", sub: "web_fetch", outside: "web_fetch"},
		"left out": {without: true, outside: "web_fetch"},
	} {
		t.Run(name, func(t *testing.T) {
			p := enginetest.New(t)
			m := llmtest.New(llmtest.Use("Agent", map[string]any{"prompt": "look", "description": "look",
				"agent": "general-purpose"}), llmtest.Reply("seen"), llmtest.Reply("done"))
			o := p.Options(m)
			for key, value := range c.values {
				o.Values[key] = value
			}
			o.Values["permissions.allow"] = []string{"Agent"}
			if c.without {
				o.Parts = slices.DeleteFunc(o.Parts, func(x engine.Part) bool { return x.Name == "web" })
			}
			e, err := engine.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			s, err := e.Start(t.Context(), nil, engine.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := engine.Converse(s).Turn(t.Context(), agent.Typed("go"), nil); err != nil {
				t.Fatal(err)
			}
			got := m.Requests()
			if own, sub := about(got[0]), about(got[1]); own != c.own || sub != c.sub {
				t.Errorf("the session has %q and the agent %q, want %q and %q", own, sub, c.own, c.sub)
			}
			if got := strings.Join(web.Tools(e.Project()).Names(), " "); got != c.outside {
				t.Errorf("outside of a conversation there are %q, want %q", got, c.outside)
			}
			if x := s.Problems(); len(x) > 0 != (c.problem != "") || len(x) > 0 && !strings.HasPrefix(x[0].Message, c.problem) {
				t.Errorf("problems: %v", x)
			}
		})
	}
}

// about returns the tools of a request that are about the web.
func about(r *llm.Request) string {
	var names []string
	for _, t := range r.Tools {
		if strings.HasPrefix(t.Name, "web_") {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, " ")
}
