package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestReaders: whatever brings text of a file to a model decides as the tool read does. A row is a way to a file; each is
// tried with a rule that denies reading it, one that would ask, and with a file of secrets, where nobody can be asked.
func TestReaders(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links, and the commands are those of sh")
	}
	const mark = "MARK-4711"
	use := func(name string, in map[string]any) []llmtest.Answer { return []llmtest.Answer{llmtest.Use(name, in)} }
	edit := func(old string) map[string]any {
		return map[string]any{"path": "FILE", "edits": []map[string]any{{"oldText": old, "newText": "x"}}}
	}
	for name, c := range map[string]struct {
		prompt  string
		files   []string // of the project, in turn names and contents; FILE is the file
		answers []llmtest.Answer
		typed   bool // who types a path is asked nothing
	}{
		"read":            {answers: use("read", map[string]any{"path": "FILE"})},
		"read a URL":      {answers: use("read", map[string]any{"path": "file://DIR/FILE"})},
		"read a link":     {answers: use("read", map[string]any{"path": "innocent"})},
		"read a notebook": {answers: use("read", map[string]any{"path": "FILE"}), files: []string{"FILE", notebook(mark)}},
		"grep":            {answers: use("grep", map[string]any{"pattern": "MARK"})},
		"grep the file":   {answers: use("grep", map[string]any{"pattern": "MARK", "path": "FILE"})},
		"grep a link":     {answers: use("grep", map[string]any{"pattern": "MARK", "path": "innocent"})},
		"edit":            {answers: use("edit", edit("first\nMARK-4712\nlast"))},
		"edit a part":     {answers: use("edit", edit("MARK-"))},
		"edit a notebook": {answers: use("edit", map[string]any{"path": "FILE", "cells": []map[string]any{{"id": "none",
			"mode": "replace", "source": "x"}}}), files: []string{"FILE", notebook(mark)}},
		"write":        {answers: use("write", map[string]any{"path": "FILE", "content": "x"})},
		"bash":         {answers: use("bash", map[string]any{"command": "cat FILE"})},
		"bash, a link": {answers: use("bash", map[string]any{"command": "cat innocent"})},
		"bash, a glob": {answers: use("bash", map[string]any{"command": "cat kept/*"})},
		"web_fetch":    {answers: use("web_fetch", map[string]any{"url": "file://DIR/FILE"})},
		"an agent": {answers: append(use("Agent", map[string]any{"prompt": "look", "description": "look", "agent": "general-purpose"}),
			llmtest.Use("read", map[string]any{"path": "FILE"}), llmtest.Use("grep", map[string]any{"pattern": "MARK"}))},
		"a mention":         {prompt: "look at @FILE", typed: true},
		"an import":         {files: []string{"CLAUDE.md", "Text. @FILE"}},
		"an imported link":  {files: []string{"CLAUDE.md", "Text. @innocent"}},
		"a rule's import":   {files: []string{".claude/rules/r.md", "Text. @FILE"}},
		"a nested import":   {files: []string{"kept/CLAUDE.md", "Text. @../FILE"}, answers: use("read", map[string]any{"path": "kept/open"})},
		"an agent's import": {files: []string{".claude/agents/a.md", "---\nname: a\ndescription: a\n---\nText. @FILE"}, answers: use("Agent", map[string]any{"prompt": "look", "description": "look", "agent": "a"})},
		"a template":        {prompt: "/t", files: []string{".claude/commands/t.md", "Text. @FILE !`cat FILE`"}},
		"a skill": {prompt: "/s", files: []string{".claude/skills/s/SKILL.md",
			"---\nname: s\ndescription: s\nallowed-tools: Read, Bash(cat:*)\n---\nText. @FILE !`cat FILE`"}},
		"a skill in a fork": {prompt: "/s", files: []string{".claude/skills/s/SKILL.md",
			"---\nname: s\ndescription: s\ncontext: fork\nallowed-tools: Read\n---\nRead it."}, answers: use("read", map[string]any{"path": "FILE"})},
	} {
		for column, file := range map[string]string{"denied": "kept/k", "ask": "kept/k", "secret": "kept/.env"} {
			if c.typed && column == "ask" {
				continue
			}
			t.Run(name+", "+column, func(t *testing.T) {
				p := newFixture(t, "kept/open", "open", file, "first\n"+mark+"\nlast\n")
				replace := strings.NewReplacer("FILE", file, "DIR", filepath.ToSlash(p.dir))
				for i := 0; i < len(c.files); i += 2 {
					p.write(t, replace.Replace(c.files[i]), replace.Replace(c.files[i+1]))
				}
				if err := os.Symlink(filepath.Join(p.dir, file), filepath.Join(p.dir, "innocent")); err != nil {
					t.Fatal(err)
				}
				var answers []llmtest.Answer
				for _, a := range c.answers {
					data, err := json.Marshal(a)
					if err == nil {
						err = json.Unmarshal([]byte(replace.Replace(string(data))), &a)
					}
					if err != nil {
						t.Fatal(err)
					}
					answers = append(answers, a)
				}
				m := llmtest.New(append(answers, llmtest.Reply("done"), llmtest.Reply("done"))...)
				o := p.options(m)
				o.Trust = true
				o.Values["permissions.allow"] = []string{"Bash", "Edit", "Agent", "WebFetch", "Skill"}
				if column != "secret" {
					rule := map[string]string{"denied": "permissions.deny", "ask": "permissions.ask"}[column]
					o.Values[rule] = []string{"Read(./" + file + ")"}
				}
				_, s := p.open(t, o, nil, engine.SessionOptions{Forget: true})
				prompt := c.prompt
				if prompt == "" {
					prompt = "go on"
				}
				out := run(t, s, replace.Replace(prompt))
				requests := m.Requests()
				data, err := json.Marshal(requests)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(data), mark) {
					t.Errorf("the model has its text:\n%s", out)
				}
				if len(requests) == 0 && !c.typed && c.prompt == "" {
					t.Errorf("nothing was tried:\n%s", out)
				}
			})
		}
	}
}

// notebook returns a notebook with a cell.
func notebook(source string) string {
	return `{"cells": [{"cell_type": "code", "id": "c", "source": ["` + source + `"], "metadata": {}, "outputs": [], ` +
		`"execution_count": null}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}`
}
