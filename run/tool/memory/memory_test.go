package memory

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

type m = map[string]any

func call(t *testing.T, o Options, in m) (string, bool) {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	res := tool.Call(t.Context(), tool.Set{Tool(o)}, llm.ToolCall{ID: "1", Name: "Memory", Input: data}, tool.AllowAll,
		nil)
	return llm.TextOf(res.Parts), !res.IsError
}

func dirs(t *testing.T) Options {
	dir := t.TempDir()
	return Options{User: filepath.Join(dir, "user"), Project: filepath.Join(dir, "projects", "x")}
}

func TestCommands(t *testing.T) {
	o := dirs(t)
	file := "/memories/project/MEMORY.md"
	for _, c := range []struct {
		in   m
		want string // part of the answer; "!" before it: of an error
	}{
		{m{"command": "view", "path": "/memories"}, "/memories/user: nothing yet\n/memories/project: nothing yet"},
		{m{"command": "view", "path": file}, "!does not exist"},
		{m{"command": "create", "path": file, "file_text": "one\ntwo\n"}, "Wrote"},
		{m{"command": "insert", "path": file, "insert_line": 1, "insert_text": "between"}, "Wrote"},
		{m{"command": "insert", "path": file, "insert_line": 9, "insert_text": "x"}, "!has 3 lines"},
		{m{"command": "str_replace", "path": file, "old_str": "two", "new_str": "three"}, "Wrote"},
		{m{"command": "str_replace", "path": file, "old_str": "two", "new_str": "x"}, "!does not occur"},
		{m{"command": "str_replace", "path": file, "old_str": "e", "new_str": "x"}, "!times"},
		{m{"command": "view", "path": file}, "     1\tone\n     2\tbetween\n     3\tthree\n"},
		{m{"command": "view", "path": file, "view_range": []int{2, 2}}, "     2\tbetween\n"},
		{m{"command": "rename", "old_path": file, "new_path": "/memories/user/deep/a.md"}, "Renamed"},
		{m{"command": "view", "path": "/memories/user"}, "/memories/user/deep/a.md"},
		{m{"command": "delete", "path": "/memories/user/deep/a.md"}, "Deleted"},
		{m{"command": "delete", "path": "/memories/user/deep/a.md"}, "!a.md"},
		{m{"command": "create", "path": "/memories/other/a.md", "file_text": "x"}, "!begins with"},
		{m{"command": "create", "path": "/memories/user/../../a.md", "file_text": "x"}, "!begins with"},
		{m{"command": "create", "path": "/etc/a.md", "file_text": "x"}, "!begins with"},
		{m{"command": "create", "path": "/memories/user/run.sh", "file_text": "x"}, "!notes.md"},
		{m{"command": "create", "path": "/memories/user", "file_text": "x"}, "!notes.md"},
		{m{"command": "create", "path": file, "file_text": strings.Repeat("x", maxFile+1)}, "!at most 64.0KB"},
		{m{"command": "create", "path": file, "file_text": "a\u202eb"}, "!hidden"},
		{m{"command": "create", "path": file, "file_text": "the key is sk-ant-0123456789abcdef"}, "!secret"},
		{m{"command": "create", "path": file, "file_text": "password: hunter2hunter2"}, "!secret"},
		{m{"command": "create", "path": file, "file_text": "tokens: the API counts them"}, "Wrote"},
		{m{"command": "erase", "path": file}, "!view, create"},
	} {
		want, fails := strings.CutPrefix(c.want, "!")
		if text, ok := call(t, o, c.in); ok == fails || !strings.Contains(text, want) {
			t.Errorf("%v: %s", c.in, text)
		}
	}
	info, err := os.Stat(filepath.Join(o.Project, "MEMORY.md"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	o.Secrets = func() (texts, keys []string) { return []string{"KEY=zw8Lq02mPrtVx7\n"}, nil }
	if text, ok := call(t, o, m{"command": "create", "path": file, "file_text": "it is zw8Lq02mPrtVx7"}); ok {
		t.Error(text)
	}
}

// TestLinks: a link in the directories leads nowhere.
func TestLinks(t *testing.T) {
	o := dirs(t)
	outside := filepath.Join(t.TempDir(), "x.md")
	os.WriteFile(outside, []byte("outside"), 0o600)
	os.MkdirAll(o.User, 0o700)
	if err := os.Symlink(outside, filepath.Join(o.User, "MEMORY.md")); err != nil {
		t.Skip(err)
	}
	os.Symlink(filepath.Dir(outside), filepath.Join(o.User, "dir"))
	for _, in := range []m{{"command": "view", "path": "/memories/user/MEMORY.md"},
		{"command": "view", "path": "/memories/user/dir/x.md"},
		{"command": "create", "path": "/memories/user/MEMORY.md", "file_text": "x"},
		{"command": "create", "path": "/memories/user/dir/x.md", "file_text": "x"},
		{"command": "rename", "old_path": "/memories/user/MEMORY.md", "new_path": "/memories/user/b.md"}} {
		if text, ok := call(t, o, in); ok {
			t.Errorf("%v: %s", in, text)
		}
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "outside" || Prompt(o.User) != "" {
		t.Errorf("%q %v", data, err)
	}
}

func TestRoom(t *testing.T) {
	o := dirs(t)
	for i := range maxDir / maxFile {
		if text, ok := call(t, o, m{"command": "create", "path": "/memories/user/" + string(rune('a'+i)) + ".md",
			"file_text": strings.Repeat("x", maxFile)}); !ok {
			t.Fatal(text)
		}
	}
	if text, ok := call(t, o, m{"command": "create", "path": "/memories/user/more.md", "file_text": "x"}); ok ||
		!strings.Contains(text, "no room") {
		t.Error(text)
	}
}

func TestPrompt(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "MEMORY.md"), []byte(strings.Repeat("é", 600)+"\n"+strings.Repeat("line\n", 300)),
		0o600)
	lines := strings.Split(Prompt(dir), "\n")
	if len(lines) != promptLines+1 || lines[0] != strings.Repeat("é", promptLine)+"…" ||
		lines[promptLines] != "[The file goes on: view shows the rest.]" {
		t.Errorf("%d lines", len(lines))
	}
	if Prompt(filepath.Join(dir, "none")) != "" {
		t.Error("a directory that does not exist")
	}
}

// TestPermission: reading needs no rule, writing needs one, and nothing but the user's answer allows it after the
// session has read a stranger's text. Found by attack: a rule for some notes covered a rename of others, and a deny
// rule was avoided with ./ in the path or a field that the command does not use.
func TestPermission(t *testing.T) {
	rules := permission.Rules{}
	rules.Allow, _ = permission.ParseRules([]string{"Memory", "*"}, permission.User, "")
	why := ""
	tl := Tool(Options{Untrusted: func() string { return why }})
	decide := func(r permission.Rules, command string) permission.Decision {
		data := json.RawMessage(`{"command":"` + command + `","path":"/memories/user/a.md"}`)
		p := tl.Propose("1", data)
		subjects, err := p.SubjectsFor(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		return r.Decide(t.Context(), permission.Default, permission.PathContext{}, subjects...)
	}
	if d := decide(permission.Rules{}, "view"); d.Verdict != permission.Allow {
		t.Error("view", d.Reason)
	}
	if d := decide(permission.Rules{}, "create"); d.Verdict != permission.Ask {
		t.Error("create without a rule", d.Verdict)
	}
	if d := decide(rules, "create"); d.Verdict != permission.Allow {
		t.Error("create with a rule", d.Reason)
	}
	// A rule for some paths holds for what is written, in whatever form and beside whatever other field.
	some := permission.Rules{}
	some.Allow, _ = permission.ParseRules([]string{"Memory(/memories/project/*)"}, permission.User, "")
	some.Deny, _ = permission.ParseRules([]string{"Memory(/memories/user/MEMORY.md)"}, permission.User, "")
	for in, want := range map[string]permission.Verdict{
		`"create","path":"/memories/project/a.md"`:                                             permission.Allow,
		`"rename","old_path":"/memories/project/a.md","new_path":"/memories/project/b.md"`:     permission.Allow,
		`"rename","path":"/memories/project/","old_path":"/memories/user/a.md","new_path":"x"`: permission.Ask,
		`"rename","old_path":"/memories/project/a.md","new_path":"/memories/user/MEMORY.md"`:   permission.Deny,
		`"create","path":"/memories/user/MEMORY.md","old_path":"x"`:                            permission.Deny,
		`"create","path":"/memories//user/./MEMORY.md"`:                                        permission.Deny,
	} {
		in = `{"command":` + in + `}`
		p := tl.Propose("1", json.RawMessage(in))
		subjects, err := p.SubjectsFor(t.Context(), json.RawMessage(in))
		if err != nil {
			t.Fatal(err)
		}
		if d := some.Decide(t.Context(), permission.Default, permission.PathContext{}, subjects...); d.Verdict != want {
			t.Errorf("%s: %s", in, d.Verdict)
		}
	}
	why = "this session has read from the web"
	if d := decide(rules, "create"); d.Verdict != permission.Ask || d.Reason != why {
		t.Error("after the web", d.Verdict, d.Reason)
	}
}

// TestTogether: what several programs add to one file is all kept, and nothing else is left.
func TestTogether(t *testing.T) {
	o := Options{User: t.TempDir()}
	os.WriteFile(filepath.Join(o.User, ".knack-LEFTOVER"), []byte("x"), 0o600) // of a program that was killed
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 5 {
				if err := Add(o, "/memories/user/MEMORY.md", fmt.Sprintf("line %d.%d.", i, k)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(filepath.Join(o.User, "MEMORY.md"))
	if n := strings.Count(string(data), "\n"); err != nil || n != 40 {
		t.Errorf("%d lines, %v", n, err)
	}
	if entries, err := os.ReadDir(o.User); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
