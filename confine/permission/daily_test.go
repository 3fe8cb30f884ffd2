package permission_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// TestDaily checks the verdicts of commands from the CI files and READMEs of
// public projects, without rules and with typical prefix rules for such projects.
// A change that makes more of them ask is a regression; one that makes fewer ask
// must be intended. -update rewrites testdata/daily.txt. What came of running them is in bench/README.md.
func TestDaily(t *testing.T) {
	const name = "testdata/daily.txt"
	place := testWorkspace(t)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var prefix permission.Rules
	verdict := func(rs permission.Rules, command string) permission.Decision {
		return rs.Decide(t.Context(), permission.Default, place, permission.Subject{Kind: "Bash", Text: command})
	}
	var out strings.Builder
	n, asks := 0, [2]int{}
	for i, line := range strings.SplitAfter(string(data), "\n") {
		text := strings.TrimSuffix(line, "\n")
		if rules, ok := strings.CutPrefix(text, "rules: "); ok {
			prefix.Allow = append(prefix.Allow, rulesOf(t, rules, permission.User)...)
		}
		want, command, ok := strings.Cut(text, " | ")
		if !ok || strings.HasPrefix(text, "rules:") || strings.HasPrefix(text, "#") {
			out.WriteString(line)
			continue
		}
		n++
		none, some := verdict(permission.Rules{}, command), verdict(prefix, command)
		for k, d := range []permission.Decision{none, some} {
			if d.Verdict != permission.Allow {
				asks[k]++
			}
		}
		got := fmt.Sprintf("%-5s %-5s", none.Verdict, some.Verdict)
		fmt.Fprintf(&out, "%s | %s\n", got, command)
		if got != want && !*update {
			t.Errorf("daily.txt:%d: %s: %s, want %s%s%s", i+1, command, got, want, explain(none), explain(some))
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n < 300 {
		t.Errorf("only %d commands", n)
	}
	t.Logf("%d commands; asked without rules: %d, with prefix rules: %d", n, asks[0], asks[1])
}
