package permission

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// CallSubjects names the subjects of a call of a known tool by its name, its
// aliases included, and its input, with the field names of other agents. Paths
// are made absolute from dir. A tool that is not known has one subject: its
// own name, with no text.
func CallSubjects(name string, input json.RawMessage, dir string) ([]Subject, error) {
	var in map[string]json.RawMessage
	if len(input) > 0 {
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, fmt.Errorf("the input of %s is no JSON object: %w", name, err)
		}
	}
	field := func(names ...string) (string, error) {
		for _, n := range names {
			raw, ok := in[n]
			if !ok || string(raw) == "null" {
				continue
			}
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return "", fmt.Errorf("%s of %s is no text", n, name)
			}
			return s, nil
		}
		return "", nil
	}
	kind, _ := kindOf(name)
	one := func(required bool, names ...string) ([]Subject, error) {
		text, err := field(names...)
		if err != nil {
			return nil, err
		}
		if text == "" && required {
			return nil, fmt.Errorf("%s needs %s", name, names[0])
		}
		return []Subject{{Kind: kind, Text: text, Tool: toolName(name)}}, nil
	}
	switch kind {
	case "Bash":
		return one(true, "command")
	case "Read", "Edit":
		search := toolName(name) == "grep" || toolName(name) == "find" || toolName(name) == "ls"
		list, err := one(!search, "path", "file_path", "filePath", "notebook_path")
		if err != nil {
			return nil, err
		}
		list[0].Text = absolute(list[0].Text, dir)
		return list, nil
	case "Skill":
		list, err := one(true, "skill", "command", "name")
		if err == nil {
			list[0].Text = strings.TrimLeft(strings.TrimSpace(list[0].Text), "/ ")
		}
		return list, err
	case "Agent":
		return one(false, "agent", "subagent_type", "agent_type")
	case "WebFetch":
		return one(true, "url")
	}
	return []Subject{{Kind: kind, Tool: toolName(name)}}, nil
}

// toolName is the name that Knack's tool has where another agent's is given.
func toolName(name string) string {
	if kind, tool := kindOf(name); tool != "" {
		return tool
	} else if kind == "Bash" || kind == "Read" || kind == "Edit" {
		return strings.ToLower(kind)
	} else if strings.HasPrefix(kind, "mcp__") {
		return name
	} else {
		return kind
	}
}

// absolute makes a path as tools take it absolute: "~" and file:// stay for
// [Rules.Decide] and the tool to expand alike.
func absolute(p, dir string) string {
	p = strings.TrimPrefix(strings.TrimPrefix(p, "@"), "file://")
	switch {
	case p == "":
		return dir
	case strings.HasPrefix(p, "~") || filepath.IsAbs(p) || strings.HasPrefix(p, "/"):
		return p
	}
	return dir + "/" + p // not cleaned: links may stand before ".."
}
