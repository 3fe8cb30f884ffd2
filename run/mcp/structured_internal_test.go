package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/run/llm"
)

// TestStructuredContent: the model gets structured content once, also beside a text that says something else.
func TestStructuredContent(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	defer c.Close()
	for text, want := range map[string]int{
		"":                      1,
		"Found one.":            1,
		`{ "degrees" : 21.50 }`: 0, // says the same
		`{"degrees": 22}`:       1,
	} {
		r := &sdk.CallToolResult{StructuredContent: map[string]any{"degrees": 21.5}}
		if text != "" {
			r.Content = []sdk.Content{&sdk.TextContent{Text: text}}
		}
		got := llm.TextOf(c.result(r, "").Parts)
		if strings.Count(got, `"degrees": 21.5`) != want || !strings.Contains(got, text) {
			t.Errorf("%q: the model gets %q", text, got)
		}
	}
}
