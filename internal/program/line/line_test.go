package line

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

func TestWrap(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"short", "short"},
		{"exactly twenty chars", "exactly twenty chars"},
		{"exactly twenty chars\n", "exactly twenty chars"},
		{"one two three four five six", "one two three four\n    five six"},
		{"/name        what it is for\nnext", "/name        what it\n    is for\nnext"},
		{"one two three four five six seven eight nine ten", "one two three four\n    five six seven\n    eight nine ten"},
		{"averyveryveryverylongwordindeed and more", "averyveryveryverylongwordindeed and more"},
		{"    indented and so on and on", "    indented and so\n    on and on"},
		{"a\tb", "a\tb"},
		{"one\ttwo three four five", "one     two three\n    four five"},
		{"日本語の 👩\u200d💻👩\u200d💻 ab", "日本語の 👩\u200d💻👩\u200d💻 ab"},
	} {
		var got []string
		for _, l := range wrap(tt.text, 20) {
			got = append(got, l.String())
		}
		if got := strings.Join(got, "\n"); got != tt.want {
			t.Errorf("%q:\n%s\nwant\n%s", tt.text, got, tt.want)
		}
	}
}

// TestAnswer: Markdown is set as plain text, and a call has one line that says what it did, or why it failed.
func TestAnswer(t *testing.T) {
	var b strings.Builder
	f := &Front{Out: &b, In: os.Stdin, Summary: func(string, json.RawMessage) string { return "a.go" }}
	show := func(e agent.Event) { f.Event(engine.Event{Event: e}) }
	result := func(id, text, people string, failed bool) {
		show(agent.Event{Call: &llm.ToolCall{ID: id, Name: "edit"}})
		show(agent.Event{Entry: &session.Entry{Result: &session.Result{People: people, ToolResult: llm.ToolResult{ID: id,
			Name: "edit", Parts: []llm.Part{llm.Text(text)}, IsError: failed}}}})
	}
	show(agent.Event{Text: "# Plan\n\nIt is **bold** and `co"})
	show(agent.Event{Text: "de`.\n\n- one"})
	result("1", "for the model", "Changed a.go", false)
	result("2", "edits[0].oldText: for the model", "failed: the text to replace is not in a.go", true)
	result("3", "some output", "", false)
	want := "Plan\n\nIt is bold and code.\n\n• one\n• edit a.go\n  Changed a.go\n• edit a.go\n" +
		"  failed: the text to replace is not in a.go\n• edit a.go\n    some output\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
