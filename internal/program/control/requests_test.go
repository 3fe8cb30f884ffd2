package control

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestEveryRequest: each request that hosts know gets one answer, even if it is an error.
func TestEveryRequest(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(), nil)
	for name, want := range map[string]string{
		"initialize": "success", "interrupt": "success", "set_permission_mode": "error", "set_model": "error",
		"set_max_thinking_tokens": "success", "apply_flag_settings": "error", "get_settings": "success",
		"update_settings": "error", "get_context_usage": "success", "get_session_cost": "success", "get_usage": "success",
		"list_models": "success", "list_permission_rules": "success", "get_hooks_listing": "error",
		"get_binary_version": "success", "mcp_status": "success", "mcp_set_servers": "error", "mcp_reconnect": "error",
		"mcp_toggle": "error", "mcp_call": "error", "mcp_read_resource": "error", "mcp_message": "error",
		"reload_skills": "success", "reload_plugins": "success", "reload_output_styles": "success", "rewind_files": "success",
		"read_file": "error", "file_suggestions": "error", "seed_read_state": "error", "register_repo_root": "error",
		"rename_session": "error", "set_color": "error", "stop_task": "error", "background_tasks": "success",
		"get_task_output": "error", "cancel_async_message": "success", "set_has_subscribers": "error",
		"can_use_tool": "error", "hook_callback": "error", "elicitation": "error", "": "error",
	} {
		h.must(h.ask("id-"+name, fmt.Sprintf(`{"subtype":%q}`, name)), `"subtype":"`+want+`"`)
	}
	h.end()
}

// TestWrongTypes: the error for a value of another type names the member as the host knows it.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(), nil)
	for request, want := range map[string]string{
		`{"subtype":"initialize","agents":7}`:                   "agents is a JSON number",
		`{"subtype":"initialize","hooks":{"PreToolUse":"all"}}`: "hooks is a JSON string",
		`{"subtype":"set_permission_mode","mode":true}`:         "mode is a JSON bool",
		`{"subtype":"read_file","path":["a"]}`:                  "path is a JSON array",
	} {
		h.must(h.ask("id", request), `"subtype":"error"`, want)
	}
	h.end()
}

// TestSettingsOfHost: the host reads the settings, and sets the effort.
func TestSettingsOfHost(t *testing.T) {
	t.Parallel()
	model := llmtest.New(llmtest.Reply("1"), llmtest.Reply("2"))
	h := newHost(t, model, nil, values(map[string]any{"effort": "high"}))
	h.must(h.ask("1", `{"subtype":"get_settings"}`), `"key":"effort","value":"high"`,
		`"applied":{"model":"test/script","effort":"high"}`)
	h.must(h.ask("2", `{"subtype":"apply_flag_settings","settings":{"effortLevel":"low"}}`), `"subtype":"success"`)
	h.must(h.ask("3", `{"subtype":"apply_flag_settings","settings":{"permissions":{"allow":["Bash"]}}}`),
		`"subtype":"error"`)
	h.must(h.ask("4", `{"subtype":"apply_flag_settings","settings":{"sandbox":"off"}}`),
		`sandbox cannot be changed while the program runs`)
	h.user("go")
	h.expect(`"type":"result"`)
	h.must(h.ask("5", `{"subtype":"apply_flag_settings","settings":{"effortLevel":null}}`), `"subtype":"success"`)
	h.user("go")
	h.expect(`"type":"result"`)
	h.end()
	if r := model.Requests(); len(r) != 2 || r[0].Effort != "low" || r[1].Effort != "high" {
		t.Errorf("%+v", r)
	}
}

// TestToggleServer: a server that the host disables offers nothing until it is enabled, and a reconnect is answered
// when the server is connected.
func TestToggleServer(t *testing.T) {
	t.Parallel()
	call := llmtest.Use("mcp__forms__form", map[string]any{})
	h := newHost(t, llmtest.New(call, llmtest.Reply("first"), call, llmtest.Reply("second")), nil,
		values(map[string]any{"permissions.allow": []string{"mcp__forms"}}))
	h.serve("forms", sdkServer(func(context.Context, *sdk.CallToolRequest) (string, error) { return "called", nil }))
	h.ask("0", `{"subtype":"initialize","sdkMcpServers":["forms"]}`)
	h.must(h.ask("1", `{"subtype":"mcp_toggle","serverName":"forms","enabled":false}`), `"subtype":"success"`)
	h.must(h.ask("2", `{"subtype":"mcp_status"}`), `"status":"disabled"`)
	h.must(h.ask("3", `{"subtype":"mcp_toggle","serverName":"other","enabled":true}`), `there is no MCP server`)
	h.user("go")
	h.expect(`"type":"tool_result"`, `The MCP server forms is not connected (disabled), so none of its tools can be called.`)
	h.expect(`"type":"result"`, "first")
	h.must(h.ask("4", `{"subtype":"mcp_toggle","serverName":"forms","enabled":true}`), `"subtype":"success"`)
	h.must(h.ask("5", `{"subtype":"mcp_reconnect","serverName":"forms"}`), `"subtype":"success"`)
	h.must(h.ask("6", `{"subtype":"mcp_status"}`), `"status":"connected"`)
	h.user("go")
	h.expect(`"type":"tool_result"`, `called`)
	h.expect(`"type":"result"`, "second")
	h.end()
}

// TestRewindFiles: a host restores the files as they were before one of its messages, also with the program that
// resumes the session; what somebody else changed is left and named.
func TestRewindFiles(t *testing.T) {
	t.Parallel()
	write := func(text string) llmtest.Answer {
		return llmtest.Use("write", map[string]any{"path": "a.txt", "content": text})
	}
	h := newHost(t, llmtest.New(write("one\n"), llmtest.Reply("first"), write("one\ntwo\n"), llmtest.Reply("second")),
		[]string{"a.txt", "zero\n"}, recorded, values(map[string]any{"permissions.allow": []string{"Write", "Edit"}}))
	h.ask("0", `{"subtype":"initialize"}`)
	h.must(h.ask("1", `{"subtype":"rewind_files","user_message_id":"m1"}`), `"canRewind":false`)
	for _, id := range []string{"m1", "m2"} {
		h.say(`{"type":"user","uuid":%q,"message":{"role":"user","content":"go on"}}`, id)
		h.expect(`"type":"result"`)
	}
	content := func() string {
		data, err := os.ReadFile(filepath.Join(h.dir, "a.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	h.must(h.ask("2", `{"subtype":"rewind_files","user_message_id":"m2","dry_run":true}`),
		`"canRewind":true`, `"filesChanged":["a.txt"]`, `"insertions":0,"deletions":1`)
	if got := content(); got != "one\ntwo\n" {
		t.Errorf("a dry run made it %q", got)
	}
	h.must(h.ask("3", `{"subtype":"rewind_files","user_message_id":"m1"}`), `"canRewind":true`,
		`"insertions":1,"deletions":2`)
	if got := content(); got != "zero\n" {
		t.Errorf("it is %q", got)
	}
	h.end()
}
