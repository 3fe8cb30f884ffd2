package control

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestSavedRules: rules that a host approves last for the session; with --host-may-save the suggested ones are stored
// if the host asks for that, and they never override a deny rule.
func TestSavedRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, destination string
		maySave, kept     bool
		command, rule     string
	}{
		{"without the flag", "localSettings", false, false, "touch a", "touch a"},
		{"for the session", "session", true, false, "touch a", "touch a"},
		{"saved", "localSettings", true, true, "touch a", "touch a"},
		{"the wider rule", "localSettings", true, true, "make a", "make a:*"},
		{"the wider rule without the flag", "localSettings", false, false, "make a", "make a:*"},
		{"a rule that was not suggested", "localSettings", true, false, "make a", "make:*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			if err := os.MkdirAll(filepath.Join(top, "work"), 0o700); err != nil {
				t.Fatal(err)
			}
			save := func(_ *engine.Options, o *Options) { o.MaySave = c.maySave }
			h := newHost(t, llmtest.New(bash(c.command), bash(c.command), llmtest.Reply("done")), nil, in(top), save)
			h.user("go")
			h.answers(`{"behavior":"allow","updatedPermissions":[{"type":"addRules","behavior":"allow",`+
				`"rules":[{"toolName":"Bash","ruleContent":"`+c.rule+`"}],"destination":"`+c.destination+`"}]}`, `can_use_tool`)
			h.expect(`"type":"result"`, `"result":"done"`) // the second call needs no answer
			if err := h.end(); err != nil {
				t.Fatal(err)
			}

			h = newHost(t, llmtest.New(bash(c.command), llmtest.Reply("done")), nil, in(top), save)
			h.user("go")
			if !c.kept {
				h.answers(`{"behavior":"deny","message":"no"}`, `can_use_tool`)
			}
			h.expect(`"type":"result"`, `"result":"done"`)
			h.end()

			h = newHost(t, llmtest.New(bash(c.command), llmtest.Reply("done")), nil, in(top), save,
				values(map[string]any{"permissions.deny": []string{"Bash(touch:*)", "Bash(make:*)"}}))
			h.user("go")
			h.expect(`"subtype":"permission_denied"`, `Bash(`)
			h.expect(`"type":"result"`, `"result":"done"`)
			h.end()
		})
	}
}

// TestSavedEffort: an effort that a host sets lasts for the session, and with --host-may-save for later ones.
func TestSavedEffort(t *testing.T) {
	t.Parallel()
	for _, maySave := range []bool{false, true} {
		top := t.TempDir()
		if err := os.MkdirAll(filepath.Join(top, "work"), 0o700); err != nil {
			t.Fatal(err)
		}
		save := func(_ *engine.Options, o *Options) { o.MaySave = maySave }
		h := newHost(t, llmtest.New(), nil, in(top), save)
		h.must(h.ask("1", `{"subtype":"update_settings","source":"userSettings","settings":{"effortLevel":"low"}}`), "success")
		h.must(h.ask("2", `{"subtype":"update_settings","source":"userSettings","settings":{"effortLevel":"odd"}}`), "error")
		h.must(h.ask("3", `{"subtype":"get_settings"}`), `"effort":"low"`)
		h.end()
		h = newHost(t, llmtest.New(), nil, in(top), save)
		if line := h.ask("1", `{"subtype":"get_settings"}`); strings.Contains(line, `"effort":"low"`) != maySave {
			t.Error(maySave, line)
		}
		h.end()
	}
}

// TestRecorded: each answer of the host is an entry of the session.
func TestRecorded(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("touch a"), bash("touch b"), bash("touch c"), bash("touch d"),
		llmtest.Use("mcp__forms__form", map[string]any{}), llmtest.Use("mcp__forms__form", map[string]any{}),
		llmtest.Reply("done")), nil, values(map[string]any{"permissions.allow": []string{"mcp__forms"}}))
	h.serve("forms", sdkServer(func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Sure?"})
		return "asked", err
	}))
	h.ask("0", `{"subtype":"initialize","sdkMcpServers":["forms"],`+
		`"hooks":{"PreToolUse":[{"matcher":"Bash","hookCallbackIds":["pre"]}]}}`)
	h.user("go")
	h.answers(`{}`, `"callback_id":"pre"`)
	h.answers(`{"behavior":"allow","updatedPermissions":[`+
		`{"type":"addRules","behavior":"deny","rules":[{"toolName":"Bash","ruleContent":"rm:*"}],"destination":"session"},`+
		`{"type":"setMode","mode":"acceptEdits","destination":"session"},`+
		`{"type":"addDirectories","directories":["/elsewhere"],"destination":"session"}]}`, `can_use_tool`)
	h.must(h.expect(`"subtype":"decision"`), `"asked":true`,
		`"answer":"once, deny in this session: Bash(rm:*), mode acceptEdits, directories /elsewhere"`)
	h.answers(`{}`, `"callback_id":"pre"`)
	h.answers(`{"behavior":"allow","updatedInput":{"command":"touch other"}}`, `can_use_tool`)
	h.must(h.expect(`"subtype":"decision"`), `"answer":"once, with another input"`)
	h.answers(`{}`, `"callback_id":"pre"`)
	h.answers(`{"behavior":"deny","message":"not now"}`, `can_use_tool`)
	h.must(h.expect(`"subtype":"permission_denied"`), `"answer":"no not now"`)
	h.answers(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",`+
		`"permissionDecisionReason":"never"}}`,
		`"callback_id":"pre"`)
	h.must(h.expect(`"subtype":"permission_denied"`), `"hook":"PreToolUse"`, `never`)
	h.answers(`{"action":"accept","content":{}}`, `"subtype":"elicitation"`)
	h.must(h.expect(`"subtype":"decision"`, `"tool_name":"mcp__forms"`), `"answer":"once"`)
	h.answers(`{"action":"decline"}`, `"subtype":"elicitation"`)
	h.must(h.expect(`"subtype":"permission_denied"`, `"tool_name":"mcp__forms"`), `"answer":"no"`)
	// A question of a server that the host declined is not a refused call.
	if line := h.expect(`"type":"result"`); strings.Count(line, `"tool_use_id"`) != 2 {
		t.Error(line)
	}
	h.end()
}

// TestAboveProject: the host's settings override those of a trusted project, except the project's deny rules.
func TestAboveProject(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("touch a"), bash("rm a"),
		llmtest.Use("Agent", map[string]any{"agent": "reviewer", "prompt": "look"}),
		llmtest.Answer{Want: []string{"Words of the host."}, Text: "seen"}, llmtest.Reply("done")),
		[]string{".claude/settings.json", `{"permissions": {"defaultMode": "plan", "deny": ["Bash(rm:*)"]}}`,
			".claude/agents/reviewer.md", "---\nname: reviewer\ndescription: d\n---\nWords of the project.\n"},
		func(o *engine.Options, _ *Options) { o.Trust = true })
	h.ask("0", `{"subtype":"initialize","agents":{"reviewer":{"description":"d","prompt":"Words of the host."}}}`)
	h.must(h.ask("1", `{"subtype":"set_permission_mode","mode":"default"}`), `"mode":"default"`)
	h.user("go")
	h.answers(`{"behavior":"allow","updatedPermissions":[{"type":"addRules","behavior":"allow",`+
		`"rules":[{"toolName":"Bash"},`+
		`{"toolName":"Agent"}],"destination":"session"}]}`, `touch a`)
	h.expect(`"subtype":"permission_denied"`, `Bash(rm:*)`)
	h.expect(`"type":"result"`, `"result":"done"`)
	h.end()
	if _, err := os.Stat(filepath.Join(h.dir, "a")); err != nil {
		t.Error(err)
	}
}

// TestBypass: a host may choose bypassPermissions if the program was started with it, and deny rules still apply.
func TestBypass(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("touch a"), bash("touch b"), llmtest.Reply("done")), nil,
		values(map[string]any{"permissions.defaultMode": "bypassPermissions", "permissions.deny": []string{"Bash(touch b)"}}))
	h.ask("1", `{"subtype":"set_permission_mode","mode":"plan"}`)
	h.must(h.ask("2", `{"subtype":"set_permission_mode","mode":"bypassPermissions"}`), `"mode":"bypassPermissions"`)
	h.user("go")
	h.expect(`"subtype":"permission_denied"`, `Bash(touch b)`)
	h.expect(`"type":"result"`, `"result":"done"`)
	h.end()
}

// TestCommandsOfNobody: a host's message that no user typed runs a command only if that shows something, concerns this
// conversation alone or makes something stricter.
func TestCommandsOfNobody(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(), nil)
	all := command.All("")
	for _, p := range part.All() {
		all = append(all, p.Commands...)
	}
	refused := 0
	for _, c := range all {
		for _, args := range []string{"", "x", "off", "x off", "bypassPermissions"} {
			if c.Instead != "" || c.EffectOf(permission.Default, args) == engine.Shows {
				continue
			}
			h.user(strings.TrimSpace("/" + c.Name + " " + args))
			h.must(h.expect(`"type":"result"`), `"is_error":true`, "does this only for a user")
			refused++
		}
	}
	if refused < 50 {
		t.Errorf("only %d lines were refused", refused)
	}
	h.user("/permissions plan") // stricter
	h.must(h.expect(`"type":"result"`), `"is_error":false`, "mode: plan")
	h.user("/permissions default")
	h.must(h.expect(`"type":"result"`), "does this only for a user")
	h.end()
}

// TestCommandsOfHost: what a host says that its user typed stores nothing without --host-may-save, and chooses the mode
// bypassPermissions only if the program began with it, also after a second initialize.
func TestCommandsOfHost(t *testing.T) {
	t.Parallel()
	typed := func(h *host, text string) string {
		h.say(`{"type":"user","typed":true,"message":{"role":"user","content":"%s"}}`, text)
		return h.expect(`"type":"result"`)
	}
	for _, maySave := range []bool{false, true} {
		h := newHost(t, llmtest.New(), nil, func(_ *engine.Options, o *Options) { o.MaySave = maySave })
		h.ask("1", `{"subtype":"initialize"}`)
		h.ask("2", `{"subtype":"initialize"}`)
		for _, line := range []string{"/settings effort low", "/output-style none"} {
			if line := typed(h, line); strings.Contains(line, "--host-may-save") == maySave {
				t.Error(maySave, line)
			}
		}
		h.must(typed(h, "/permissions acceptEdits"), "mode: acceptEdits")
		h.must(typed(h, "/permissions bypassPermissions"), "only be chosen when the program starts")
		h.must(typed(h, "/permissions bypass"), "only be chosen when the program starts")
		h.must(h.ask("alias", `{"subtype":"set_permission_mode","mode":"bypass"}`), "only be chosen when the program starts")
		h.end()
	}
	h := newHost(t, llmtest.New(), nil,
		values(map[string]any{"permissions.defaultMode": string(permission.Bypass)}))
	h.must(typed(h, "/permissions default"), "mode: default")
	h.must(typed(h, "/permissions bypassPermissions"), "mode: bypassPermissions")
	h.end()
}
