package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A scene leads the program to a state of the screen, of which a picture is drawn.
type scene struct {
	name          string
	width, height int
	light         bool
	repository    bool              // the project is a git repository with everything committed
	files         map[string]string // in the project beside those of all scenes
	env           []string
	script        []llmtest.Answer // what the model answers
	steps         []step
}

// A step waits until the text of the terminal matches the regular expression wait, and then types
// keys.
type step struct{ wait, keys string }

// files are the files of the project in which the scenes take place.
var files = map[string]string{
	"main.go": "package main\n\nimport \"fmt\"\n\nfunc main() {\n" +
		"\tfmt.Println(\"hello, world\")\n}\n",
	"parser.go": "package main\n\n// parse reads one line.\nfunc parse(line string) []string { " +
		"return nil }\n",
	".claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads, merges and fills PDF files. Use when a " +
		"task has to do with a PDF.\n---\nUse pdftotext to read, qpdf to merge.\n",
	".claude/skills/publish/SKILL.md": "---\nname: publish\ndescription: Prepares a release - version, changelog, " +
		"tag. Use when a version is to be published.\n---\nFollow the steps.\n",
	".claude/skills/reread/SKILL.md": "---\nname: reread\ndescription: Reviews a change for bugs and style. Use " +
		"after a change, before a commit.\n---\nRead the diff.\n",
	".claude/skills/translate/SKILL.md": "---\nname: translate\ndescription: Translates texts and keeps their markup.\n" +
		"---\nTranslate.\n",
}

const plan = `# How the parser works

It reads **one line** at a time and returns its *fields*, see [the format](https://example.com/format):

1. blanks are cut off
2. quoted fields stay whole, also 日本語 and émojis 🎉

| Field | Size | Meaning |
|---|---|---|
| name | 12 | what the record is called |
| count | 4 | how often it was seen since the last start of the program |

` + "```go\nfunc parse(line string) []string {\n\treturn strings.Fields(line) // no quotes yet\n}\n```" + `

> Quoted fields are **not** parsed yet.
`

var (
	bash = func(id, command string) llmtest.Call {
		return llmtest.Call{ID: id, Name: "bash", Input: map[string]any{"command": command}}
	}
	prompt = `(?m)^❯`
)

// scenes are the pictures in docs/screens, in this order.
var scenes = []scene{
	{name: "markdown", width: 80, height: 28,
		script: []llmtest.Answer{{When: "parser", Text: plan}},
		steps:  []step{{prompt, "How does the parser work?\r"}, {`not parsed yet\.\n\n❯`, ""}}},
	{name: "working", width: 80, height: 24,
		script: []llmtest.Answer{{When: "test", Text: "I make a list, and run the tests.", Calls: []llmtest.Call{
			{ID: "t", Name: "todo", Input: map[string]any{"items": []map[string]string{
				{"text": "Run the tests", "state": "done"}, {"text": "Parse quoted fields", "state": "active"},
				{"text": "Write it down in the changelog", "state": "pending"}}}}}},
			{Calls: []llmtest.Call{bash("a", "for i in 1 2 3 4 5 6; do echo \"ok   example/package$i  0.0${i}s\"; sleep 0.4; "+
				"done; sleep 60"), {ID: "r", Name: "read", Input: map[string]any{"path": "parser.go"}}}}},
		steps: []step{{prompt, "Make the tests pass\r"}, {`1 yes`, "1"}, {`package6`, "and update the docs\r"},
			{`queued: and update`, "also the "}, {`also the`, ""}}},
	{name: "approval", width: 80, height: 24,
		script: []llmtest.Answer{{When: "greet", Text: "I change the greeting.", Calls: []llmtest.Call{
			{ID: "e", Name: "edit", Input: map[string]any{"path": "main.go", "edits": []map[string]string{
				{"oldText": "hello, world", "newText": "hello, knack"}}}}}}},
		steps: []step{{prompt, "Change the greeting to knack\r"}, {`3 no, and`, "\x1b[B"}, {`▸ 1`, ""}}},
	{name: "results", width: 80, height: 24, light: true,
		script: []llmtest.Answer{{When: "greet", Calls: []llmtest.Call{
			{ID: "e", Name: "edit", Input: map[string]any{"path": "main.go", "edits": []map[string]string{
				{"oldText": "hello, world", "newText": "hello, knack"}}}},
			bash("b", "grep -n hello main.go | tee found")}},
			{Text: "The program says `hello, knack` now, and `grep` finds it **once**.", Usage: usage}},
		steps: []step{{prompt, "Change the greeting to knack\r"}, {`3 no, and`, "1"}, {`tee found[^❯]*1 yes`, "1"},
			{`finds it once\.\n\n❯`, ""}}},
	{name: "question", width: 80, height: 16,
		script: []llmtest.Answer{{When: "Store", Calls: []llmtest.Call{{ID: "q", Name: "ask", Input: map[string]any{
			"questions": []map[string]any{
				{"question": "Which database should the service use?", "header": "Database", "options": []map[string]string{
					{"label": "PostgreSQL", "description": "the one that production uses"},
					{"label": "SQLite", "description": "one file, no server"}}},
				{"question": "Which tables are needed?", "header": "Tables", "multiSelect": true,
					"options": []map[string]string{{"label": "users"}, {"label": "orders"}}}}}}}}},
		steps: []step{{prompt, "Store the records\r"}, {`SQLite`, "\x1b[B"}, {`▸ 2`, ""}}},
	{name: "completion", width: 80, height: 16,
		steps: []step{{prompt, "/re"}, {`/reread +Reviews`, ""}}},
	{name: "skills", width: 80, height: 20,
		steps: []step{{prompt, "/skills\r"}, {`Which skill`, "pdf\r"}, {`pin it`, ""}}},
	{name: "resume", width: 80, height: 18,
		script: []llmtest.Answer{{When: "crash", Text: "It is fixed."}, {When: "notes", Text: "They are written."}},
		steps: []step{{prompt, "Why does the parser crash on an empty line, and can you fix it without changing how the " +
			"fields are counted?\r"}, {`fixed\.\n\n❯`, "/new\r"}, {`new session: \S+\n\n❯`, "Write the release notes\r"},
			{`written\.\n\n❯`, "/new\r"}, {`(?s)written.*new session: \S+\n\n❯`, "/resume\r"},
			{`Resume which`, "crash"}, {`/ crash`, ""}}},
	{name: "context", width: 80, height: 24,
		script: []llmtest.Answer{{When: "parser", Text: plan, Usage: usage},
			{When: "again", Text: "It reads a line.", Usage: usage}},
		steps: []step{{prompt, "How does the parser work?\r"}, {`not parsed yet\.\n\n❯`, "Say it again\r"},
			{`reads a line\.\n\n❯`, "/cost\r"}, {`out [^\n]* tokens\n\n❯`, "/context\r"}, {`Parts are estimates[^\n]*\n\n❯`, ""}}},
	{name: "narrow", width: 40, height: 20,
		script: []llmtest.Answer{{When: "parser", Text: plan}},
		steps: []step{{prompt, "How does the parser work?\r"}, {`not parsed yet\.\n\n❯`, "日本語 and some more words than " +
			"one row has"}, {`some more`, ""}}},

	{name: "undo", width: 80, height: 24, repository: true, files: notesFile,
		script: []llmtest.Answer{{When: "tidy", Calls: []llmtest.Call{
			{ID: "e", Name: "edit", Input: map[string]any{"path": "main.go", "oldText": "hello, world", "newText": "hi"}}}},
			{Calls: []llmtest.Call{bash("b", "rm parser.go notes.txt")}}, {Text: "It is tidy."}},
		steps: []step{{prompt, "tidy up\r"}, {`3 no, and`, "1"}, {`rm parser[^❯]*1 yes`, "1"}, {`is tidy\.\n\n❯`, "/undo\r"},
			{`takes this back\.\n\n❯`, ""}}},
	{name: "rewind", width: 80, height: 24, repository: true, files: notesFile,
		script: []llmtest.Answer{{When: "greet", Calls: []llmtest.Call{
			{ID: "e", Name: "edit", Input: map[string]any{"path": "main.go", "oldText": "hello, world", "newText": "hi"}}}},
			{Text: "It greets."}, {When: "clean", Calls: []llmtest.Call{bash("b", "rm notes.txt")}}, {Text: "It is clean."}},
		steps: []step{{prompt, "greet shortly\r"}, {`3 no, and`, "1"}, {`greets\.\n\n❯`, "clean up\r"},
			{`rm notes[^❯]*1 yes`, "1"}, {`is clean\.\n\n❯`, "/rewind\r"}, {`(?s)/rewind.*greet shortly.*file`, "\x1b[B"},
			{`greet shortly`, ""}}},
	{name: "worktree", width: 80, height: 24, repository: true, files: notesFile,
		script: []llmtest.Answer{{When: "beside", Calls: []llmtest.Call{
			{ID: "w", Name: "EnterWorktree", Input: map[string]any{"name": "greeting"}}}},
			{Calls: []llmtest.Call{{ID: "r", Name: "read", Input: map[string]any{"path": "main.go"}}}},
			{Calls: []llmtest.Call{{ID: "x", Name: "ExitWorktree", Input: map[string]any{"action": "keep"}}}},
			{Text: "The worktree is there for you."}},
		steps: []step{{prompt, "work beside me, in a worktree\r"}, {`1 yes`, "1"}, {`for you\.\n\n❯`, ""}}},
	{name: "worktree-errors", width: 80, height: 24, repository: true,
		script: []llmtest.Answer{{When: "beside", Calls: []llmtest.Call{
			{ID: "w", Name: "EnterWorktree", Input: map[string]any{"name": "taken"}}}},
			{Calls: []llmtest.Call{{ID: "v", Name: "EnterWorktree", Input: map[string]any{"name": "../elsewhere"}}}},
			{Calls: []llmtest.Call{{ID: "x", Name: "ExitWorktree", Input: map[string]any{"action": "remove"}}}},
			{Text: "Neither name can be used."}},
		steps: []step{{prompt, "work beside me\r"}, {`1 yes`, "1"}, {`elsewhere[^❯]*1 yes`, "1"},
			{`be used\.\n\n❯`, ""}}},
	{name: "web", width: 80, height: 20,
		script: []llmtest.Answer{{When: "say", Calls: []llmtest.Call{
			{ID: "f", Name: "web_fetch", Input: map[string]any{"url": "https://example.com/news?id=7",
				"prompt": "What changed in the last release?"}}}}},
		steps: []step{{prompt, "What does the news page say?\r"}, {`1 yes`, "\x1b[B"}, {`▸ 1`, ""}}},
	{name: "note", width: 80, height: 18,
		steps: []step{{prompt, "# tests run with make check\r"}, {`5 no`, ""}}},
	{name: "notebook", width: 80, height: 28, files: map[string]string{"plot.ipynb": notebook},
		script: []llmtest.Answer{{When: "plot", Calls: []llmtest.Call{
			{ID: "n", Name: "edit", Input: map[string]any{"path": "plot.ipynb", "cells": []map[string]any{
				{"cell": "2", "source": "plt.plot(x, y)\nplt.grid()"},
				{"cell": "2", "action": "insert", "type": "markdown", "source": "The grid makes it legible."}}}}}}},
		steps: []step{{prompt, "Give the plot a grid\r"}, {`1 yes`, "\x1b[B"}, {`▸ 1`, ""}}},
}

var notesFile = map[string]string{".gitignore": "*.tmp\n", "notes.txt": "call them\n"}

const notebook = `{
 "cells": [
  {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Growth"]},
  {"cell_type": "code", "execution_count": 3, "id": "b", "metadata": {}, "outputs": [
   {"output_type": "stream", "name": "stdout", "text": ["[<Line2D object>]"]}], "source": ["plt.plot(x, y)"]}
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
`

// draw runs a scene in dir and returns a picture of each step, before its keys are typed and, where they end with
// Enter, before that; the last one is the scene's.
func (s scene) draw(program, dir string) ([]string, error) {
	for _, all := range []map[string]string{files, s.files} {
		for name, text := range all {
			path := filepath.Join(dir, "work", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return nil, err
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				return nil, err
			}
		}
	}
	if s.repository {
		for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."},
			{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"}, {"branch", "knack/taken"}} {
			git := exec.Command("git", append([]string{"-C", filepath.Join(dir, "work")}, args...)...)
			if out, err := git.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("git %v: %w: %s", args, err, out)
			}
		}
	}
	model := serve(2*time.Millisecond, s.script...)
	defer model.close()
	colours := dark
	env := append(model.env(), s.env...)
	if s.light {
		colours, env = light, append(env, "KNACK_THEME=light")
	}
	d, err := start(program, dir, s.width, s.height, env)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var pictures []string
	look := func() {
		time.Sleep(200 * time.Millisecond) // until the status line is drawn, too
		d.mu.Lock()
		defer d.mu.Unlock()
		pictures = append(pictures, picture(d.vt, s.width, s.height, colours, "Knack: "+s.name))
	}
	for _, step := range s.steps {
		if err := d.wait(step.wait); err != nil {
			return nil, err
		}
		look()
		keys := step.keys
		if text, ok := strings.CutSuffix(keys, "\r"); ok && text != "" {
			if err := d.types(text); err != nil {
				return nil, err
			}
			look()
			keys = "\r"
		}
		if err := d.types(keys); err != nil {
			return nil, err
		}
	}
	look()
	return pictures, nil
}
