package permission_test

import (
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// A bare WebFetch rule allows the standard ports; to deny and to ask, it means all.
func TestBareWebFetch(t *testing.T) {
	bare := []permission.Rule{{Tool: "WebFetch", Any: true}}
	for address, want := range map[string]permission.Verdict{
		"https://a.example/x": permission.Allow, "http://a.example": permission.Allow, "https://a.example:443": permission.Allow,
		"http://a.example:8080/": permission.Ask, "https://a.example:22": permission.Ask, "ftp://a.example": permission.Ask,
	} {
		s := permission.Subject{Kind: permission.KindWebFetch, Text: address}
		rules := permission.Rules{Allow: bare}
		if got := rules.Decide(t.Context(), permission.Default, permission.PathContext{}, s).Verdict; got != want {
			t.Errorf("%s: %v", address, got)
		}
		rules = permission.Rules{Deny: bare}
		if got := rules.Decide(t.Context(), permission.Default, permission.PathContext{}, s).Verdict; got != permission.Deny {
			t.Errorf("deny %s: %v", address, got)
		}
	}
}

// TestMeant: a rule for a tool with nearly the name of another one was probably meant for that one.
func TestMeant(t *testing.T) {
	for text, want := range map[string]string{"Bsh(rm *)": "Bash", "Bahs": "Bash", "Raed(x)": "Read", "wirte": "Write",
		"mcp_server__x": "mcp__SERVER__TOOL", "Mcp__x": "mcp__SERVER__TOOL", "Deplooy": "deploy",
		"Bash": "", "bash": "", "mcp__x": "", "LSP": "", "Deploy": "deploy", "Unknown": "", "*": "", "Network(npmm)": ""} {
		r, err := permission.ParseRule(text, permission.User)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Meant("deploy", "bash", "read"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
