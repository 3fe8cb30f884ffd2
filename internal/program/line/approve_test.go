package line

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/tool"
)

// shown returns a request as it is shown, without colors, 40 columns wide.
func shown(t *testing.T, r *gate.Request) string {
	t.Helper()
	var b strings.Builder
	f := &Front{Out: &b}
	for _, l := range f.request(&engine.Question{Title: r.Title(), Call: r}) {
		fmt.Fprintln(&b, strings.TrimRight(l.String(), " "))
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
	if !strings.Contains(strings.Join(strings.Fields(text), " "), long) {
		t.Errorf("a long command is cut: %s", text)
	}
	text = shown(t, &gate.Request{
		Tool: "edit", Agent: "helper", Changes: []tool.Change{{Path: "/w/a.go", Added: 1, Removed: 1,
			Diff: "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"}},
		Subjects: []permission.Subject{{Kind: "Edit", Text: "/w/a.go"}},
	})
	if want := "? Change /w/a.go? (agent helper)\n    /w/a.go  +1 −1\n    1 - old\n    1 + new\n"; text != want {
		t.Errorf("an edit:\n%s\nwant\n%s", text, want)
	}
	text = shown(t, &gate.Request{
		Tool: "bash", Subjects: []permission.Subject{{Kind: "Bash", Text: "./x.sh"}},
		Files: []gate.File{{Path: "/w/x.sh", Hash: "2", Data: []byte("echo two\n"), Old: []byte("echo one\n"),
			Changed: true}},
	})
	if !strings.Contains(text, "- echo one") || !strings.Contains(text, "+ echo two") {
		t.Errorf("the diff of a changed script is not shown: %s", text)
	}
	text = shown(t, &gate.Request{
		Tool: "deploy", Input: json.RawMessage(`{"where":"production"}`), Subjects: []permission.Subject{{Kind: "deploy"}},
		Decision: permission.Decision{Subjects: []permission.Judged{{Subject: permission.Subject{Kind: "deploy"}}}},
	})
	if !strings.Contains(text, "where  production") {
		t.Errorf("the input of a tool without a summary is not shown: %s", text)
	}
}

// TestServerAsks: a form of an MCP server names the server, and its text cannot imitate a question of Knack. Found by
// attack: a form that asked for a "Password" had neither its message nor the server's name.
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

// TestFormValues: what is typed for a field of a form becomes a value that the form allows.
func TestFormValues(t *testing.T) {
	low, high := 1.0, 10.0
	number := engine.Field{Type: engine.FieldNumber, Min: &low, Max: &high}
	choice := engine.Field{Type: engine.FieldChoice, Options: []engine.Option{{ID: "r", Label: "Red"},
		{ID: "b", Label: "Blue"}}}
	other := choice
	other.Other = true
	yes := engine.Field{Type: engine.FieldBool, Options: []engine.Option{{ID: "true", Label: "yes"},
		{ID: "false", Label: "no"}}}
	for _, c := range []struct {
		field                engine.Field
		typed, want, problem string
	}{
		{number, "2.5", "2.5", ""}, {number, "", "", ""}, {number, "two", "", "Type a number."},
		{number, "0x1p1", "", "Type a number."}, {number, "11", "", "The number is out of range."}, {number, "0", "", "The number is out of range."},
		{choice, "2", "b", ""}, {choice, "red", "r", ""}, {choice, "green", "", "Type a number from 1 to 2."},
		{other, "green", "green", ""}, {yes, "y", "true", ""}, {yes, "No", "false", ""}, {yes, "false", "false", ""},
		{yes, "perhaps", "", "Type a number from 1 to 2."}, {yes, "", "", ""}, {engine.Field{Default: "x"}, " ", "x", ""},
	} {
		if value, problem := valueOf(c.field, c.typed); value != c.want || problem != c.problem {
			t.Errorf("%s %q: %q, %q", c.field.Type, c.typed, value, problem)
		}
	}
}

// TestChosen: an approval is answered by its letter or its number; nothing else allows.
func TestChosen(t *testing.T) {
	letters, numbers := map[string]string{"y": "once", "a": "always"}, []string{"once", "always"}
	for line, want := range map[string]string{"y": "once", "1": "once", " 2 ": "always", "a": "always", "3": "no: ",
		"n": "no: ", "no too many": "no: too many", "3 not now": "no: not now", "": "-", "0": "-", "4": "-", "-1": "-",
		"1 but": "-", "y but": "-", "yes": "-", "s": "-"} {
		a, ok := chosen(line, letters, numbers)
		got := a.Option
		switch {
		case !ok:
			got = "-"
		case a.Declined:
			got = "no: " + a.Reason
		}
		if got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
}
