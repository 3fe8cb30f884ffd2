package plugin

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/knack-agent/knack"
)

// A texts has the files of a plugin by name.
type texts map[string]string

func (t texts) fs() fstest.MapFS {
	all := fstest.MapFS{}
	for name, text := range t {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// TestValidate gives one mistake at a time. Each was given to `claude plugin validate` 2.1.332, which refuses those that
// are a warning here and names those that are information.
func TestValidate(t *testing.T) {
	const good = `"name": "demo", "version": "1.0.0", "description": "d", "author": {"name": "a"}`
	manifest := func(more string) fstest.MapFS {
		return texts{".claude-plugin/plugin.json": "{" + good + more + "}"}.fs()
	}
	market := func(top string, more texts) fstest.MapFS {
		all := texts{".claude-plugin/marketplace.json": `{"name": "m", ` + top + "}"}
		for name, text := range more {
			all[name] = text
		}
		return all.fs()
	}
	const owner = `"owner": {"name": "o"}, `
	for name, c := range map[string]struct {
		fs   fstest.MapFS
		want string // severity and text of each problem, joined by a line break
	}{
		"good":             {manifest(""), ""},
		"comma":            {manifest(","), "warn: Claude Code refuses it: comments and trailing commas are not JSON"},
		"author":           {texts{".claude-plugin/plugin.json": `{"name": "a", "version": "1", "description": "d", "author": "A <a@b>"}`}.fs(), "warn: Claude Code refuses it: author is not an object with a name"},
		"nobody":           {texts{".claude-plugin/plugin.json": `{"name": "a", "version": "1", "description": "d"}`}.fs(), "info: author is missing; people see it before they install"},
		"homepage":         {manifest(`, "homepage": "not a url"`), "warn: Claude Code refuses it: homepage is not an address such as https://example.com"},
		"repository":       {manifest(`, "repository": {"url": "x"}`), "warn: Claude Code refuses it: repository is not a string"},
		"keywords":         {manifest(`, "keywords": "a, b"`), "warn: Claude Code refuses it: keywords is not a list of strings"},
		"agents":           {manifest(`, "agents": "./agents"`), "warn: Claude Code refuses it: agents is not a path that begins with ./ and ends with .md, or a list of such paths"},
		"agents in a list": {manifest(`, "agents": ["./a.md"]`), ""},
		"commands":         {manifest(`, "commands": "cmds"`), "warn: Claude Code refuses it: commands is not a path that begins with ./, or a list of such paths"},
		"commands by name": {manifest(`, "commands": {"a": {"source": "./a.md"}}`), ""},
		"null":             {manifest(`, "keywords": null`), "warn: Claude Code refuses it: keywords is not a list of strings"},
		"styles":           {manifest(`, "outputStyles": "./nope"`), "warn: Claude Code refuses it: outputStyles: ./nope does not exist"},
		"experimental":     {manifest(`, "experimental": {"themes": "./nope"}`), "warn: Claude Code refuses it: themes: ./nope does not exist"},
		"language server":  {manifest(`, "lspServers": {"go": {"command": "gopls serve", "extensionToLanguage": {".go": "go"}}}`), "warn: Claude Code refuses it: lspServers is not a path that begins with ./, or servers by name, each with extensionToLanguage and a command without blanks: args has the rest"},
		"asked":            {manifest(`, "userConfig": {"k": {"type": "secret", "title": "t", "description": "d"}}`), "warn: Claude Code refuses it: userConfig is not an object whose values have type, title and description"},
		"unknown":          {manifest(`, "comands": "./c"`), "info: comands is not a field, it has no effect; did you mean commands?"},
		"hooks":            {texts{"hooks/hooks.json": `{"PreToolUse": [], "description": "x"}`}.fs(), "warn: Claude Code refuses it: PreToolUse is not below the key hooks"},
		"hooks below":      {texts{"hooks/hooks.json": `{"hooks": {"PreToolUse": []}}`}.fs(), ""},
		"no manifest":      {texts{"skills/a/SKILL.md": ""}.fs(), "info: it does not exist; a plugin without it cannot be published"},
		"another program":  {texts{"skills/a/SKILL.md": "", "gemini-extension.json": "{}"}.fs(), ""},
		"list":             {market(owner+`"plugins": []`, nil), ""},
		"no owner":         {market(`"plugins": []`, nil), "warn: Claude Code refuses it: owner is missing, an object with a name"},
		"no plugins":       {market(owner+`"plugins": null`, nil), "warn: Claude Code refuses it: plugins is not a list"},
		"field of a list":  {market(owner+`"plugins": [], "bar": 1`, nil), "info: bar is not a field, it has no effect"},
		"field of an entry": {market(owner+`"plugins": [{"name": "a", "source": "./a", "descripton": "x"}]`, nil),
			"info: a: descripton is not a field, it has no effect; did you mean description?"},
		"entry": {market(owner+`"plugins": [{"name": "a", "source": "./a", "tags": "x"}]`, nil),
			"warn: Claude Code refuses it: a: tags is not a list of strings"},
		"inside": {market(owner+`"plugins": [{"name": "a", "source": "./a"}, {"name": "b", "source": "./a"}]`,
			texts{"a/.claude-plugin/plugin.json": "{" + good + `, "keywords": 1}`}),
			"warn: Claude Code refuses it: keywords is not a list of strings"},
		"itself": {market(owner+`"plugins": [{"name": "a", "source": "./"}]`, texts{".claude-plugin/plugin.json": "{" + good + `, "keywords": 1}`}),
			"warn: Claude Code refuses it: keywords is not a list of strings"},
	} {
		var got []string
		for _, p := range Validate(c.fs) {
			got = append(got, fmt.Sprintf("%s: %s", p.Severity, p.Message))
			if _, err := c.fs.Stat(p.Path); err != nil && p.Severity != knack.Info {
				t.Errorf("%s: the problem is in %q, which does not exist", name, p.Path)
			}
		}
		if all := strings.Join(got, "\n"); all != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, all, c.want)
		}
	}
}
