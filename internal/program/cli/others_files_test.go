//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// otherFiles are the files of Claude Code, Pi, Codex and OpenCode that people write and that have an effect here, by
// what they are; ~ is the user's home. MARK stands for a word that nothing else has. Files without effect are in the
// table that TestOthers of package config makes.
const otherFiles = `context CLAUDE.md .claude/CLAUDE.md CLAUDE.local.md AGENTS.md .claude/AGENTS.md ~/.claude/CLAUDE.md
doctor ~/.pi/agent/AGENTS.md ~/.pi/agent/CLAUDE.md
rule .claude/rules/r.md ~/.claude/rules/r.md
skill .claude/skills/one/SKILL.md .agents/skills/two/SKILL.md .pi/skills/three/SKILL.md ~/.claude/skills/four/SKILL.md
	~/.agents/skills/five/SKILL.md ~/.pi/agent/skills/six/SKILL.md
skill .claude/commands/seven.md ~/.claude/commands/eight.md
agent .claude/agents/nine.md ~/.claude/agents/ten.md
system .pi/APPEND_SYSTEM.md
system ~/.pi/agent/SYSTEM.md
style .claude/output-styles/chosen.md
template .pi/prompts/eleven.md ~/.pi/agent/prompts/twelve.md
settings .claude/settings.json .claude/settings.local.json ~/.claude/settings.json
tools ~/.pi/agent/settings.json
servers .mcp.json .pi/mcp.json ~/.claude.json ~/.pi/agent/mcp.json`

// textOfOther returns the text of a file of a kind with a mark.
func textOfOther(kind, mark string) string {
	switch kind {
	case "skill", "agent", "template":
		return fmt.Sprintf("---\ndescription: Does %s when asked\n---\nText.\n", mark)
	case "settings":
		return fmt.Sprintf(`{"permissions": {"deny": ["Bash(%s)"]}, "outputStyle": "chosen"}`, mark)
	case "tools":
		return `{"defaultTools": ["read", "bash", "edit"]}`
	case "servers":
		return fmt.Sprintf(`{"mcpServers": {%q: {"command": "true"}}}`, mark)
	}
	return "Text of " + mark + ".\n"
}

// TestOtherFiles: files of other programs that have an effect have it, as a request, a list or the settings show;
// the table is made by writing each.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	server := serve(t, llmtest.Answer{Text: "over"})
	var requests lockedBuffer
	server.Record(&requests)
	d := newFixture(t, server)
	d.file(t, ".git/HEAD", "ref: refs/heads/main\n")
	type row struct{ kind, path, mark string }
	var rows []row
	for line := range strings.Lines(strings.ReplaceAll(otherFiles, "\n\t", " ")) {
		words := strings.Fields(line)
		for _, path := range words[1:] {
			r := row{words[0], path, fmt.Sprintf("mark%dof", len(rows))}
			switch r.kind {
			case "tools":
				r.mark = "Write"
			case "doctor": // named, because another comes first
				r.mark = strings.TrimPrefix(path, "~/") + `", "message": "not sent`
			}
			if path = filepath.Clean(path); strings.HasPrefix(path, "~/") {
				path = filepath.Join("..", path[2:])
			}
			d.file(t, path, textOfOther(r.kind, r.mark))
			rows = append(rows, r)
		}
	}
	d.output(t, "trust", "--yes")
	d.output(t, "-p", "--agent", "none", "hello")
	seen := requests.String()
	for _, args := range []string{"mcp list", "settings show permissions.deny", "-p /help", "skill list",
		"doctor --json"} {
		seen += strings.Join(strings.Fields(d.output(t, strings.Fields(args)...)), " ")
	}
	var table []string
	for _, r := range rows {
		if !strings.Contains(seen, r.mark) {
			t.Errorf("%s: %s of it is nowhere", r.path, r.mark)
		}
		how := "as " + r.kind
		if r.kind == "doctor" {
			how = "as context, if no other of the user's comes first; else named"
		}
		for _, program := range programsOf(r.path) {
			table = append(table, otherRow(program, "file", r.path, "used | "+how))
		}
	}
	matchesTable(t, "others-files", table)
}

// programsOf returns the programs that have a file.
func programsOf(path string) []string {
	switch {
	case strings.HasPrefix(path, "AGENTS"), strings.Contains(path, ".agents/"):
		return []string{"Codex", "OpenCode", "Pi"}
	case strings.Contains(path, ".pi/"):
		return []string{"Pi"}
	}
	return []string{"Claude Code"}
}

// A lockedBuffer is a buffer that a server writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(data)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
