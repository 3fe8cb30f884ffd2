package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/audit"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// managed returns options of a project whose administrator has these settings.
func managed(t *testing.T, p enginetest.Fixture, m *llmtest.Script, settings string) engine.Options {
	t.Helper()
	p.Write(t, "~/managed/settings.json", settings)
	o := p.Options(m)
	o.Managed = []string{filepath.Join(p.Home, "managed")}
	return o
}

func bash(line string) llmtest.Answer {
	return enginetest.Calls("bash", fmt.Sprintf(`{"command": %q}`, line))
}

// run runs a prompt in a session that is not recorded.
func run(t *testing.T, p enginetest.Fixture, o engine.Options, person engine.Person) string {
	t.Helper()
	_, s := p.Open(t, o, person, engine.SessionOptions{Forget: true, Wait: true})
	said := enginetest.Run(t, s, "hello")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return said
}

// entries returns what a file has, a line each, and what is wrong with it.
func entries(path string) (all, damage string) {
	for e, wrong := range audit.All(path) {
		if wrong != nil {
			damage += wrong.String() + "\n"
		}
		if e.N > 0 {
			all += fmt.Sprintf("%d %s %s %s %s", e.N, e.Type, e.Agent, e.Tool, e.Verdict)
			for _, s := range e.Subjects {
				all += " [" + s.Text + "]"
			}
			all += fmt.Sprintf(" rule=%s input=%v\n", e.Rule, e.Input != "")
		}
	}
	return all, damage
}

var once = enginetest.PersonFunc(func(context.Context, engine.Question) (engine.Answer, error) {
	return engine.Answer{Option: engine.OptionOnce}, nil
})

// TestDecisions: every decision is in the file, also of a session that is not recorded and of a sub-agent, without
// keys.
func TestDecisions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands need a shell")
	}
	t.Parallel()
	const key = "sk-ant-api03-Zq8xK2mVb7LwT5nRy4PjD9sHcE1fGaQ6uXo3iBvMzN0tWkYrJd-A"
	p := enginetest.New(t)
	file := filepath.Join(p.Home, "audit.jsonl")
	o := managed(t, p, &llmtest.Script{Answers: []llmtest.Answer{bash("echo " + key), bash("git push --force"),
		enginetest.Calls("Agent", `{"agent": "general-purpose", "prompt": "x", "description": "y"}`), bash("echo inner"),
		{Text: "report"}, bash("echo > " + file), {Text: "done"}}},
		`{"audit": {"file": "~/audit.jsonl"}, "permissions": {"deny": ["Bash(git push:*)"]}}`)
	said := run(t, p, o, once)
	all, damage := entries(file)
	want := "1 session    rule= input=false\n" +
		"2 decision  bash allow [echo [secret]] rule= input=true\n" +
		"3 decision  bash deny [git push --force] rule=Bash(git push:*) input=false\n" +
		"4 decision  Agent allow [general-purpose] rule= input=true\n" +
		"5 decision general-purpose bash allow [echo inner] rule= input=true\n" +
		"6 decision  bash deny [echo] [" + file + "] rule=Edit(/" + file + ") input=false\n"
	if all != want || damage != "" {
		t.Errorf("the file:\n%s\n%s\nwant\n%s\nthe run:\n%s", all, damage, want, said)
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(data), key) || !strings.Contains(string(data), `"user":"`+engine.SystemUser()) {
		t.Errorf("%v: %s", err, data)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// TestOnlyManaged: a user, a flag and a trusted project cannot set it.
func TestOnlyManaged(t *testing.T) {
	t.Parallel()
	const text = `{"audit": {"file": "/nowhere/x", "required": true}, "sessions": {"required": true}, "trust": {"folders": ["/"]}}`
	p := enginetest.New(t, ".knack/settings.json", text, "~/.config/knack/settings.json", text)
	o := p.Options(&llmtest.Script{Answers: []llmtest.Answer{{Text: "an answer"}}})
	o.Trust, o.Settings = true, []string{text}
	e, s := p.Open(t, o, nil, engine.SessionOptions{Forget: true})
	if said := enginetest.Run(t, s, "hello"); !strings.Contains(said, "an answer") {
		t.Error(said)
	}
	named := 0
	for _, x := range e.Project().SettingsProblems() {
		if strings.Contains(x.Message, "is read only from managed settings") {
			named++
		}
	}
	if named != 12 {
		t.Errorf("%d of 12 keys are named: %v", named, e.Project().SettingsProblems())
	}
}

// TestRequired: where an entry is required, a call does not run whose decision cannot be written, and the run ends;
// where it is not, the run goes on and says so once.
func TestRequired(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands need a shell")
	}
	t.Parallel()
	for _, required := range []bool{false, true} {
		p := enginetest.New(t)
		dir := filepath.Join(p.Home, "logs")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "audit.jsonl")
		m := &llmtest.Script{Answers: []llmtest.Answer{bash("touch first"), bash("touch second"), bash("touch third"),
			{Text: "an answer"}}}
		o := managed(t, p, m, fmt.Sprintf(`{"audit": {"file": %q, "required": %v}}`, file, required))
		n := 0
		person := enginetest.PersonFunc(func(context.Context, engine.Question) (engine.Answer, error) {
			if n++; n == 2 { // from now on there is a directory in its place
				if err := errors.Join(os.Rename(file, file+".old"), os.Mkdir(file, 0o700)); err != nil {
					t.Error(err)
				}
			}
			return engine.Answer{Option: engine.OptionOnce}, nil
		})
		e, s := p.Open(t, o, person, engine.SessionOptions{Forget: true})
		said := enginetest.Run(t, s, "hello")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		ran := func(name string) bool { return p.Content(t, name) != "none" }
		told := 0
		for _, x := range e.Notices() {
			if strings.HasPrefix(x.Message, "the audit file cannot be written: ") {
				told++
			}
		}
		if !ran("first") || ran("second") == required || ran("third") == required || told != 1 ||
			strings.Contains(said, "an answer") == required ||
			required && !strings.Contains(said, "the administrator requires it") {
			t.Errorf("required %v, told %d times:\n%s", required, told, said)
		}
		if _, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true}); (err != nil) != required {
			t.Errorf("required %v: the next session: %v", required, err)
		}
	}
}

// TestNoSession: managed settings can forbid sessions without a record.
func TestNoSession(t *testing.T) {
	t.Parallel()
	p := enginetest.New(t)
	e, err := engine.Open(t.Context(), managed(t, p, &llmtest.Script{}, `{"sessions": {"required": true}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true}); err == nil ||
		!strings.Contains(err.Error(), "sessions.required") {
		t.Error(err)
	}
	s, err := e.Start(t.Context(), nil, engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFolders: a managed folder is trusted in advance, and what is beside it is not.
func TestFolders(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"~/../work", "~/../wor", "work", "~/.."} {
		p := enginetest.New(t, ".knack/skills/theirs/SKILL.md", "---\ndescription: d\n---\nx")
		e, err := engine.Open(t.Context(), managed(t, p, &llmtest.Script{}, fmt.Sprintf(`{"trust": {"folders": [%q]}}`, folder)))
		if err != nil {
			t.Fatal(err)
		}
		want := folder == "~/../work" || folder == "~/.."
		if got := e.Catalog().Skill("theirs") != nil; got != want {
			t.Errorf("%s: the skill is used: %v", folder, got)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTwoPrograms: entries of two engines, which share nothing, are one chain.
func TestTwoPrograms(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	file := filepath.Join(top, "audit.jsonl")
	var all sync.WaitGroup
	for range 4 {
		p := enginetest.New(t)
		var answers []llmtest.Answer
		for i := range 25 {
			answers = append(answers, enginetest.Calls("read", fmt.Sprintf(`{"path": "f%d"}`, i)))
		}
		o := managed(t, p, &llmtest.Script{Answers: append(answers, llmtest.Answer{Text: "x"})},
			fmt.Sprintf(`{"audit": {"file": %q}}`, file))
		all.Go(func() { run(t, p, o, nil) })
	}
	all.Wait()
	got, damage := entries(file)
	if n := strings.Count(got, "\n"); n != 4*26 || damage != "" {
		t.Errorf("%d entries; %s", n, damage)
	}
}

// TestVerify finds what was done to a file.
func TestVerify(t *testing.T) {
	t.Parallel()
	p := enginetest.New(t)
	file := filepath.Join(p.Home, "audit.jsonl")
	read := enginetest.Calls("read", `{"path": "a"}`)
	script := func() *llmtest.Script {
		return &llmtest.Script{Answers: []llmtest.Answer{read, read, read, {Text: "x"}}}
	}
	set := fmt.Sprintf(`{"audit": {"file": %q}}`, file)
	run(t, p, managed(t, p, script(), set), nil)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines", len(lines))
	}
	for name, x := range map[string]struct {
		text string
		want []string
	}{
		"as it is":       {string(data), nil},
		"an edited line": {strings.Replace(string(data), `"allow"`, `"denyy"`, 1), []string{":2: entry: it was changed"}},
		"a removed line": {lines[0] + lines[2] + lines[3], []string{":2: the entry 3 follows the entry 1"}},
		"the beginning":  {lines[1] + lines[2], []string{":1: it begins with the entry 2"}},
		"cut":            {string(data)[:len(data)-20], []string{":4: entry: it is not complete"}},
		"a line twice":   {lines[0] + lines[1] + lines[1], []string{":3: the entry 2 follows the entry 2"}},
		"something else": {lines[0] + "hello\n" + lines[1], []string{":2: entry: it is not complete"}},
	} {
		if err := os.WriteFile(file, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, damage := entries(file)
		if len(x.want) == 0 && damage != "" || strings.Count(damage, "\n") != len(x.want) {
			t.Errorf("%s: %s", name, damage)
		}
		for _, want := range x.want {
			if !strings.Contains(damage, want) {
				t.Errorf("%s: %q is not in %s", name, want, damage)
			}
		}
		// What follows goes on behind the last entry that is whole.
		run(t, p, managed(t, p, script(), set), nil)
		if _, after := entries(file); strings.Count(after, "\n") > len(x.want) && name != "a line twice" {
			t.Errorf("%s, and then a session: %s", name, after)
		}
	}
}

// TestLink: a link in the place of the file, or of its lock, is not followed, and a lock that another program holds
// does not hold up a run.
func TestLink(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"audit.jsonl", "audit.jsonl.lock"} {
		p := enginetest.New(t, "~/victim", "mine")
		if err := os.Symlink(filepath.Join(p.Home, "victim"), filepath.Join(p.Home, name)); err != nil {
			t.Skip(err)
		}
		said := run(t, p, managed(t, p, &llmtest.Script{Answers: []llmtest.Answer{enginetest.Calls("read", `{"path": "a"}`),
			{Text: "an answer"}}}, `{"audit": {"file": "~/audit.jsonl"}}`), nil)
		if data, _ := os.ReadFile(filepath.Join(p.Home, "victim")); string(data) != "mine" ||
			!strings.Contains(said, "an answer") {
			t.Errorf("%s: the link's target is %q\n%s", name, data, said)
		}
	}
	p := enginetest.New(t)
	lock := flock.New(filepath.Join(p.Home, "audit.jsonl.lock"))
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer lock.Unlock()
	if said := run(t, p, managed(t, p, &llmtest.Script{Answers: []llmtest.Answer{{Text: "an answer"}}},
		`{"audit": {"file": "~/audit.jsonl"}}`), nil); !strings.Contains(said, "an answer") {
		t.Error(said)
	}
}
