package eval

import (
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestAllowed: a trial may make a repository in its own directory, whatever that is called, and in no other.
func TestAllowed(t *testing.T) {
	const dir = "/tmp/[ab]*"
	var rules permission.Rules
	for _, text := range allowed(dir) {
		r, err := permission.ParseRule(text.(string), permission.User)
		if err != nil {
			t.Fatal(err)
		}
		rules.Allow = append(rules.Allow, r)
	}
	for path, want := range map[string]permission.Verdict{dir + "/.git": permission.Allow,
		"/tmp/ab/.git": permission.Ask} {
		d := rules.Decide(t.Context(), permission.Default, permission.PathContext{Dir: dir},
			permission.Subject{Kind: permission.KindEdit, Text: path, Tool: "write"})
		if d.Verdict != want {
			t.Errorf("%s: %s", path, d.Verdict)
		}
	}
}
