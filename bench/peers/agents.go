package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// An agent describes how to run one program without user interaction, with all actions allowed
// and, unless its name says so, without a sandbox, using only options that its documentation describes.
type agent struct {
	Name    string
	Version []string // arguments that print its version
	Skills  string   // where a project keeps skills for it

	// Setup writes what the program needs in a fresh home directory to use the server at url.
	// It may be nil.
	Setup func(home, url string) error
	// Env is added to a minimal environment of PATH, HOME and the like.
	Env func(home, url string) []string
	// Args returns the arguments for one prompt.
	Args func(url, prompt string) []string

	Shell func(command string) llmtest.Call // a call that runs a shell command
	Read  func(file string) llmtest.Call    // a call that reads a file; nil: the program has no such tool
}

// agents are Knack and its peers. To add one, add a value here.
var agents = []agent{
	knack("knack", "off"),
	knack("knack-sandboxed", "require"),
	{
		Name: "pi", Version: []string{"--version"}, Skills: ".agents/skills",
		Setup: func(home, url string) error {
			if err := put(filepath.Join(home, ".pi", "agent", "settings.json"),
				map[string]any{"defaultProjectTrust": "always"}); err != nil {
				return err
			}
			return put(filepath.Join(home, ".pi", "agent", "models.json"),
				map[string]any{"providers": map[string]any{"anthropic": map[string]any{"baseUrl": url}}})
		},
		Env: func(string, string) []string {
			return []string{"ANTHROPIC_API_KEY=" + llmtest.Key, "PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1", "PI_TELEMETRY=0"}
		},
		Args: func(_, prompt string) []string {
			return []string{"-p", "--provider", "anthropic", "--model", "claude-sonnet-4-5", prompt}
		},
		Shell: call("bash", "command"), Read: call("read", "path"),
	},
	{
		Name: "codex", Version: []string{"--version"}, Skills: ".agents/skills",
		Env: func(home, _ string) []string {
			return []string{"CODEX_HOME=" + filepath.Join(home, ".codex"), "BENCH_KEY=" + llmtest.Key}
		},
		Setup: func(home, _ string) error { return os.MkdirAll(filepath.Join(home, ".codex"), 0o777) },
		Args: func(url, prompt string) []string {
			return []string{
				"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.5",
				"-c", `model_provider="bench"`, "-c", `model_providers.bench={name="bench",base_url="` + url +
					`/v1",env_key="BENCH_KEY",wire_api="responses"}`,
				prompt,
			}
		},
		Shell: call("exec_command", "cmd"),
	},
	{
		Name: "claude", Version: []string{"--version"}, Skills: ".claude/skills",
		Env: func(_, url string) []string {
			return []string{
				// as root, it skips permissions only in a container
				"ANTHROPIC_API_KEY=" + llmtest.Key, "ANTHROPIC_BASE_URL=" + url, "IS_SANDBOX=1",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
			}
		},
		Args: func(_, prompt string) []string {
			return []string{"-p", "--model", "claude-sonnet-4-5", "--dangerously-skip-permissions", prompt}
		},
		Shell: call("Bash", "command", "description", "Say so"), Read: call("Read", "file_path"),
	},
	{
		Name: "opencode", Version: []string{"--version"}, Skills: ".agents/skills",
		Setup: func(home, url string) error {
			return put(filepath.Join(home, ".config", "opencode", "opencode.json"), map[string]any{
				"autoupdate": false, "share": "disabled", "permission": "allow",
				"provider": map[string]any{"anthropic": map[string]any{"options": map[string]any{"apiKey": llmtest.Key,
					"baseURL": url + "/v1"}}},
			})
		},
		Env: func(string, string) []string {
			return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
				"OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
		},
		Args: func(_, prompt string) []string {
			return []string{"run", "--model", "anthropic/claude-sonnet-4-5", prompt}
		},
		Shell: call("bash", "command", "description", "Say so"), Read: call("read", "filePath"),
	},
	{
		Name: "crush", Version: []string{"--version"}, Skills: ".agents/skills",
		Setup: func(home, url string) error {
			model := map[string]any{"model": "claude-sonnet-4-5-20250929", "provider": "bench"}
			return put(filepath.Join(home, ".config", "crush", "crush.json"), map[string]any{
				"options": map[string]any{"disable_provider_auto_update": true, "disable_metrics": true},
				"models":  map[string]any{"large": model, "small": model},
				"providers": map[string]any{"bench": map[string]any{
					"type": "anthropic", "base_url": url, "api_key": llmtest.Key,
					"models": []any{map[string]any{"id": "claude-sonnet-4-5-20250929", "name": "Sonnet", "context_window": 200000,
						"default_max_tokens": 8000}},
				}},
			})
		},
		Args:  func(_, prompt string) []string { return []string{"run", "--quiet", prompt} },
		Shell: call("bash", "command", "description", "Say so"), Read: call("view", "file_path"),
	},
}

// knack returns this program with a value of --sandbox.
func knack(name, sandbox string) agent {
	return agent{
		Name: name, Version: nil, Skills: ".agents/skills",
		Env: func(_, url string) []string {
			return []string{"ANTHROPIC_API_KEY=" + llmtest.Key, "ANTHROPIC_BASE_URL=" + url}
		},
		Args: func(_, prompt string) []string {
			return []string{"-p", "--model", "anthropic/claude-sonnet-4-5", "--trust", "--dangerously-skip-permissions",
				"--sandbox", sandbox, prompt}
		},
		Shell: call("bash", "command"), Read: call("read", "path"),
	}
}

// call returns a function that makes calls of a tool: one input, key, differs between calls,
// and pairs are the same in all.
func call(name, key string, pairs ...string) func(string) llmtest.Call {
	return func(value string) llmtest.Call {
		in := map[string]any{key: value}
		for i := 0; i+1 < len(pairs); i += 2 {
			in[pairs[i]] = pairs[i+1]
		}
		return llmtest.Call{Name: name, Input: in}
	}
}

func put(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o666)
}
