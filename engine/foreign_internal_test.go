package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine/project/config"
)

// TestOtherFiles: each file of another program, of which nothing is read, is named with what to do.
func TestOtherFiles(t *testing.T) {
	home, root := t.TempDir(), t.TempDir()
	want := map[string][]string{}
	for _, d := range config.OtherDirs() {
		for _, at := range [][2]string{{home, d.Home}, {root, d.Project}} {
			if at[1] == "" {
				continue
			}
			dir := filepath.Join(at[0], filepath.FromSlash(at[1]))
			for _, name := range d.Files() {
				if err := os.MkdirAll(filepath.Join(dir, name, "x"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			want[dir] = append(want[dir], d.Files()...)
		}
	}
	got := otherFiles(home, []string{root})
	for _, u := range got {
		if !slices.Equal(u.Keys, want[u.Path]) {
			t.Errorf("%s: %q, want %q", u.Path, u.Keys, want[u.Path])
		}
		for _, line := range u.Lines() {
			if line[:min(len(line), 11)] == "not a thing" {
				t.Errorf("%s: %s", u.Path, line)
			}
		}
	}
	if len(got) != len(want) || len(otherFiles("", nil)) != 0 ||
		len(otherFiles(t.TempDir(), []string{t.TempDir()})) != 0 {
		t.Errorf("%d, want %d", len(got), len(want))
	}
}

// TestMisnamed: files beside those that are read, in a folder where each is meant to be, are named with the name that
// is read; so are names in other letters. What other programs put there for themselves is not.
func TestMisnamed(t *testing.T) {
	home, root := t.TempDir(), t.TempDir()
	write := func(path string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		".claude/rules/a.mdc":          "rename it to a.md",
		".claude/rules/deep/b.txt":     "rename it to b.md",
		".claude/rules/style":          "rename it to style.md",
		".claude/agents/c.yaml":        "write it as c.md: Markdown with frontmatter",
		".claude/commands/d.toml":      "write it as d.md: Markdown with frontmatter",
		".claude/output-styles/e.mdx":  "rename it to e.md",
		".knack/prompts/f.markdown":    "rename it to f.md",
		".pi/prompts/g.text":           "rename it to g.md",
		".claude/rules/fine.md":        "",
		".claude/rules/UPPER.MD":       "",
		".claude/rules/README.txt":     "",
		".claude/rules/.hidden.txt":    "",
		".claude/rules/data.json":      "",
		".claude/commands/data.json":   "",
		".claude/commands/helper":      "",
		".claude/commands/helper.sh":   "",
		".claude/skills/x/rules/a.txt": "",
	}
	for path := range want {
		write(filepath.Join(root, path))
		write(filepath.Join(home, path))
	}
	got := map[string]string{}
	for _, u := range misnamed([]string{root}, func(folder string) string { return filepath.Join(home, folder) }) {
		for _, key := range u.Keys {
			got[filepath.Join(u.Path, key)] = u.Advice[key]
		}
	}
	for path, advice := range want {
		for _, base := range []string{root, home} {
			if at := filepath.Join(base, path); got[at] != advice {
				t.Errorf("%s: %q, want %q", at, got[at], advice)
			}
		}
	}
	dir := filepath.Join(root, ".claude")
	write(filepath.Join(dir, "Settings.JSON"))
	write(filepath.Join(dir, "settings.json"))
	write(filepath.Join(dir, "Output-Styles", "x"))
	for name, known := range map[string]string{"Settings.JSON": "settings.json", "settings.json": "", "rules": "",
		"other": "", "Output-Styles": "output-styles", "agents.MD": "AGENTS.md"} {
		if known != "" && sameFile(filepath.Join(dir, known), filepath.Join(dir, name)) {
			known = "" // the file system ignores the letter case
		}
		if known != "" {
			known = "rename it to " + known
		}
		if got := misspelt(dir, name, false); got != known {
			t.Errorf("%s: %q, want %q", name, got, known)
		}
	}
	if got := misspelt(dir, "agents.md", true); got != "rename it to CLAUDE.md" {
		t.Errorf("agents.md of the user: %q", got)
	}
	for name, want := range map[string]string{
		"setting.local.json": "settings are in", "settings.json.local": "settings are in",
		"permissions.yaml": "settings are in", "hooks.yml": "hooks are in", "mcp_servers.json": "move its servers",
		"mcp-needs-auth-cache.json": "", "remote-settings.json": "", "settings.json.bak": "", "settings.example.json": "",
		"settings.md": "", "hooks": "", "mcp": "", "todos.json": ""} {
		if got := misspelt(dir, name, false); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
