package cli

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
)

// TestServerWarnings: problems of servers are printed one by one if they are few and nothing else needs the line.
func TestServerWarnings(t *testing.T) {
	for want, names := range map[string][]string{"one": {"one"}, "one|two": {"one", "two"},
		"3 problems of MCP servers": {"one", "two", "three"}} {
		k := &knownWarnings{}
		for _, name := range names {
			k.ofServer(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Message: name})
		}
		var out strings.Builder
		k.close(&out, new(engine.Project))
		want = "knack: warn: " + strings.ReplaceAll(want, "|", "\nknack: warn: ")
		if got := out.String(); got != want+"\n" && got != want+" (knack mcp test)\n" {
			t.Errorf("%v: %q, want %q", names, got, want)
		}
	}
	k := &knownWarnings{hooks: 1}
	for _, name := range []string{"one", "two"} {
		k.ofServer(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Message: name})
	}
	var out strings.Builder
	k.close(&out, new(engine.Project))
	if got := out.String(); got != "knack: warn: 2 problems of MCP servers (knack mcp test)\n"+
		"knack: warn: hooks failed, 1 time: knack -p -v names them\n" {
		t.Errorf("beside a failed hook: %q", got)
	}
}
