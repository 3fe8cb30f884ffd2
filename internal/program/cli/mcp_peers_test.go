//go:build unix

package cli

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestPeerServers runs servers from npm as their users do: a project has installed one and names it in its .mcp.json,
// the home is new, and the user answers what is asked as it is suggested, in the sandbox.
func TestPeerServers(t *testing.T) {
	modules := nodetest.Dir(t)
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("npx is not installed")
	}
	for _, c := range []struct {
		name, pkg string
		args      []string // CHROMIUM is its path
		tool      string
		input     string // ${PWD} is the path of the project
		want      string
	}{
		{"everything", "@modelcontextprotocol/server-everything", nil, "echo", `{"message": "hello"}`, "Echo: hello"},
		{"filesystem", "@modelcontextprotocol/server-filesystem", []string{"."}, "list_directory",
			`{"path": "."}`, `\[FILE\] a.js`},
		{"memory", "@modelcontextprotocol/server-memory", nil, "create_entities",
			`{"entities": [{"name": "Ann", "entityType": "person", "observations": ["tea"]}]}`, "Ann(?s:.*)Ann"},
		{"thinking", "@modelcontextprotocol/server-sequential-thinking", nil, "sequentialthinking",
			`{"thought": "one", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}`, "thoughtHistoryLength"},
		{"commands", "mcp-server-commands", nil, "run_command", `{"command": "echo $((1234*5))"}`, "6170"},
		{"time", "time-mcp", nil, "current_time", `{"format": "YYYY-MM-DD"}`, "Current UTC time is 20"},
		{"shrimp", "mcp-shrimp-task-manager", nil, "list_tasks", `{"status": "all"}`, "「split_tasks」"},
		{"runner", "mcp-server-code-runner", nil, "run-code",
			`{"languageId": "javascript", "code": "console.log(1234*5)"}`, "6170"},
		{"git", "@cyanheads/git-mcp-server", nil, "git_status", `{"path": "${PWD}"}`, "isClean"},
		{"eslint", "@eslint/mcp", nil, "lint-files", `{"filePaths": ["${PWD}/a.js"]}`, "Missing semicolon"},
		{"bank", "@allpepper/memory-bank-mcp", nil, "memory_bank_write",
			`{"projectName": "p", "fileName": "n.md", "content": "noted"}`, "written successfully"},
		{"hello", "mcp-hello-world", nil, "echo", `{"message": "hello"}`, "You said: hello"},
		{"playwright", "@playwright/mcp", []string{"--executable-path", "CHROMIUM", "--headless", "--no-sandbox"},
			"browser_navigate", `{"url": "data:text/html,<title>Tea</title>"}`, "Page Title: Tea"},
		{"devtools", "chrome-devtools-mcp", []string{"--executablePath", "CHROMIUM", "--headless",
			"--chromeArg=--no-sandbox"}, "list_pages", `{}`, "about:blank"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-y", c.pkg}, c.args...)
			for i, arg := range args {
				if arg == "CHROMIUM" {
					chromium, err := exec.LookPath("chromium")
					if err != nil {
						t.Skip("chromium is not installed")
					}
					args[i] = chromium
				}
			}
			var input any
			if err := json.Unmarshal([]byte(c.input), &input); err != nil {
				t.Fatal(err)
			}
			use := llmtest.Use("mcp__"+c.name+"__"+c.tool, input)
			use.Take = map[string]string{"PWD": `Working directory: ([^\\\n]+)`}
			d := newFixture(t, serve(t, llmtest.Use("wait_for_mcp_servers", map[string]any{}), use,
				llmtest.Answer{Want: []string{c.want}, Text: "it answered"}))
			d.env = append(d.env, "PATH="+filepath.Dir(nodetest.Program(modules))+":"+os.Getenv("PATH"))
			d.file(t, "a.js", "var x = 1\n")
			d.file(t, "eslint.config.mjs", "export default [{rules: {semi: 'error'}}];\n")
			d.file(t, "package.json", "{}\n")
			installPackages(t, modules, d.dir, c.pkg)
			definition := map[string]any{"command": "npx", "args": args}
			if c.name == "bank" {
				definition["env"] = map[string]string{"MEMORY_BANK_ROOT": "bank"}
			}
			file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{c.name: definition}})
			if err != nil {
				t.Fatal(err)
			}
			d.file(t, ".mcp.json", string(file))
			runScript(t, d, "git", "init", "-q")
			k := d.run(t, "knack")
			k.expect(`Trust these \d+ items\? \[y/N\] `)
			k.types("y\n")
			k.expect(`May this project's MCP servers use the network`)
			k.types("\n")
			k.enters("go")
			if got := k.expect(`\x1b\[\?2004h[ >] [?>]? ?`); !strings.Contains(got, "?") {
				t.Fatal("the call was not asked about")
			}
			k.types("y\r")
			k.expect(`it answered|error: `)
			k.leaves()
		})
	}
}

// installPackages gives a project packages of npm, with their programs and what they need, as links to the files.
func installPackages(t *testing.T, from, to string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(to, "node_modules/.bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(filepath.Join(from, "node_modules/.bin/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range programs {
		target, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(target, "../"+name+"/") }) {
			if err := os.Symlink(target, filepath.Join(to, "node_modules/.bin", filepath.Base(link))); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := map[string]bool{}
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		dir := filepath.Join(from, "node_modules", name)
		if _, err := os.Stat(dir); done[name] || err != nil {
			continue // within a package that needs another version of it
		}
		done[name] = true
		if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			at := filepath.Join(to, strings.TrimPrefix(path, from))
			switch {
			case entry.IsDir():
				return os.MkdirAll(at, 0o755)
			case !entry.Type().IsRegular():
				return nil
			case entry.Name() == "package.json":
				var p struct {
					Dependencies map[string]string
				}
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				if json.Unmarshal(data, &p) == nil {
					for name := range p.Dependencies {
						names = append(names, name)
					}
				}
			}
			return os.Link(path, at)
		}); err != nil {
			t.Fatal(err)
		}
	}
}
