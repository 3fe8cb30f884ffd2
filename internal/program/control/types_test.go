package control

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// sdkTypes are the types that the Agent SDK for TypeScript declares for the program's output, by type and subtype.
var sdkTypes = map[string]string{
	"system init": "sdk.SDKSystemMessage", "system api_retry": "sdk.SDKAPIRetryMessage",
	"assistant": "With<sdk.SDKAssistantMessage, 'message'>", "user": "sdk.SDKUserMessage",
	"stream_event":   "With<sdk.SDKPartialAssistantMessage, 'event'>",
	"result success": "With<sdk.SDKResultSuccess, 'usage'>", "system compact_boundary": "sdk.SDKCompactBoundaryMessage",
	"system permission_denied": "sdk.SDKPermissionDeniedMessage", "system task_started": "sdk.SDKTaskStartedMessage",
	"system task_notification":    "sdk.SDKTaskNotificationMessage",
	"system commands_changed":     "sdk.SDKCommandsChangedMessage",
	"system local_command_output": "sdk.SDKLocalCommandOutputMessage", "result": "With<sdk.SDKResultError, 'usage'>",
	"control_request": "sdk.SDKControlRequest", "control_response": "sdk.SDKControlResponse",
}

// sdkResponses are the types of answers, by the request.
var sdkResponses = map[string]string{
	"initialize": "sdk.SDKControlInitializeResponse", "get_context_usage": "sdk.SDKControlGetContextUsageResponse",
	"interrupt": "sdk.SDKControlInterruptResponse", "list_permission_rules": "sdk.SDKControlListPermissionRulesResponse",
	"read_file": "sdk.SDKControlReadFileResponse", "reload_output_styles": "sdk.SDKControlReloadOutputStylesResponse",
	"reload_plugins": "sdk.SDKControlReloadPluginsResponse", "reload_skills": "sdk.SDKControlReloadSkillsResponse",
	"mcp_status": "{ mcpServers: sdk.McpServerStatus[] }", "mcp_set_servers": "sdk.McpSetServersResult",
}

// typeHelpers are the declarations that the values need. A value marked "as const" keeps the types of literals, is
// read-only, and may have more members than its type. Optional members of messages of the Messages API may be
// missing.
const typeHelpers = `
import type * as sdk from '@anthropic-ai/claude-agent-sdk';
type Const<T> = unknown extends T ? T : T extends (infer U)[] ? readonly Const<U>[] :
	T extends object ? { readonly [K in keyof T]: Const<T[K]> } : T;
type Some<T> = T extends (infer U)[] ? Some<U>[] : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;
type With<T, Name extends keyof T> = Omit<T, Name> & { [K in Name]: Some<T[K]> };
`

// TestPeerTypes compiles the program's output against the declarations of the Agent SDK from npm. Additional members
// are allowed.
func TestPeerTypes(t *testing.T) {
	modules := nodetest.Dir(t)
	node := nodetest.Program(modules)
	tsc := filepath.Join(modules, "node_modules", "typescript", "lib", "tsc.js")
	var out strings.Builder
	out.WriteString(typeHelpers)
	check := func(typ string, value json.RawMessage) {
		fmt.Fprintf(&out, "{ const v = %s as const; const w: Const<%s> = v }\n", value, typ)
	}
	seen := map[string]bool{}
	for _, line := range everyMessage(t) {
		var m struct {
			Type, Subtype string
			Response      struct {
				ID       string          `json:"request_id"`
				Subtype  string          `json:"subtype"`
				Response json.RawMessage `json:"response"`
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSpace(m.Type + " " + m.Subtype)
		typ := sdkTypes[name]
		if typ == "" && m.Type != "system" {
			name, typ = m.Type, sdkTypes[m.Type]
		}
		if typ == "" {
			continue // only ours
		}
		seen[name] = true
		check(typ, json.RawMessage(line))
		if typ := sdkResponses[m.Response.ID]; typ != "" {
			seen[m.Response.ID] = true
			check(typ, m.Response.Response)
		}
	}
	for _, all := range []map[string]string{sdkTypes, sdkResponses} {
		for name := range all {
			if !seen[name] {
				t.Errorf("no message of type %s was written", name)
			}
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "written.ts"), []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // stops a test that hangs
	defer cancel()
	cmd := exec.CommandContext(ctx, node, tsc, "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022",
		"--module", "nodenext", "--moduleResolution", "nodenext", "written.ts")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// everyMessage runs a program that writes messages of all kinds.
func everyMessage(t *testing.T) []string {
	h := newHost(t, llmtest.New(
		llmtest.Answer{Thinking: "hm", Text: "I look", Calls: bash("touch a").Calls}, bash("touch b"),
		llmtest.Answer{Error: &llm.Error{Kind: llm.Overloaded, Status: 529, RetryAfter: time.Millisecond}},
		llmtest.Use("Skill", map[string]any{"skill": "greet"}),
		llmtest.Use("Agent", map[string]any{"agent": "reviewer", "prompt": "look", "description": "d"}),
		llmtest.Reply("looked"),
		llmtest.Use("mcp__forms__form", map[string]any{}),
		llmtest.Use("ask", map[string]any{"questions": []any{map[string]any{"question": "Which?", "header": "W",
			"options": []any{map[string]any{"label": "red"}, map[string]any{"label": "blue"}}}}}),
		llmtest.Reply("done"), llmtest.Reply(strings.Repeat("many words ", 5000)), llmtest.Reply("a summary"),
		bash("sleep 1000"),
	), []string{".claude/skills/greet/SKILL.md", "---\ndescription: Greets\n---\nGreet.\n", "a.txt", "text"},
		values(map[string]any{"permissions.allow": []string{"mcp__forms", "Agent", "Skill", "Bash(sleep:*)"},
			"permissions.ask": []string{"Bash(touch b)"}}),
		func(o *engine.Options, s *Options) { o.Trust, s.Messages.Partial, s.Replay = true, true, true })
	h.serve("forms", sdkServer(func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"name":{"type":"string"},"color":{"type":"string","enum":["red"]}}}`)})
		return "asked", err
	}))
	h.ask("initialize", `{"subtype":"initialize","sdkMcpServers":["forms"],`+
		`"hooks":{"PreToolUse":[{"matcher":"Bash","hookCallbackIds":["pre"]}]},`+
		`"agents":{"reviewer":{"description":"reviews","prompt":"You review."}}}`)
	h.user("go")
	h.answers(`{}`, `"subtype":"hook_callback"`)
	h.answers(`{"behavior":"deny","message":"no"}`, "can_use_tool")
	h.answers(`{}`, `"subtype":"hook_callback"`)
	h.answers(`{"behavior":"allow"}`, "can_use_tool")
	h.answers(`{"action":"decline"}`, `"subtype":"elicitation"`)
	h.answers(`{"behavior":"allow","updatedInput":{"questions":[],"answers":{"Which?":"blue"}}}`, "AskUserQuestion")
	h.expect(`"type":"result"`)
	for _, request := range []string{"get_context_usage", "list_permission_rules", "reload_output_styles",
		"reload_plugins",
		"reload_skills", "mcp_status"} {
		h.ask(request, fmt.Sprintf(`{"subtype":%q}`, request))
	}
	h.ask("read_file", `{"subtype":"read_file","path":"a.txt"}`)
	h.user("/cost")
	h.expect(`"type":"result"`)
	h.user("say more")
	h.expect(`"type":"result"`)
	h.user("/compact")
	h.expect(`"type":"result"`)
	h.user("wait")
	h.answers(`{}`, `"subtype":"hook_callback"`)
	h.expect(`"subtype":"decision"`)
	h.ask("interrupt", `{"subtype":"interrupt"}`)
	h.expect(`"type":"result"`)
	h.ask("mcp_set_servers", `{"subtype":"mcp_set_servers","servers":{"forms":{"type":"sdk","name":"forms"},"bad":7}}`)
	h.end()
	return h.lines()
}
