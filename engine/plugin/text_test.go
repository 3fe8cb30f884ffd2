package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
)

// TestTOMLCommand: a command of Gemini CLI is used as one in Markdown, and only with the content that Check allows.
func TestTOMLCommand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "commands", "git", "commit.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{filepath.Join(dir, "gemini-extension.json"): `{"name":"gem"}`,
		file: "\ufeffdescription = \"Commits: all.\"\nprompt = \"\"\"Commit {{args}} of !{git diff} and @{docs/a.md}, not !{a {b}}.\"\"\"\n",
		filepath.Join(dir, "commands", "bad.toml"): "prompt = 1"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	p := Read(FS(root), Options{})
	changed := false
	l := Location{Dir: dir, Origin: knack.Origin{Kind: knack.Plugin, Trust: knack.Trusted},
		Check: func(string, []byte, bool) error {
			if changed {
				return knack.Problem{Code: knack.CodeChanged, Severity: knack.Error, Message: "changed"}
			}
			return nil
		}}
	cat := knack.Load(t.Context(), p.Sources(l)...)
	k := cat.Skill("gem:git:commit")
	if k == nil || k.Description != "Commits: all." || len(cat.Skills()) != 1 {
		t.Fatal(k, cat.Problems())
	}
	if len(cat.Problems()) != 1 || !strings.Contains(cat.Problems()[0].Message, "incompatible types") {
		t.Error(cat.Problems())
	}
	asks, err := k.Asks(t.Context())
	if err != nil || len(asks.Commands) != 1 || asks.Commands[0] != "git diff" {
		t.Error(asks, err)
	}
	text, err := k.Read(t.Context())
	if want := "---\ndescription: \"Commits: all.\"\n---\nCommit $ARGUMENTS of !`git diff` and @docs/a.md, not !{a {b}}."; err !=
		nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	changed = true
	if _, err := k.Read(t.Context()); err == nil {
		t.Error("changed content is used")
	}
}
