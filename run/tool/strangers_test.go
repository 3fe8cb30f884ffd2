package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/run/tool"
)

// TestTextOf: a tool that says nothing about itself counts as one that returns text of strangers.
func TestTextOf(t *testing.T) {
	some := func(in json.RawMessage) string { return map[string]string{"1": "somebody"}[string(in)] }
	for _, c := range []struct {
		tool  tool.Tool
		input string
		want  bool
	}{
		{tool.Tool{}, "1", true},
		{tool.Tool{Effect: tool.Network | tool.Runs}, "1", true},
		{tool.Tool{Effect: tool.Reads | tool.Writes | tool.Runs}, "1", false},
		{tool.Tool{Strangers: some}, "1", true},
		{tool.Tool{Strangers: some}, "2", false},
		{tool.Tool{Effect: tool.Reads, Strangers: tool.From("the web")}, "2", true},
	} {
		if got := c.tool.TextOf(json.RawMessage(c.input)); (got != "") != c.want {
			t.Errorf("%+v: %q", c.tool.Effect, got)
		}
	}
}
