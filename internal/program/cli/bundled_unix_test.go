//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// use is an answer with one call.
func use(name string, input map[string]any, want ...string) llmtest.Answer {
	return llmtest.Answer{Want: want, Calls: []llmtest.Call{{Name: name, Input: input}}}
}

// taking makes an answer take a value from the request.
func taking(a llmtest.Answer, name, expr string) llmtest.Answer {
	a.Take = map[string]string{name: expr}
	return a
}

func says(text string, want ...string) llmtest.Answer { return llmtest.Answer{Want: want, Text: text} }

// asked waits for the question about a file and answers it.
func (t *terminal) asked(file, answer string) {
	t.Helper()
	t.expect(`(?s)` + file + `.*\x1b\[\?2004h  \? `)
	t.types(answer + "\r")
}

// reads compares a file with a text; "" means that the file does not exist.
func (d fixture) reads(t *testing.T, path, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if got := strings.TrimSpace(string(data)); got != strings.TrimSpace(want) || err != nil && want != "" {
		t.Errorf("%s contains %q, %v; want %q", path, got, err, want)
	}
}

// TestUpdateConfig: the edit is drafted and checked by the schema; the write is asked for each time, whatever is
// granted; a broken file is put back; a refused write changes nothing.
func TestUpdateConfig(t *testing.T) {
	t.Parallel()
	file := `user: (\S+/settings\.json)`
	set := "{\n  \"permissions\": {\n    \"allow\": [\"Bash(npm test:*)\"]\n  }\n}\n"
	d := newFixture(t, serve(t,
		use("bash", map[string]any{"command": "knack settings diff permissions.allow 5 --add"}, "The settings files here"),
		use("bash", map[string]any{"command": "knack settings diff permissions.allow 'Bash(npm test:*)' --add"},
			"permissions.allow is a list of numbers|not a rule|5 is|number"),
		taking(use("write", map[string]any{"path": "${file}", "content": "{\"permissions\": {\"allow\": 1}}\n"},
			`\+ +"allow": \["Bash\(npm test:\*\)"\]`), "file", file),
		use("bash", map[string]any{"command": "knack settings check"}, "Wrote|wrote|bytes"),
		taking(use("write", map[string]any{"path": "${file}", "content": set}, `settings\.json:1:\d+`), "file", file),
		use("bash", map[string]any{"command": "knack settings check"}),
		says("It is set.", "the settings are valid"),
		taking(use("edit", map[string]any{"path": "${file}", "old_text": "npm test:*", "new_text": "npm:*"}), "file", file),
		says("Nothing was changed.", "[Nn]ot|refused|declined"),
	))
	k := d.open(t, "--allow", "Write", "--allow", "Edit", "--permission-mode", "acceptEdits")
	k.enters("/update-config stop asking about npm test")
	k.asked(`settings\.json`, "y")
	k.asked(`settings\.json`, "y")
	k.expect(`It is set\.`)
	settings := filepath.Join(filepath.Dir(d.dir), ".config/knack/settings.json")
	d.reads(t, settings, set)
	k.enters("/update-config allow all of npm")
	k.asked(`settings\.json`, "n")
	k.expect(`Nothing was changed\.`)
	k.leaves()
	d.reads(t, settings, set)
}

// TestKeybindings: the skill is on where customisation is on; the file is checked after each write, which is asked for.
func TestKeybindings(t *testing.T) {
	t.Parallel()
	file := `key bindings is (\S+?/keybindings\.json)`
	good := "{\"submit\": \"ctrl+s\", \"newline\": [\"enter\", \"alt+enter\"]}\n"
	d := newFixture(t, serve(t,
		use("bash", map[string]any{"command": "knack settings keys"}, "It does not exist yet"),
		taking(use("write", map[string]any{"path": "${file}", "content": "{\"submit\": []}\n"}, `submit +enter +send`),
			"file", file),
		use("bash", map[string]any{"command": "knack settings keys"}),
		taking(use("write", map[string]any{"path": "${file}", "content": good}, "no key is left to send a message"), "file",
			file),
		use("bash", map[string]any{"command": "knack settings keys"}),
		says("Ctrl-S sends now.", `submit +ctrl\+s \(default enter\)`, `keybindings\.json is valid`),
	))
	d.file(t, "../.config/knack/settings.json", `{"keybindings": {"customize": true}}`)
	k := d.open(t, "--allow", "Write", "--permission-mode", "acceptEdits")
	k.enters("/keybindings ctrl+s sends")
	k.asked(`keybindings\.json`, "y")
	k.asked(`keybindings\.json`, "y")
	k.expect(`Ctrl-S sends now\.`)
	k.leaves()
	d.reads(t, filepath.Join(filepath.Dir(d.dir), ".config/knack/keybindings.json"), good)
}

// TestSkillify: the session's messages and calls become a skill with arguments that passes the check.
func TestSkillify(t *testing.T) {
	t.Parallel()
	text := "---\nname: release-notes\ndescription: Writes the notes of a release. Use when somebody asks for release notes.\n" +
		"argument-hint: \"[version]\"\narguments: [version]\nallowed-tools: Bash(git log:*)\n---\n# Release notes\n\n" +
		"1. Run `git log` since $version. If the tag does not exist, ask.\n\n## Check\n\nEvery line names a change.\n"
	broken := strings.Replace(text, "name: release-notes", "name: Release Notes", 1)
	path := ".claude/skills/release-notes/SKILL.md"
	d := newFixture(t, serve(t,
		call("c1", "echo notes of v1 > notes.md"), says("The notes are written."),
		use("write", map[string]any{"path": path, "content": broken}, "What happened in this session",
			`user: notes for v1`, `bash \{"command":"echo notes of v1 > notes\.md"\} → ok`, "model: The notes are written"),
		use("bash", map[string]any{"command": "knack skill check .claude/skills/release-notes"}),
		use("write", map[string]any{"path": path, "content": text}, "1 error"),
		use("bash", map[string]any{"command": "knack skill check .claude/skills/release-notes"}),
		says("Type /release-notes v2.", "0 errors, 0 warnings"),
	))
	k := d.open(t)
	k.enters("notes for v1")
	k.asked(`notes\.md`, "y")
	k.expect(`The notes are written\.`)
	k.enters("/skillify")
	k.asked(`release-notes`, "y")
	k.asked(`release-notes`, "y")
	k.expect(`Type /release-notes v2\.`)
	k.leaves()
	d.reads(t, filepath.Join(d.dir, path), text)
}
