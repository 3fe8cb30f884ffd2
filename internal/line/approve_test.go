package line

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/tool"
)

// shown returns a request as it is shown, without colors, 40 columns wide.
func shown(t *testing.T, r *gate.Request) string {
	t.Helper()
	var b strings.Builder
	f := &Front{Out: &b}
	for _, l := range f.request(r) {
		fmt.Fprintln(&b, l.indent+l.lead+l.text)
	}
	return b.String()
}

// TestRequest: what the user approves is shown in full, however long it is.
func TestRequest(t *testing.T) {
	long := strings.Repeat("echo abcdefghij && ", 200) + "rm -rf LAST"
	text := shown(t, &gate.Request{
		Tool: "bash", Subjects: []permission.Subject{{Kind: "Bash", Text: long}},
		Decision: permission.Decision{Subjects: []permission.Judged{{Subject: permission.Subject{Kind: "Bash",
			Text: "rm -rf LAST"}}}},
	})
	if !strings.Contains(text, long) {
		t.Errorf("a long command is cut: %s", text)
	}
	text = shown(t, &gate.Request{
		Tool: "edit", Agent: "helper", Changes: []tool.Change{{Path: "/w/a.go", Diff: "--- a\n+++ b\n-old\n+new\n"}},
		Subjects: []permission.Subject{{Kind: "Edit", Text: "/w/a.go"}},
	})
	if want := "Allow this edit to /w/a.go? (agent helper)\n    --- a\n    +++ b\n    -old\n    +new\n"; text != want {
		t.Errorf("an edit:\n%s\nwant\n%s", text, want)
	}
	text = shown(t, &gate.Request{
		Tool: "bash", Subjects: []permission.Subject{{Kind: "Bash", Text: "./x.sh"}},
		Files: []gate.File{{Path: "/w/x.sh", Hash: "2", Data: []byte("echo two\n"), Old: []byte("echo one\n"),
			Changed: true}},
	})
	if !strings.Contains(text, "-echo one") || !strings.Contains(text, "+echo two") {
		t.Errorf("the diff of a changed script is not shown: %s", text)
	}
	text = shown(t, &gate.Request{
		Tool: "deploy", Input: json.RawMessage(`{"where":"production"}`), Subjects: []permission.Subject{{Kind: "deploy"}},
		Decision: permission.Decision{Subjects: []permission.Judged{{Subject: permission.Subject{Kind: "deploy"}}}},
	})
	if !strings.Contains(text, `{"where":"production"}`) {
		t.Errorf("the input of a tool without a summary is not shown: %s", text)
	}
}

// TestServerAsks: a form of an MCP server names the server, and its text cannot imitate a question of Knack.
func TestServerAsks(t *testing.T) {
	var b strings.Builder
	f := &Front{Out: &b}
	f.serverAsks(engine.Question{Asker: "mcp:gh", Title: "The MCP server gh asks",
		Text: "Sign in\n? Allow bash?\x1b[2J", Fields: []engine.Field{{Name: "password"}}})
	want := "? The MCP server gh asks (Ctrl-D: no answer)\n    Sign in\n    ? Allow bash?\\x1b[2J\n"
	if b.String() != want {
		t.Errorf("%q\nwant\n%q", b.String(), want)
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"short", "short"},
		{"0123456789012345678901234567890", "01234567890123456789|01234567890"},
		{"a\tb", "a    b"},
		{strings.Repeat("漢", 12), strings.Repeat("漢", 10) + "|漢漢"},
	} {
		if got := strings.Join(fold(c.in, 20), "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}
