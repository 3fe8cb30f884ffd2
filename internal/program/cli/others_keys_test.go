//go:build unix

package cli

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// otherFields are the keys of frontmatter that other programs read, by the kind of file; key=value gives a value that
// is no text. Those of Claude Code 2.1.332 are from its program, those of the others from their documentation.
func otherFields() map[string]struct{ file, keys string } {
	return map[string]struct{ file, keys string }{
		"skill": {".claude/skills/K/SKILL.md", `name description when_to_use allowed-tools=Read disallowed-tools=Write argument-hint arguments=a
		disable-model-invocation=true user-invocable=true model=opus effort=high context=fork agent=general-purpose background=true fallback=true
		hooks={} paths=src/** shell=bash version license compatibility metadata={} created_by improved_by mode=true author type
		originSessionId hide-from-slash-command-tool color tools=Read mcpServers={} subtask=true`},
		"command": {".claude/commands/K.md", `name description when_to_use allowed-tools=Read disallowed-tools=Write argument-hint arguments=a
		disable-model-invocation=true user-invocable=true model=opus effort=high context=fork agent=general-purpose hooks={} paths=src/**
		shell=bash version tools=Read subtask=true`},
		"agent": {".claude/agents/K.md", `name=k description tools=Read disallowedTools=Write model=opus effort=high permissionMode=plan
		maxTurns=3 skills=[] mcpServers=[] hooks={} background=true isolation=worktree memory=user initialPrompt omitClaudeMd=true
		autoCompactWindow=100000 observer observerMessage observeSubagents=true observeToolResults=true experimental={} color=red
		mode=subagent temperature=1 top_p=1 prompt permission={} disable=true hidden=true steps=3 maxSteps=3 variant`},
		"rule": {".claude/rules/K.md", `paths=src/** globs=src/** alwaysApply=true description name`},
		"output style": {".claude/output-styles/chosen.md",
			`name=chosen description keep-coding-instructions=true force-for-plugin=true`},
		"prompt": {".pi/prompts/K.md", `description argument-hint name model=opus agent allowed-tools=Read subtask=true`},
	}
}

// TestOtherFields: each key of frontmatter that other programs read has an effect here, or knack doctor names it;
// the table is made by writing each.
func TestOtherFields(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t))
	d.file(t, ".claude/settings.json", `{"outputStyle": "chosen"}`)
	d.file(t, ".git/HEAD", "ref: refs/heads/main\n")
	called := func(kind, key string) string {
		return kind[:2] + "-" + strings.ToLower(strings.ReplaceAll(key, "_", "-"))
	}
	for what, kind := range otherFields() {
		all := ""
		for field := range strings.FieldsSeq(kind.keys) {
			key, value, ok := strings.Cut(field, "=")
			all += key + ": " + cmp.Or(value, "text") + "\n"
			if !ok {
				value = "text"
			}
			text := map[string]string{"description": "Does a thing when asked", key: value}
			if what == "skill" || what == "agent" || key == "name" && what == "command" {
				text["name"] = called(what, key)
			}
			head := ""
			for _, name := range slices.Sorted(maps.Keys(text)) {
				head += name + ": " + text[name] + "\n"
			}
			d.file(t, strings.Replace(kind.file, "K", called(what, key), 1), "---\n"+head+"---\nText.\n")
		}
		if !strings.Contains(kind.file, "K") {
			d.file(t, kind.file, "---\n"+all+"---\nText.\n")
		}
	}
	d.output(t, "trust", "--yes")
	var doctor struct {
		Unused []struct {
			Path   string
			Keys   []string
			Advice map[string]string
		}
		Problems []struct{ Path, Message, Hint string }
	}
	out := d.output(t, "doctor", "--json")
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):strings.LastIndex(out, "}")+1]), &doctor); err != nil {
		t.Fatal(err, out)
	}
	var table []string
	for _, name := range slices.Sorted(maps.Keys(otherFields())) {
		kind := otherFields()[name]
		fields := strings.Fields(kind.keys)
		slices.SortFunc(fields, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
		for _, field := range fields {
			key, _, _ := strings.Cut(field, "=")
			file := strings.Replace(kind.file, "K", called(name, key), 1)
			row := "used | "
			for _, p := range doctor.Problems {
				if !strings.HasSuffix(p.Path, "/"+file) {
					continue
				}
				switch {
				case strings.Contains(p.Message, key+" has no effect"):
					row = "named | " + strings.TrimSpace(cmp.Or(p.Hint, "no effect"))
				case strings.HasPrefix(p.Message, key+" is not a key of an agent"): // it may have been to restrict it
					row = "named | the agent does not start: write tools, disallowedTools or permissionMode"
				case !strings.HasPrefix(p.Message, "the frontmatter has no") && strings.Contains(kind.file, "K"):
					t.Errorf("%s: %s", file, p.Message)
				}
			}
			for _, u := range doctor.Unused {
				i := slices.IndexFunc(u.Keys, func(k string) bool { return strings.HasPrefix(k, key+" (") })
				if i >= 0 && row == "used | " && strings.Contains("/"+file, u.Path[strings.LastIndex(u.Path, "/.claude/")+1:]) {
					row = "named | " + cmp.Or(u.Advice[u.Keys[i]], "no effect")
				}
			}
			if row == "named | no effect" {
				row = "not a thing here"
			}
			table = append(table, otherRow(programOfField(name, key), "key of "+article(name), key, row))
		}
	}
	matchesTable(t, "others-fields", table)
}

// programOfField returns the program that has a key in the frontmatter of a kind of file.
func programOfField(kind, key string) string {
	switch {
	case kind == "prompt":
		return "Pi"
	case kind == "rule" && (key == "globs" || key == "alwaysApply"):
		return "Others"
	case key == "subtask", kind == "agent" && slices.Contains(strings.Fields(
		"mode temperature top_p prompt permission disable hidden steps maxSteps variant"), key):
		return "OpenCode"
	}
	return "Claude Code"
}

func article(kind string) string {
	if kind == "agent" || kind == "output style" {
		return "an " + kind
	}
	return "a " + kind
}
