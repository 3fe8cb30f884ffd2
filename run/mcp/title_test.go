package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestTitle: a tool's title, its own or that of its annotations, follows its name in approvals, quoted.
func TestTitle(t *testing.T) {
	t.Parallel()
	schema := map[string]any{"type": "object"}
	for want, tool := range map[string]*sdk.Tool{
		"mcp__shop__a":                {Name: "a", InputSchema: schema},
		`mcp__shop__a ("Buy \"it\"")`: {Name: "a", Title: `Buy "it"`, InputSchema: schema},
		`mcp__shop__a ("Noted")`: {Name: "a", InputSchema: schema,
			Annotations: &sdk.ToolAnnotations{Title: "Noted"}},
	} {
		p := &peer{safe: "shop"}
		found := p.define([]*sdk.Tool{tool}, &p.problems)
		if got := p.tool(found[0], nil).Label; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
