package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestResultsOfTools: the results of commands and changes have the members that hosts read.
func TestResultsOfTools(t *testing.T) {
	t.Parallel()
	change := func(from, to string) llmtest.Answer {
		return llmtest.Use("edit", map[string]any{"path": "old.txt",
			"edits": []map[string]any{{"oldText": from, "newText": to}}})
	}
	h := newHost(t, llmtest.New(bash("echo out; exit 3"),
		llmtest.Use("read", map[string]any{"path": "old.txt"}),
		llmtest.Use("write", map[string]any{"path": "new.txt", "content": "one\ntwo\n"}),
		llmtest.Use("edit", map[string]any{"path": "old.txt", "edits": []map[string]any{
			{"oldText": "b", "newText": "B\nb2"}}}),
		llmtest.Answer{Calls: slices.Concat(change("c", "C").Calls, change("C", "d").Calls)}, llmtest.Reply("done")),
		[]string{"old.txt", "a\nb\nc\n"}, values(map[string]any{"permissions.allow": []string{"Bash", "Write", "Edit"}}))
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("go")
	h.must(h.expect(`"tool_use_result"`, `"exitCode":3`), `"stdout":"out"`, `"stderr":""`, `"interrupted":false`)
	h.must(h.expect(`"tool_use_result"`, `"type":"create"`), `new.txt"`, `"filePath":"`,
		`"structuredPatch":[{"oldStart":0,"oldLines":0,"newStart":1,"newLines":2,"lines":["+one","+two"]}]`)
	h.must(h.expect(`"tool_use_result"`, `old.txt"`, `"diff"`),
		`"structuredPatch":[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":4,"lines":[" a","-b","+B","+b2"," c"]}]`)
	h.must(h.expect(`"tool_use_result"`, `"+C"`), `"originalFile":"a\nB\nb2\nc\n"`) // as it was then
	h.must(h.expect(`"tool_use_result"`, `"+d"`), `"originalFile":"a\nB\nb2\nC\n"`)
	h.must(h.expect(`"type":"result"`), `"terminal_reason":"completed"`, `"ttft_ms":`)
	h.must(h.ask("2", `{"subtype":"get_usage"}`), `"total_lines_added":6`, `"total_lines_removed":3`, `"total_cost_usd":`,
		`"subscription_type":null,"rate_limits_available":false,"rate_limits":null`, `"model_usage":{"test/script":`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// TestToldToHosts: each turn begins with an init message; a new mode and commands that were read again are told; what
// begins with a slash and calls nothing goes to the model.
func TestToldToHosts(t *testing.T) {
	t.Parallel()
	model := llmtest.New(llmtest.Reply("1"), llmtest.Reply("2"))
	h := newHost(t, model, nil)
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("/nothing of this name")
	h.expect(`"subtype":"init"`)
	h.must(h.expect(`"type":"result"`), `"result":"1"`)
	if text := llm.TextOf(model.Requests()[0].Messages[0].Parts); !strings.Contains(text, "/nothing of this name") ||
		strings.Contains(text, "//") {
		t.Errorf("the model got %q", text)
	}
	h.say(`{"type":"control_request","request_id":"2","request":{"subtype":"set_permission_mode","mode":"acceptEdits"}}`)
	h.must(h.expect(`"subtype":"status"`), `"status":null,"permissionMode":"acceptEdits"`)
	h.say(`{"type":"control_request","request_id":"3","request":{"subtype":"reload_skills"}}`)
	h.must(h.expect(`"subtype":"commands_changed"`), `"commands":[{"name":`)
	h.user("again")
	h.must(h.expect(`"subtype":"init"`), `"permissionMode":"acceptEdits"`)
	h.must(h.expect(`"type":"result"`), `"result":"2"`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	if slices.ContainsFunc(h.out.all, func(l string) bool { return strings.Contains(l, `"is_error":true`) }) {
		t.Error("a turn failed")
	}
}
