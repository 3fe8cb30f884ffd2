package trust

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// loads says in lines what an item would do once it is trusted: what a person
// should look at first. It reads roughly on purpose: a line too many does no
// harm, and what it says decides nothing.
func loads(k Kind, data []byte) []string {
	switch k {
	case Settings, MCP:
		return loadsJSON(data)
	case Skill, Command, Template, Agent:
		return loadsMarkdown(data)
	case System:
		return []string{"replaces or extends the system prompt"}
	case Hooks:
		return []string{"may be run by hooks in settings"}
	}
	return nil
}

// Keys of a head that make a file do more than be text.
var activeKeys = []string{
	"allowed-tools", "allowed_tools", "tools", "hooks", "shell", "model", "context",
	"permissionMode", "mcpServers", "skills",
}

func loadsMarkdown(data []byte) []string {
	var lines []string
	head, inKey, fences, commands := false, false, false, 0
	n := 0
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), " \t\r\n")
		if n++; n == 1 && strings.TrimPrefix(text, "\ufeff") == "---" {
			head = true
			continue
		}
		if head {
			if text == "---" {
				head = false
				continue
			}
			if key, _, ok := strings.Cut(text, ":"); ok && !strings.HasPrefix(text, " ") {
				inKey = slices.Contains(activeKeys, strings.Trim(key, `"' `))
			}
			if inKey {
				lines = append(lines, text)
			}
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(text), "```!") {
			fences = true
			commands++
		}
		commands += strings.Count(text, "!`")
	}
	if commands > 0 {
		lines = append(lines, fmt.Sprintf("commands that run when it is invoked: %d", commands))
		if fences {
			lines[len(lines)-1] += " (some in fences)"
		}
	}
	return lines
}

func loadsJSON(data []byte) []string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return []string{"not JSON: only what it denies would count"}
	}
	var lines []string
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			keys := make([]string, 0, len(v))
			for k := range v {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			for _, k := range keys {
				walk(strings.TrimPrefix(at+"."+k, "."), v[k])
			}
		case []any:
			for _, e := range v {
				walk(at, e)
			}
		default:
			if at == "$schema" {
				return
			}
			text, _ := json.Marshal(v)
			lines = append(lines, at+": "+string(text))
		}
	}
	walk("", v)
	if len(lines) > 50 {
		lines = append(lines[:50], fmt.Sprintf("and %d more", len(lines)-50))
	}
	return lines
}
