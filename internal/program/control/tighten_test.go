package control

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"context"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestTighten: a host makes a server's calls ask in a mode that allows everything, and adds rules that deny.
func TestTighten(t *testing.T) {
	t.Parallel()
	call := llmtest.Use("mcp__calc__form", map[string]any{})
	h := newHost(t, llmtest.New(call, llmtest.Reply("one"), call, llmtest.Reply("two"), bash("touch made"),
		llmtest.Answer{Want: []string{"denied|refused|not allowed|rule"}, Text: "three"}), nil,
		values(map[string]any{"permissions.defaultMode": "bypassPermissions"}), func(o *engine.Options, s *Options) {})
	h.serve("calc", sdkServer(func(context.Context, *sdk.CallToolRequest) (string, error) { return "asked", nil }))
	h.ask("1", `{"subtype":"initialize","sdkMcpServers":["calc"]}`)
	h.must(h.ask("2", `{"subtype":"set_mcp_permission_mode_override","serverName":"nosuch","mode":"default"}`),
		`"warning"`)
	h.must(h.ask("3", `{"subtype":"set_mcp_permission_mode_override","serverName":"calc","mode":"bypassPermissions"}`),
		"can only be stricter")
	h.ask("4", `{"subtype":"set_mcp_permission_mode_override","serverName":"calc","mode":"default"}`)
	for id, request := range map[string]string{"mode is missing": `set_mcp_permission_mode_override","serverName":"calc","mod":"x"}`,
		"settings is missing": `apply_flag_settings","setting":{"permissions":{"deny":["Bash"]}}}`,
		"servers is missing":  `mcp_set_servers","server":{}}`} { // each would take something back, or set nothing
		h.must(h.ask(id[:4], `{"subtype":"`+request), `"subtype":"error"`, id)
	}
	h.user("go")
	h.answers(`{"behavior":"deny","message":"no"}`, "can_use_tool", "mcp__calc")
	h.expect(`"type":"result"`, "one")
	h.ask("5", `{"subtype":"set_mcp_permission_mode_override","serverName":"calc","mode":null}`)
	h.user("go")
	h.expect(`"type":"result"`, "two")
	h.must(h.ask("6", `{"subtype":"apply_flag_settings","settings":{"permissions":{"allow":["Bash"]}}}`),
		"only deny and ask")
	h.must(h.ask("6b", `{"subtype":"apply_flag_settings","settings":{"permissions":{"deny":["Bsh(touch made)"]}}}`),
		"did you mean Bash")
	h.must(h.ask("7", `{"subtype":"apply_flag_settings","settings":{"permissions":{"deny":["Bash"]}}}`),
		`"subtype":"success"`)
	h.user("go")
	h.expect(`"type":"result"`, "three")
	h.must(h.ask("8", `{"subtype":"update_settings","source":"userSettings","settings":{"effortLevel":"low"}}`), "success")
	h.must(h.ask("9", `{"subtype":"get_settings"}`), `"effort":"low"`)
	h.must(h.ask("a", `{"subtype":"update_settings","source":"userSettings","settings":{"model":"x"}}`),
		"only effortLevel")
	h.must(h.ask("b", `{"subtype":"update_settings","source":"localSettings","settings":{"outputStyle":"none"}}`),
		"no output style")
	h.must(h.ask("c", `{"subtype":"mcp_read_resource","serverName":"calc","uri":"file:///etc/passwd"}`), "ui://")
	h.must(h.ask("d", `{"subtype":"mcp_read_resource","serverName":"nosuch","uri":"ui://x"}`), "no MCP server")
	h.end()
}

// TestServerPolicies: what a host says about the tools of its servers holds in a mode that allows everything and under
// a rule that allows them, as long as the server is there; what cannot be understood sets nothing up.
func TestServerPolicies(t *testing.T) {
	t.Parallel()
	call := llmtest.Use("mcp__calc__form", map[string]any{})
	denied := llmtest.Answer{Want: []string{"definition of its MCP server denies"}, Text: "four"}
	h := newHost(t, llmtest.New(call, llmtest.Reply("one"), call, llmtest.Reply("two"), call, llmtest.Reply("three"),
		call, denied, call, llmtest.Reply("five")), nil,
		values(map[string]any{"permissions.defaultMode": "bypassPermissions", "permissions.allow": []string{"mcp__calc"}}),
		func(o *engine.Options, s *Options) {})
	h.serve("calc", sdkServer(func(context.Context, *sdk.CallToolRequest) (string, error) { return "asked", nil }))
	const servers = `"sdkMcpServers":["calc"]`
	for id, bad := range map[string]string{
		`"sdkMcpServerConfig":{"calc":{"tools":[]}}`:                                                   "did you mean sdkMcpServerConfigs",
		`"sdkMcpServerConfigs":{"calc":{"tool":[{"name":"form","permission_policy":"always_deny"}]}}`:  `did you mean \"tools`,
		`"sdkMcpServerConfigs":{"calc":{"tools":[{"name":"form","permission_polcy":"always_deny"}]}}`:  "permission_policy",
		`"sdkMcpServerConfigs":{"calk":{"tools":[{"name":"form","permission_policy":"always_deny"}]}}`: "not in sdkMcpServers",
		`"sdkMcpServerConfigs":{"calc":{"tools":{"form":"always_deny"}}}`:                              "not a list",
	} {
		h.must(h.ask(id[:30]+bad[:5], `{"subtype":"initialize",`+servers+`,`+id+`}`), `"subtype":"error"`, bad)
	}
	policy := func(p string) string { return `"tools":[{"name":"form","permission_policy":"` + p + `"}]` }
	h.must(h.ask("1", `{"subtype":"initialize",`+servers+`,"sdkMcpServerConfigs":{"calc":{"timeout":60000,`+
		policy("always_ask")+`},"other":{"timeout":5}}}`), `"subtype":"success"`)
	h.user("go")
	h.answers(`{"behavior":"deny","message":"no"}`, "can_use_tool", "mcp__calc")
	h.expect(`"type":"result"`, "one")
	h.ask("2", `{"subtype":"initialize",`+servers+`}`) // takes nothing back
	h.user("go")
	h.answers(`{"behavior":"allow"}`, "can_use_tool", "mcp__calc")
	h.expect(`"type":"result"`, "two")
	set := `{"subtype":"mcp_set_servers","servers":{"calc":{"type":"sdk","name":"calc"`
	h.must(h.ask("3", set+`}}}`), `"subtype":"success"`) // replaces it
	h.user("go")
	h.expect(`"type":"result"`, "three")
	h.must(h.ask("4", set+`,`+policy("always_deny")+`}}}`), `"subtype":"success"`)
	h.user("go")
	h.expect(`"type":"result"`, "four")
	h.must(h.ask("5", set+`,"tools":[{"nam":"form"}]}}}`), `has no name`, `"removed":["calc"]`)
	h.user("go")
	h.expect(`"type":"result"`, "five")
	h.end()
}
