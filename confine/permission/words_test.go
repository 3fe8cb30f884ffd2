package permission_test

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// BenchmarkWords decides commands whose words may contain many paths.
func BenchmarkWords(b *testing.B) {
	place := permission.PathContext{Dir: b.TempDir(), Home: "/home/u", GitEnv: true}
	rules := permission.Rules{Allow: rulesOf(b, "Bash(tool:*)", permission.User)}
	for name, c := range map[string]string{
		"signs":  "tool " + strings.Repeat("=", 4000),
		"steps":  "tool " + strings.Repeat("=/", 2000),
		"values": "tool " + strings.Repeat("a=/root/.ssh/x,", 600),
		"files":  "tool" + strings.Repeat(" x=.env", 1400),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				rules.Decide(b.Context(), permission.Default, place, permission.Subject{Kind: "Bash", Text: c})
			}
		})
	}
}
