package permission_test

import (
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestInside: a host of this machine or its network is opened by a rule that spells it out, and by no other and no mode.
func TestInside(t *testing.T) {
	for _, c := range []struct {
		rule, host string
		inside     bool
		want       permission.Verdict
	}{
		{"browser_open", "a.example", false, permission.Allow},
		{"browser_open", "169.254.169.254", true, permission.Ask},
		{"browser_open(*)", "10.0.0.1:8080", true, permission.Ask},
		{"browser_open(1*)", "10.0.0.1", true, permission.Ask},
		{"browser_open(local*)", "localhost:80", true, permission.Ask},
		{"browser_open(10.0.0.1)", "10.0.0.1", true, permission.Allow},
		{"browser_open(localhost:*)", "localhost:3000", true, permission.Allow},
		{"browser_open(localhost:3000)", "localhost:3000", true, permission.Allow},
	} {
		rule, err := permission.ParseRule(c.rule, permission.User)
		if err != nil {
			t.Fatal(err)
		}
		s := permission.Subject{Kind: "browser_open", Text: c.host, Tool: "browser_open", Inside: c.inside}
		rules := permission.Rules{Allow: []permission.Rule{rule}}
		if got := rules.Decide(t.Context(), permission.Default, permission.PathContext{}, s).Verdict; got != c.want {
			t.Errorf("%s: %s: %v", c.rule, c.host, got)
		}
		want := permission.Allow
		if c.inside {
			want = permission.Ask
		}
		if got := (permission.Rules{}).Decide(t.Context(), permission.Bypass, permission.PathContext{}, s).Verdict; got != want {
			t.Errorf("bypass mode: %s: %v", c.host, got)
		}
		rules = permission.Rules{Deny: []permission.Rule{rule}}
		if got := rules.Decide(t.Context(), permission.Bypass, permission.PathContext{}, s).Verdict; got != permission.Deny {
			t.Errorf("deny %s: %s: %v", c.rule, c.host, got)
		}
	}
}
