package cli

import (
	"fmt"
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

// TestRefusedLine: of many rules that would permit what was refused, the first five are named.
func TestRefusedLine(t *testing.T) {
	refused := []engine.Refused{{}}
	refused[0].Tool = "bash"
	for i, want := range []string{"", "", "", "", "", " and 1 more rule\n", " and 2 more rules\n"} {
		refused[0].By.Suggest = append(refused[0].By.Suggest, fmt.Sprintf("Bash(r%d)", i))
		line := refusedLine(refused)
		if i < 5 && !strings.HasSuffix(line, fmt.Sprintf(" --allow 'Bash(r%d)'\n", i)) || !strings.HasSuffix(line, want) {
			t.Errorf("%d rules: %q", i+1, line)
		}
	}
}
