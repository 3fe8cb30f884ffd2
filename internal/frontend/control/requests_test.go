package control

import (
	"context"
	"fmt"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/llm/llmtest"
)

// TestEveryRequest: each request that hosts know gets one answer, even if it is an error.
func TestEveryRequest(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(), nil)
	for name, want := range map[string]string{
		"initialize": "success", "interrupt": "success", "set_permission_mode": "error", "set_model": "error",
		"set_max_thinking_tokens": "success", "apply_flag_settings": "success", "get_settings": "success",
		"update_settings": "error", "get_context_usage": "success", "get_session_cost": "success", "get_usage": "error",
		"list_models": "success", "list_permission_rules": "success", "get_hooks_listing": "error",
		"get_binary_version": "success", "mcp_status": "success", "mcp_set_servers": "success", "mcp_reconnect": "error",
		"mcp_toggle": "error", "mcp_call": "error", "mcp_read_resource": "error", "mcp_message": "error",
		"reload_skills": "success", "reload_plugins": "success", "reload_output_styles": "success", "rewind_files": "error",
		"read_file": "error", "file_suggestions": "error", "seed_read_state": "error", "register_repo_root": "error",
		"rename_session": "error", "set_color": "error", "stop_task": "error", "background_tasks": "error",
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
	h.expect(`"type":"tool_result"`, `mcp__forms__form not found`)
	h.expect(`"type":"result"`, "first")
	h.must(h.ask("4", `{"subtype":"mcp_toggle","serverName":"forms","enabled":true}`), `"subtype":"success"`)
	h.must(h.ask("5", `{"subtype":"mcp_reconnect","serverName":"forms"}`), `"subtype":"success"`)
	h.must(h.ask("6", `{"subtype":"mcp_status"}`), `"status":"connected"`)
	h.user("go")
	h.expect(`"type":"tool_result"`, `called`)
	h.expect(`"type":"result"`, "second")
	h.end()
}
