package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// piKeys are the settings of Pi 1.6.0, from the schema in its package, without what it stores there by itself.
const piKeys = `autocompleteMaxVisible branchSummary.reserveTokens branchSummary.skipPrompt cacheWarming codemode.inlineBudget
	codemode.mode collapseChangelog compaction.enabled compaction.keepRecentTokens compaction.modelOverrides
	compaction.reserveTokens defaultModel defaultProjectTrust defaultProvider defaultThinkingLevel defaultTools
	doubleEscapeAction editorPaddingX enableAnalytics enableInstallTelemetry enableSkillCommands enabledModels
	extensions externalEditor followUpMode fullscreenCopyOnSelect fullscreenExitOutput fullscreenScrollbar
	fullscreenWheelScrollLines hideThinkingBlock httpIdleTimeoutMs httpProxy images.autoResize images.blockImages
	markdown.codeBlockIndent markdown.mermaid modelThinkingLevels npmCommand outputPad packages prompts queueMode
	quietStartup retry.baseDelayMs retry.enabled retry.maxAgentDelayMs retry.maxDelayMs retry.maxRetries
	retry.provider.maxRetries retry.provider.maxRetryDelayMs retry.provider.timeoutMs selfUpdateCommand sessionDir
	sessionShareDestination shellCommandPrefix shellPath showCacheMissNotices showHardwareCursor skills steeringMode
	terminal.clearOnShrink terminal.hyperlinks terminal.imageWidthCells terminal.images terminal.showImages
	terminal.showTerminalProgress terminal.trueColor theme themes thinkingBudgets transport treeFilterMode tuiMode
	warnings.anthropicExtraUsage websocketConnectTimeoutMs websockets`

// codexKeys are the keys of config.toml that Codex 0.171 takes with --strict-config.
const codexKeys = `agents allow_login_shell allow_symlinked_codex_home analytics approval_policy approvals_reviewer apps
	apps_mcp_product_sku audio auto_review background_terminal_max_timeout browser_use chatgpt_base_url
	check_for_update_on_startup cli_auth_credentials_store cloud code_mode compact_prompt computer_use
	default_permissions desktop developer_instructions disable_paste_burst experimental_compact_prompt_file
	experimental_use_unified_exec_tool features feedback file_opener forced_chatgpt_workspace_id forced_login_method
	ghost_snapshot goals hide_agent_reasoning history hooks include_apps_instructions
	include_collaboration_mode_instructions include_environment_context include_permissions_instructions
	instructions js_repl_node_module_dirs js_repl_node_path log_dir marketplaces mcp_enterprise_managed_auth
	mcp_oauth_callback_port mcp_oauth_callback_url mcp_oauth_credentials_store mcp_optional_startup_grace_ms
	mcp_servers memories model model_auto_compact_token_limit model_auto_compact_token_limit_scope
	model_catalog_json model_context_window model_instructions_file model_post_turn_compact_threshold_percent
	model_provider model_providers model_reasoning_effort model_reasoning_summary model_verbosity notice notify
	openai_base_url orchestrator oss_provider otel permissions personality plan_mode_reasoning_effort plugins
	profile profiles project_doc_fallback_filenames project_doc_max_bytes project_root_markers projects realtime
	responses responses_api_metadata review_model rollout_trace sandbox_mode sandbox_workspace_write service_tier
	shell_environment_policy show_raw_agent_reasoning skills sqlite_home suppress_unstable_features_warning
	thread_unload_delay_secs tool_output_token_limit tool_suggest tools tui web_search windows`

// openCodeKeys are the keys of opencode.json, from the types in its package.
const openCodeKeys = `agent attachment autoshare autoupdate command compaction default_agent disabled_providers enabled_providers
	enterprise experimental formatter instructions keybinds layout logLevel lsp mcp mode model permission plugin
	provider reference references server share shell skills small_model snapshot subagent_depth theme tool_output
	tools tui username watcher`

// exampleOf returns a value that a key may have.
func exampleOf(program, name string) string {
	switch name {
	case "permissions.allow", "permissions.ask", "permissions.deny":
		return `["Read(x)"]`
	case "permissions.additionalDirectories", "permissions.blockReadsExemptPaths":
		return `["/x"]`
	case "permissions.defaultMode":
		return `"plan"`
	case "permissions.disableBypassPermissionsMode":
		return `"disable"`
	case "hooks", "extraKnownMarketplaces", "statusLine", "enabledPlugins":
		return `{}`
	case "strictKnownMarketplaces", "allowedMarketplaces":
		return `[]`
	case "skills", "prompts", "defaultTools":
		return `["x"]`
	case "apiKeyHelper":
		return `"echo key"`
	case "httpProxy":
		return `"http://127.0.0.1:1"`
	case "env":
		return `{"A": "1"}`
	case "requiredMaximumVersion":
		return `"9.0.0"`
	case "model", "outputStyle", "defaultModel", "defaultProvider":
		return `"x"`
	}
	for _, word := range effects()[name] {
		value := map[string]string{"flag": "true", "if-false": "false", "text": `"1.0.0"`, "effort": `"high"`, "match": `"exact"`,
			"list": `[]`, "texts": `["x"]`, "hosts": `["x.example"]`, "servers": `[{"serverName": "x"}]`,
			"files": `[{"path": "/x", "mode": "deny"}]`, "variables": `[{"name": "X", "mode": "deny"}]`,
			"surfaces": `true`, "overrides": `{"x": "off"}`}[word]
		if value != "" {
			return value
		}
	}
	own := others()[program+" "+name].own
	for _, k := range table() {
		switch {
		case k.name != own:
		case own == "effort":
			return `"high"`
		case len(k.enum) > 0:
			return fmt.Sprintf("%q", k.enum[1])
		case k.kind == text || k.kind == list:
			return `"x"`
		case k.kind == number || k.kind == integer:
			return `1`
		}
	}
	return `true`
}

// stateOf returns what becomes of a key in the user's file, or the administrator's: it writes one and reads it.
func stateOf(t *testing.T, dir, program, name string) (state, what string) {
	t.Helper()
	value := exampleOf(program, name)
	for _, key := range slices.Backward(strings.Split(strings.Replace(name, "*", "opus", 1), ".")) {
		value = fmt.Sprintf("{%q: %s}", key, value)
	}
	file, o := "settings.json", Options{ClaudeHome: dir}
	switch managed := slices.Contains(effects()[name], "managed"); {
	case program == "pi":
		dir = filepath.Join(dir, ".pi", "agent")
		o = Options{PiHome: dir}
	case managed || name == "strictKnownMarketplaces":
		file, o, what = "managed-settings.json", Options{Managed: []string{dir}}, "managed files only"
	case slices.Contains(effects()[name], "flags"):
		return "used", "in `--settings` and `--managed-settings` only"
	}
	path := filepath.Join(dir, file)
	defer os.Remove(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(o)
	shown := strings.Replace(name, "*", "opus", 1)
	switch {
	case err != nil:
		return "named", what + ": nothing starts, because Knack cannot hold it"
	case len(c.Unread) > 0:
		return "named", "you are asked before anything starts, because Knack cannot hold it"
	}
	for _, u := range c.Foreign.Unused {
		for _, key := range u.Keys {
			if shown == key || strings.HasPrefix(shown, key+".") {
				return "named", Advice(filepath.ToSlash(path), name)
			}
		}
	}
	if name == "env" && len(c.Foreign.Env) == 0 || name == "apiKeyHelper" && c.Foreign.KeyHelper == "" ||
		len(c.Foreign.Unused) > 0 {
		t.Errorf("%s: nothing is said of %s, but of %v", name, value, c.Foreign.Unused)
	}
	for _, p := range c.Problems {
		t.Errorf("%s: %s", name, p)
	}
	if own := others()[program+" "+name].own; own != "" && own != name {
		return "used", "as `" + own + "`"
	}
	return "used", what
}

// TestOthers: testdata/others.tsv, from which docs/from-other-agents.md is made, says what becomes of each setting of
// Claude Code and Pi, because it is made by writing each of them, and of the keys and files of which nothing is read.
// None is without a word.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	add := func(program, what, name, state, how string) {
		if how = strings.TrimPrefix(how, ": "); state == "named" && how == "" {
			state = "not a thing here"
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\n", program, what, name, state, how)
	}
	for _, name := range slices.Sorted(maps.Keys(effects())) {
		if row := effects()[name]; row[0] != "object" && name != "$schema" {
			state, how := stateOf(t, dir, "claude", name)
			add("Claude Code", "setting", name, state, how)
		}
	}
	names := strings.Fields(piKeys)
	slices.Sort(names)
	for _, name := range names {
		state, how := stateOf(t, dir, "pi", name)
		add("Pi", "setting", name, state, how)
	}
	for _, x := range []struct{ program, file, keys, format string }{
		{"Codex", ".codex/config.toml", codexKeys, "%s = 1\n"},
		{"OpenCode", "opencode.jsonc", openCodeKeys,
			"\ufeff{\r\n // a comment\r\n \"$schema\": \"x\", %q: 1,}\r\n"}} {
		names := strings.Fields(x.keys)
		slices.Sort(names)
		path := filepath.Join(t.TempDir(), x.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := os.WriteFile(path, fmt.Appendf(nil, x.format, name), 0o600); err != nil {
				t.Fatal(err)
			}
			if found, ok := OtherKeys(path); !ok || !slices.Equal(found, []string{name}) {
				t.Errorf("%s: %q", name, found)
			}
			add(x.program, "setting", name, "named", Advice(filepath.ToSlash(path), name))
		}
	}
	for _, d := range OtherDirs() {
		for _, name := range d.Files() { // TestOtherFiles of engine writes each
			how := d.Advice(name)
			if how == "" {
				t.Errorf("%s: nothing says what to do", name)
			}
			at := strings.TrimPrefix(d.Project+"/", "./") + name
			if d.Home != "" && d.Home != d.Project {
				at = strings.TrimPrefix(at+", ~/"+d.Home+"/"+name, "/"+name+", ")
			}
			program := map[string]string{"claude-files": "Claude Code", "claude-hooks": "Claude Code",
				"claude-user": "Claude Code", "claude-project": "Claude Code", "pi-files": "Pi", "codex": "Codex",
				"opencode": "OpenCode"}[d.Program]
			add(cmp.Or(program, "Others"), "file", at, "named", how)
		}
	}
	const path = "testdata/others.tsv"
	old, err := os.ReadFile(path)
	switch {
	case *update:
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	case err != nil || string(old) != b.String():
		t.Errorf("%s is old: go test ./engine/project/config -run TestOthers -update (%v)", path, err)
	}
	for key := range others() {
		program, name, _ := strings.Cut(key, " ")
		if strings.Contains(program, ".") && !strings.Contains(b.String(), "\t"+name+"\t") ||
			program == "claude" && effects()[name] == nil && !strings.HasPrefix(name, "env.") ||
			program == "pi" && !strings.Contains(b.String(), "\t"+name) && !strings.HasSuffix(name, ".json") {
			t.Errorf("others.txt has %s, which is no setting of %s", name, program)
		}
	}
}

// TestEveryLevel: at each level a setting of Claude Code has an effect, or it is named, or the run does not start. A
// restriction that counts only in an administrator's file was dropped without a word in others.
func TestEveryLevel(t *testing.T) {
	dir := t.TempDir()
	for level, o := range map[string]Options{"managed-settings.json": {Managed: []string{dir}},
		"settings.json":         {ClaudeHome: dir},
		".claude/settings.json": {Root: dir, Dir: dir, Check: func(string, []byte) error { return nil }}} {
		path := filepath.Join(dir, filepath.FromSlash(level))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for name := range effects() {
			if effects()[name][0] == "object" || name == "$schema" || name == "env" || name == "enabledPlugins" {
				continue // those have empty examples
			}
			value := exampleOf("claude", name)
			for _, key := range slices.Backward(strings.Split(strings.Replace(name, "*", "opus", 1), ".")) {
				value = fmt.Sprintf("{%q: %s}", key, value)
			}
			if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Load(o)
			if err != nil || len(c.Unread) > 0 {
				continue
			}
			heard := len(c.held) > 0 || c.Foreign.KeyHelper != "" || len(c.Foreign.Models) > 0 || len(c.Problems) > 0
			for _, from := range c.from {
				heard = heard || len(from) > 0
			}
			for _, parts := range c.Raw {
				heard = heard || len(parts) > 0
			}
			shown := strings.Replace(name, "*", "opus", 1)
			for _, u := range c.Foreign.Unused {
				for _, key := range u.Keys {
					heard = heard || shown == key || strings.HasPrefix(shown, key+".")
				}
			}
			if !heard {
				t.Errorf("%s: nothing is said of %s", level, value)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
