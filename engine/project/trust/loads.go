package trust

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/layout"
)

// loads describes, one line each, what an item would do once it is trusted, for a person to check. It
// is deliberately inexact: an extra line does no harm, and nothing depends on the result.
func loads(k Kind, at string, data []byte) []string {
	switch k {
	case Settings, MCP:
		lines := slices.DeleteFunc(loadsJSON(data), func(line string) bool {
			key, _, _ := strings.Cut(line, ":")
			key, _, _ = strings.Cut(key, ".")
			return k == Settings && !layout.SettingCounts(at, key)
		})
		if k == Settings && slices.ContainsFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "hooks.") && decides(line)
		}) {
			lines = append(lines, mayAllow)
		}
		return lines
	case Skill, Command, Template, Agent:
		return loadsMarkdown(data)
	case layout.Style:
		return []string{"is added to the system prompt if the setting outputStyle names it"}
	case System:
		return []string{"replaces or extends the system prompt"}
	case Hooks:
		return []string{"may be run by hooks in settings"}
	case layout.Program:
		return []string{"may be run, in the sandbox, as a command that you type"}
	case layout.Tool:
		lines := []string{"may be run as a tool of the model, in the sandbox and after a question"}
		return append(lines, loadsTool(data)...)
	case layout.Kit:
		return append([]string{"counts if you choose it by its name (--kit, /kit), and only restricts"}, loadsJSON(data)...)
	}
	return nil
}

// mayAllow is what hooks of some events can do besides.
const mayAllow = "hooks: may allow calls about which you would be asked"

// decides reports whether a line is about the hooks of an event that may allow a call.
func decides(line string) bool {
	return strings.Contains(line, "PreToolUse") || strings.Contains(line, "PermissionRequest")
}

// loadsTool says what a file of tools defines: the whole file, or the JSON after the mark of a tool. A program that
// stays starts without a question.
func loadsTool(data []byte) (lines []string) {
	texts := [][]byte{data}
	for line := range bytes.Lines(data[:min(len(data), HeadSize)]) {
		if _, text, ok := bytes.Cut(line, []byte("knack-tool:")); ok {
			texts = append(texts, text)
		}
	}
	for _, text := range texts {
		var d struct {
			Type    string
			Command json.RawMessage
			Hooks   []struct{ Event string }
		}
		// What follows the definition, such as the end of a comment, does not matter.
		var raw json.RawMessage
		if json.NewDecoder(bytes.NewReader(text)).Decode(&raw) != nil || json.Unmarshal(raw, &d) != nil {
			continue
		}
		lines = append(lines, keysOf(raw)...)
		if name := programOf(d.Command); name != "" && !strings.HasPrefix(name, "./") {
			lines = append(lines, name+" is a program of this machine: files of the project that it reads and runs, as make "+
				"does, are not part of what you approve")
		}
		if d.Type != "process" {
			continue
		}
		lines = append(lines, "stays, in the sandbox, until the session ends")
		for _, h := range d.Hooks {
			lines = append(lines, "hooks: runs on "+h.Event+", without a question")
		}
		if slices.ContainsFunc(d.Hooks, func(h struct{ Event string }) bool { return decides(h.Event) }) {
			lines = append(lines, mayAllow)
		}
	}
	return lines
}

// programOf returns the first word of a command, which is a string or a list of words; "": there is none.
func programOf(command json.RawMessage) string {
	var line string
	var words []string
	if json.Unmarshal(command, &line) == nil {
		words = strings.Fields(line)
	} else {
		json.Unmarshal(command, &words) // anything else is refused where the tool is read
	}
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// keysOf shows the keys of a definition, but not what only describes it and its input.
func keysOf(definition json.RawMessage) (lines []string) {
	var all map[string]any
	if json.Unmarshal(definition, &all) != nil {
		return nil
	}
	withoutWords(all)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if text, err := json.Marshal(all[key]); err == nil {
			lines = append(lines, key+": "+string(text))
		}
	}
	return lines
}

// withoutWords removes descriptions and schemas from a value.
func withoutWords(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "description")
		delete(v, "inputSchema")
		for _, x := range v {
			withoutWords(x)
		}
	case []any:
		for _, x := range v {
			withoutWords(x)
		}
	}
}

// wordKeys are the frontmatter keys that have no effect beyond their text, in lower case and without
// separators. All other keys are shown, because different readers accept different spellings.
var wordKeys = []string{
	"name", "aliases", "description", "license", "compatibility", "metadata", "version", "author",
	"argumenthint", "arguments", "whentouse",
}

// notSeparator drops what may stand between the words of a key.
func notSeparator(r rune) rune {
	if r == '-' || r == '_' || r == ' ' {
		return -1
	}
	return r
}

func loadsMarkdown(data []byte) []string {
	var lines []string
	file := frontmatter.Split(data)
	entries, _ := frontmatter.Parse(file.Head, file.Line)
	for _, e := range entries {
		key := strings.ToLower(strings.Map(notSeparator, e.Key))
		if key == "metadata" {
			value, _ := frontmatter.JSON(e.Value)
			lines = append(lines, loadsMetadata(value)...)
		}
		if slices.Contains(wordKeys, key) {
			continue
		}
		text := e.Value.Value
		if e.Value.Kind != yaml.ScalarNode {
			value, err := frontmatter.JSON(e.Value)
			if text = string(value); err != nil {
				text = err.Error()
			}
		}
		lines = append(lines, strings.TrimSpace(e.Key+": "+text))
	}
	return lines
}

// loadsMetadata shows Knack's own keys in the metadata of a skill, such as the secrets that it asks for.
func loadsMetadata(value json.RawMessage) (lines []string) {
	var all map[string]json.RawMessage
	json.Unmarshal(value, &all)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(strings.ToLower(key), "knack") {
			lines = append(lines, "metadata."+key+": "+string(all[key]))
		}
	}
	return lines
}

// commands returns the inline commands that run when a text is invoked.
func commands(k Kind, data []byte) []string {
	if k != Skill && k != Command {
		return nil
	}
	body := strings.TrimLeft(string(frontmatter.Split(data).Body), "\r\n")
	return knack.InlineCommands(body)
}

// programs reports whether a file defines an MCP server that is a program, or that has a program which
// prints headers.
func programs(k Kind, data []byte) (found bool, wants []string) {
	if k != Settings && k != MCP {
		return false, nil
	}
	var doc struct {
		Servers map[string]any `json:"mcpServers"`
	}
	data = jsonc.Plain(bytes.TrimPrefix(data, []byte("\ufeff")))
	if json.Unmarshal(data, &doc) != nil || doc.Servers == nil && k == MCP {
		json.Unmarshal(data, &doc.Servers) // the file may contain the servers without the key mcpServers
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Servers)) {
		keys, _ := doc.Servers[name].(map[string]any)
		dirs, _ := keys["write"].([]any)
		for _, dir := range dirs {
			if text, _ := dir.(string); text != "" && !slices.Contains(wants, text) {
				wants = append(wants, text)
			}
		}
		for key, value := range keys {
			if text, _ := value.(string); text != "" && (strings.EqualFold(key, "command") ||
				strings.EqualFold(key, "headersHelper")) {
				found = true
			}
		}
	}
	return found, wants
}

// idle reports whether a settings file of another program has only keys that have no effect: there is nothing to
// approve.
func idle(at string, data []byte) bool {
	var doc map[string]json.RawMessage
	if json.Unmarshal(jsonc.Plain(bytes.TrimPrefix(data, []byte("\ufeff"))), &doc) != nil || len(doc) == 0 {
		return false
	}
	for key := range doc {
		if key != "$schema" && layout.SettingCounts(at, key) {
			return false
		}
	}
	return !layout.SettingCounts(at, "")
}

func loadsJSON(data []byte) []string {
	var v any
	if json.Unmarshal(jsonc.Plain(bytes.TrimPrefix(data, []byte("\ufeff"))), &v) != nil {
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
	return lines // without a limit: otherwise harmless lines could hide important ones
}
