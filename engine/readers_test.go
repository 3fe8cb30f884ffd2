package engine_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestReaders: whatever brings text of a file to a model decides as the tool read does. A row is a way to a file; each is
// tried with a rule that denies reading it, one that would ask, and with a file of secrets, where nobody can be asked.
// With a file that the user may not read, a pipe to which nobody writes, a device without end or a socket, it ends, and
// a call or a mention that names it says why nothing is there.
func TestReaders(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links, and the commands are those of sh")
	}
	const mark = "MARK-4711"
	notFile := map[string]string{"pipe": "regular file", "device": "regular file", "socket": "regular file",
		"unreadable": "permission denied"}
	use := func(name string, in map[string]any) []llmtest.Answer { return []llmtest.Answer{llmtest.Use(name, in)} }
	edit := func(old string) map[string]any {
		return map[string]any{"path": "FILE", "edits": []map[string]any{{"oldText": old, "newText": "x"}}}
	}
	odd := map[string]func(path string) error{ // what lies in the place of the file
		"pipe":   func(path string) error { return exec.Command("mkfifo", path).Run() },
		"device": func(path string) error { return exec.Command("mknod", path, "c", "1", "5").Run() }, // /dev/zero
		"socket": func(path string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			at, err := os.Getwd() // the name of a socket is short
			if err != nil {
				return err
			}
			defer os.Chdir(at)
			return errors.Join(os.Chdir(filepath.Dir(path)),
				syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Base(path)}))
		},
		"unreadable": func(path string) error {
			if os.Geteuid() == 0 {
				return errors.New("root may read every file")
			}
			return os.WriteFile(path, []byte(mark), 0)
		},
	}
	for what, make := range odd {
		if err := make(filepath.Join(t.TempDir(), "x")); err != nil {
			t.Logf("no %s: %v", what, err)
			delete(odd, what)
		}
	}
	agents := func(name string) []llmtest.Answer {
		return use("Agent", map[string]any{"prompt": "look", "description": "look", "agent": name})
	}
	for name, c := range map[string]struct {
		prompt  string
		files   []string // of the project, in turn names and contents; FILE is the file
		answers []llmtest.Answer
		link    string // to the file
		waits   bool   // for a pipe, as programs do
		typed   bool   // who types a path is asked nothing
		says    bool   // that something else is in its place
	}{
		"read":            {says: true, answers: use("read", map[string]any{"path": "FILE"})},
		"read a URL":      {says: true, answers: use("read", map[string]any{"path": "file://DIR/FILE"})},
		"read a link":     {says: true, answers: use("read", map[string]any{"path": "innocent"})},
		"read a notebook": {answers: use("read", map[string]any{"path": "FILE"}), files: []string{"FILE", notebook(mark)}},
		"grep":            {answers: use("grep", map[string]any{"pattern": "MARK"})},
		"grep the file":   {says: true, answers: use("grep", map[string]any{"pattern": "MARK", "path": "FILE"})},
		"grep a link":     {answers: use("grep", map[string]any{"pattern": "MARK", "path": "innocent"})},
		"edit":            {says: true, answers: use("edit", edit("first\nMARK-4712\nlast"))},
		"edit a part":     {says: true, answers: use("edit", edit("MARK-"))},
		"edit a notebook": {answers: use("edit", map[string]any{"path": "FILE", "cells": []map[string]any{{"cell": "none",
			"action": "replace", "source": "x"}}}), files: []string{"FILE", notebook(mark)}},
		"write":          {says: true, answers: use("write", map[string]any{"path": "FILE", "content": "x"})},
		"bash":           {waits: true, answers: use("bash", map[string]any{"command": "cat FILE"})},
		"session import": {waits: true, answers: use("bash", map[string]any{"command": "knack session import FILE"})},
		"bash, a link":   {waits: true, answers: use("bash", map[string]any{"command": "cat innocent"})},
		"bash, a glob":   {waits: true, answers: use("bash", map[string]any{"command": "cat kept/*"})},
		"web_fetch":      {answers: use("web_fetch", map[string]any{"url": "file://DIR/FILE"})},
		"an agent": {answers: append(agents("general-purpose"),
			llmtest.Use("read", map[string]any{"path": "FILE"}), llmtest.Use("grep", map[string]any{"pattern": "MARK"}))},
		"a mention":        {says: true, prompt: "look at @FILE", typed: true},
		"an import":        {says: true, files: []string{"CLAUDE.md", "Text. @FILE"}},
		"an imported link": {files: []string{"CLAUDE.md", "Text. @innocent"}},
		"a rule's import":  {files: []string{".claude/rules/r.md", "Text. @FILE"}},
		"a nested import": {files: []string{"kept/CLAUDE.md", "Text. @../FILE"},
			answers: use("read", map[string]any{"path": "kept/open"})},
		"an agent's import": {files: []string{".claude/agents/a.md", "---\nname: a\ndescription: a\n---\nText. @FILE"},
			answers: agents("a")},
		"a template": {waits: true, prompt: "/t", files: []string{".claude/commands/t.md", "Text. @FILE !`cat FILE`"}},
		"a skill": {waits: true, prompt: "/s", files: []string{".claude/skills/s/SKILL.md",
			"---\nname: s\ndescription: s\nallowed-tools: Read, Bash(cat:*)\n---\nText. @FILE !`cat FILE`"}},
		"a skill in a fork": {prompt: "/s", files: []string{".claude/skills/s/SKILL.md",
			"---\nname: s\ndescription: s\ncontext: fork\nallowed-tools: Read\n---\nRead it."},
			answers: use("read", map[string]any{"path": "FILE"})},
		"an output style": {files: []string{".claude/settings.json", `{"outputStyle": "s"}`},
			link: ".claude/output-styles/s.md"},
		"a context file": {link: "CLAUDE.md"},
		"a nested context file": {link: "kept/sub/CLAUDE.md", files: []string{"kept/sub/open", "open"},
			answers: use("read", map[string]any{"path": "kept/sub/open"})},
		"a rule file":       {link: ".claude/rules/r.md"},
		"a linked skill":    {link: ".claude/skills/s/SKILL.md", prompt: "/s"},
		"a linked template": {link: ".claude/commands/t.md", prompt: "/t"},
		"a linked agent":    {link: ".claude/agents/s.md", answers: agents("s")},
		"a skill's file": {prompt: "/s", link: ".claude/skills/s/more.md", files: []string{".claude/skills/s/SKILL.md",
			"---\nname: s\ndescription: s\nallowed-tools: Read\n---\nRead it."},
			answers: use("read", map[string]any{"path": ".claude/skills/s/more.md"})},
		"/import": {says: true, prompt: "/import FILE", typed: true, files: []string{"FILE",
			`{"type":"user","uuid":"1","sessionId":"s","message":{"role":"user","content":"` + mark + `"}}`}},
		"/export": {prompt: "/export FILE", typed: true},
		"a preload": {files: []string{".claude/agents/a.md", "---\nname: a\ndescription: a\nskills: [s]\n---\nText."},
			link: ".claude/skills/s/SKILL.md", answers: agents("a")},
	} {
		for column, file := range map[string]string{"denied": "kept/k", "ask": "kept/k", "secret": "kept/.env",
			"pipe": "kept/k", "device": "kept/k", "socket": "kept/k", "unreadable": "kept/k"} {
			special := column == "pipe" || column == "device" || column == "socket" || column == "unreadable"
			if c.typed && column == "ask" || special && (odd[column] == nil || c.waits || slices.Contains(c.files, "FILE")) {
				continue
			}
			t.Run(name+", "+column, func(t *testing.T) {
				p := newFixture(t, "kept/open", "open", file,
					"---\nname: s\ndescription: MARK\n---\nfirst\n"+mark+"\nlast\n")
				if c.link != "" {
					p.write(t, c.link, "")
					at := filepath.Join(p.dir, c.link)
					if err := errors.Join(os.Remove(at), os.Symlink(filepath.Join(p.dir, file), at)); err != nil {
						t.Fatal(err)
					}
				}
				replace := strings.NewReplacer("FILE", file, "DIR", filepath.ToSlash(p.dir))
				for i := 0; i < len(c.files); i += 2 {
					p.write(t, replace.Replace(c.files[i]), replace.Replace(c.files[i+1]))
				}
				if special {
					at := filepath.Join(p.dir, file)
					if err := errors.Join(os.Remove(at), odd[column](at)); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Symlink(filepath.Join(p.dir, file), filepath.Join(p.dir, "innocent")); err != nil {
					t.Fatal(err)
				}
				var answers []llmtest.Answer
				for _, a := range c.answers {
					data, err := json.Marshal(a)
					var named llmtest.Answer
					if err == nil {
						err = json.Unmarshal([]byte(replace.Replace(string(data))), &named)
					}
					if err != nil {
						t.Fatal(err)
					}
					answers = append(answers, named)
				}
				m := llmtest.New(append(answers, llmtest.Reply("done"), llmtest.Reply("done"), llmtest.Reply("done"))...)
				o := p.options(m)
				o.Trust = true
				o.Values["permissions.allow"] = []string{"Bash", "Edit", "Agent", "WebFetch", "Skill"}
				if rule := map[string]string{"denied": "permissions.deny", "ask": "permissions.ask"}[column]; rule != "" {
					o.Values[rule] = []string{"Read(./" + file + ")"}
				}
				_, s := p.open(t, o, nil, engine.SessionOptions{Forget: !c.typed})
				prompts := []string{"go on"}
				if c.prompt != "" {
					prompts = []string{replace.Replace(c.prompt), "go on"}
				}
				if c.typed { // a session with a turn
					prompts = append([]string{"hello"}, prompts...)
				}
				var out []string
				talk := engine.Converse(s)
				defer func() { talk.Session().Close() }()
				for _, prompt := range prompts {
					in, err := talk.Session().Attach(t.Context(), agent.Typed(prompt))
					if err != nil {
						out = append(out, "not attached: "+err.Error())
						continue
					}
					for e, err := range talk.Run(t.Context(), in) {
						if err != nil {
							out = append(out, "error: "+err.Error())
						} else if what := enginetest.Short(e); what != "" {
							out = append(out, what)
						}
					}
				}
				requests := m.Requests()
				data, err := json.Marshal(requests)
				if err != nil {
					t.Fatal(err)
				}
				if read, _, _, err := talk.Session().ReadFile(t.Context(), file, 1<<20); err == nil && len(read) > 0 {
					t.Errorf("a host reads it: %s", read)
				}
				if strings.Contains(string(data), mark) {
					t.Errorf("the model has its text:\n%s", strings.Join(out, "\n"))
				}
				for _, x := range slices.Concat(s.Problems(), s.Engine().Notices()) {
					out = append(out, "problem: "+x.Message)
				}
				if said := strings.Join(out, "\n"); special && c.says && !strings.Contains(said, notFile[column]) {
					t.Errorf("nothing says %q:\n%s", notFile[column], said)
				}
				if len(requests) == 0 && !c.typed && c.prompt == "" {
					t.Errorf("nothing was tried:\n%s", strings.Join(out, "\n"))
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
