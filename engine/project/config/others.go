package config

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

//go:embed others.txt
var othersText string

// An other is what a setting of another program means here.
type other struct {
	own    string            // the setting that it counts as; "": it does not count
	values map[string]string // theirs that have another name here
	advice string            // what to do, if it does not count
}

// others returns what the settings of other programs mean, by program and key. It must not be changed.
var others = sync.OnceValue(func() map[string]other {
	all := map[string]other{}
	for line := range strings.Lines(othersText) {
		words := strings.Fields(line)
		if len(words) < 4 || words[0] == "#" {
			continue
		}
		o := other{}
		if words[2] == ":" {
			_, o.advice, _ = strings.Cut(strings.TrimSpace(line), " : ")
		} else {
			o.own, o.values = words[3], map[string]string{}
			for _, pair := range words[4:] {
				theirs, ours, _ := strings.Cut(pair, "=")
				o.values[theirs] = ours
			}
		}
		for name := range strings.SplitSeq(words[1], ",") {
			all[words[0]+" "+name] = o
			if o.advice == "any" { // that line stands before
				all[words[0]+" "+name] = all["any "+name]
			}
		}
	}
	return all
})

// An OtherDir is where a program keeps files that have no effect here.
type OtherDir struct {
	Program       string // in others.txt; "root": any
	Home, Project string // relative to the user's home and the project, with slashes; "": none
}

// OtherDirs returns the directories of other programs. What others.txt lists of them is only named; Knack reads nothing
// else of Codex, OpenCode, Cursor and Gemini CLI.
func OtherDirs() []OtherDir {
	return []OtherDir{{"claude-files", ".claude", ".claude"}, {"claude-hooks", ".claude/hooks", ".claude/hooks"},
		{"claude-user", ".claude", ""}, {"claude-project", "", ".claude"}, {"pi-files", ".pi/agent", ".pi"},
		{"agents", ".agents", ".agents"},
		{"codex", ".codex", ".codex"}, {"opencode", ".config/opencode", ".opencode"},
		{"cursor", ".cursor", ".cursor"}, {"gemini", ".gemini", ".gemini"},
		{"github", "", ".github"}, {"junie", "", ".junie"}, {"kiro", ".kiro", ".kiro"}, {"roo", "", ".roo"},
		{"vscode", "", ".vscode"}, {"windsurf", "", ".windsurf"}, {"amazonq", "", ".amazonq"},
		{"augment", ".augment", ".augment"},
		{"cline", ".cline", ".cline"}, {"continue", ".continue", ".continue"}, {"factory", ".factory", ".factory"},
		{"goose", "", ".goose"}, {"kilocode", ".kilocode", ".kilocode"}, {"openhands", "", ".openhands"},
		{"qwen", ".qwen", ".qwen"}, {"trae", "", ".trae"}, {"root", "", "."}}
}

// Files returns the names in the directory that may have an effect in the other program, sorted.
func (d OtherDir) Files() (names []string) {
	for key := range others() {
		if name, ok := strings.CutPrefix(key, d.Program+" "); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Advice returns what a person can do who has one of Files.
func (d OtherDir) Advice(name string) string { return others()[d.Program+" "+name].advice }

// Advice returns what a person can do who has set a key of another program's settings that has no effect; "": nothing.
// path is the file.
func Advice(path, name string) string {
	program := "claude "
	if strings.Contains(path, "/.pi/") {
		program = "pi "
	}
	if program := keyProgram(path); program != "" {
		return others()[program+" "+name].advice
	}
	if IsClaudes(name) { // of the environment
		name = "env." + name
	}
	if variable, ok := strings.CutPrefix(name, "env."); ok && IsClaudes(variable) &&
		others()["claude "+name].advice == "" {
		return "" // that of other variables does not help
	}
	for {
		if o, ok := others()[program+name]; ok {
			if o.own != "" {
				return o.own + ", in your own settings"
			}
			return o.advice
		}
		for word, where := range map[string]string{"managed": "managed files", "user": "your own files",
			"flags": "--settings and --managed-settings"} {
			if program == "claude " && slices.Contains(effects()[name], word) {
				return "it counts only in " + where
			}
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return misspeltKey(program, name)
		}
		name = name[:i]
	}
}

// misspeltKey says what a person meant by a key that Claude Code's settings do not have; "": nobody knows.
func misspeltKey(program, name string) string {
	if program != "claude " || effects()[name] != nil {
		return ""
	}
	if name == "mcpServers" {
		return "move them to .mcp.json in the project, or knack mcp add"
	}
	var known []string
	for key := range effects() {
		if top, _, _ := strings.Cut(key, "."); !slices.Contains(known, top) {
			known = append(known, top)
		}
	}
	slices.Sort(known)
	if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); i >= 0 {
		return "no key is called so; did you mean " + known[i]
	}
	if near := similar.Names(name, known); len(near) > 0 {
		return "no key is called so; did you mean " + near[0]
	}
	return ""
}

// keyProgram returns the first word in others.txt for the keys of a file of which Knack reads none; "": it is none.
func keyProgram(path string) string {
	switch name := path[strings.LastIndexByte(path, '/')+1:]; name {
	case "config.toml", "opencode.json":
		return name
	case "opencode.jsonc":
		return "opencode.json"
	}
	return ""
}

// OtherKeys returns the keys at the top of a settings file of Codex or OpenCode, sorted, so that each can be named. ok
// is false if the file is none, or cannot be read.
func OtherKeys(path string) (keys []string, ok bool) {
	program := keyProgram(filepath.ToSlash(path))
	if program == "" {
		return nil, false
	}
	data, err := regular.Read(path, maxSize)
	if err != nil {
		return nil, false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	top := map[string]any{}
	if program == "config.toml" {
		_, err = toml.Decode(string(data), &top)
	} else {
		err = json.Unmarshal(jsonc.Plain(data), &top)
	}
	if err != nil {
		return nil, false
	}
	delete(top, "$schema")
	return slices.Sorted(maps.Keys(top)), true
}

// OtherVariables returns the variables of Claude Code without effect here about which something can be done, sorted.
func OtherVariables() (names []string) {
	for key := range others() {
		if name, ok := strings.CutPrefix(key, "claude env."); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// IsClaudes reports whether a variable is one that Claude Code itself reads. Whoever set it meant Claude Code, even
// though hooks get it, too.
func IsClaudes(variable string) bool {
	return slices.ContainsFunc([]string{"CLAUDE_", "ANTHROPIC_", "DISABLE_", "ENABLE_", "MAX_MCP_", "MAX_THINKING_",
		"BASH_", "MCP_", "SLASH_COMMAND_", "USE_BUILTIN_", "VERTEX_", "API_TIMEOUT_"}, func(prefix string) bool {
		return strings.HasPrefix(variable, prefix)
	})
}

// translate adds the settings that a setting of another program, or what is below it, counts as, and returns the names
// of those without effect.
func (from *layer) translate(to *node, program, name string, m member) (unused []string) {
	o, known := others()[program+" "+name]
	below := program + " " + name + "."
	if !known && m.val.kind == 'o' {
		for key := range others() {
			if strings.HasPrefix(key, below) {
				for _, inner := range m.val.members {
					if inner.val == m.val.get(inner.key) {
						unused = append(unused, from.translate(to, program, name+"."+inner.key, inner)...)
					}
				}
				return unused
			}
		}
	}
	if o.own == "" {
		return []string{name}
	}
	if only := o.values["only"]; only != "" && (m.val.kind != 'b' || fmt.Sprint(m.val.yes) != only) {
		return []string{name}
	}
	i := slices.IndexFunc(table(), func(k key) bool { return k.name == o.own })
	k, val := table()[i], *m.val
	if ours, ok := o.values[val.text]; ok && val.kind == 's' {
		val.text = ours
	}
	switch {
	case val.kind == 's' && val.text == "-" || val.kind == '0':
		return nil
	case k.kind == list && val.kind == 's':
		one := val
		val.kind, val.items = 'l', []*node{&one}
	case k.expected(&val) != "", k.open() && !slices.Contains(k.enum, val.text):
		return []string{name}
	}
	to.put(strings.Split(k.name, "."), m.at, &val)
	return nil
}

// put sets what lies below an object on a path of keys.
func (n *node) put(path []string, at int, val *node) {
	if len(path) > 1 {
		inner := n.get(path[0])
		if inner == nil {
			inner = &node{at: val.at, end: val.end, kind: 'o'}
			n.members = append(n.members, member{key: path[0], at: at, val: inner})
		}
		inner.put(path[1:], at, val)
		return
	}
	n.members = append(n.members, member{key: path[0], at: at, val: val})
}

// fromOthers reports whether settings of other programs may count as a setting.
func fromOthers(name string) bool {
	for _, o := range others() {
		if o.own == name {
			return true
		}
	}
	return false
}
