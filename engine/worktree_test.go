package engine_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/undo"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/checkpoint"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// show returns what is in a file of a commit.
func show(t *testing.T, dir, what string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", dir, "show", what).Output()
	if err != nil {
		t.Error(what, err)
	}
	return string(out)
}

// TestHostRulesInWorktree: what a host denies is denied in a worktree too, to the session and to sub-agents. Found by
// attack: EnterWorktree and agents with isolation lost these rules.
func TestHostRulesInWorktree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	p := newFixture(t, "a.txt", "a\n")
	p.Commit(t)
	m := llmtest.New(
		calls("Agent", `{"description":"d","prompt":"p","agent":"apart"}`),
		calls("bash", `{"command":"touch agent"}`),
		llmtest.Reply("agent done"),
		calls("EnterWorktree", `{"name":"feature"}`),
		calls("bash", `{"command":"touch session"}`),
		llmtest.Reply("done"))
	o := p.options(m)
	o.Trust = true
	o.Values["permissions.allow"] = []string{"EnterWorktree", "Agent", "Bash"}
	deny, err := permission.ParseRule("Bash(touch:*)", permission.Flag)
	if err != nil {
		t.Fatal(err)
	}
	_, s := p.open(t, o, nil, engine.SessionOptions{Host: engine.Host{
		Rules:  permission.Rules{Deny: []permission.Rule{deny}},
		Agents: []agent.Definition{{Name: "apart", Description: "d", Prompt: "p", Isolated: true}}}})
	run(t, s, "go")
	refused := 0
	for _, r := range m.Requests() {
		data, err := json.Marshal(r.Messages[len(r.Messages)-1])
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "the rule Bash(touch:*)") {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%d of 2 calls were refused", refused)
	}
}

// TestEnterWorktree: a session works in a worktree until it leaves it, an undo brings back what it changed there, and
// nothing that it did is lost.
func TestEnterWorktree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	p := newFixture(t, "a.txt", "a\n", "sub/b.txt", "b\n")
	p.Commit(t)
	m := llmtest.New(
		calls("EnterWorktree", `{"name":"feature"}`),
		calls("write", `{"path":"a.txt","content":"by the agent\n"}`),
		calls("bash", `{"command":"pwd; rm sub/b.txt; echo new > c.txt"}`),
		llmtest.Reply("done"),
		calls("read", `{"path":"a.txt"}`), // a later turn is there too
		calls("EnterWorktree", `{"name":"other"}`),
		calls("ExitWorktree", `{"action":"remove"}`),
		llmtest.Reply("asked"),
		calls("bash", `{"command":"echo again > d.txt"}`),
		calls("ExitWorktree", `{"action":"remove","discard_changes":true}`),
		calls("bash", `{"command":"pwd; cat a.txt"}`),
		calls("ExitWorktree", `{"action":"keep"}`),
		llmtest.Reply("left"))
	o := p.options(m)
	o.Trust = true
	o.Values["permissions.allow"] = []string{"Edit", "Write", "EnterWorktree", "ExitWorktree", "Bash"}
	_, s := p.open(t, o, nil, engine.SessionOptions{})
	tree := p.dir + ".worktrees/feature"
	there := func(name string) string {
		data, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			return "none"
		}
		return string(data)
	}
	told := func(i int) string {
		data, err := json.Marshal(m.Requests()[i].Messages)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	run(t, s, "work beside me")
	if there("a.txt") != "by the agent\n" || there("sub/b.txt") != "none" || there("c.txt") != "new\n" ||
		p.Content(t, "a.txt") != "a\n" || p.Content(t, "c.txt") != "none" || !strings.Contains(told(3), tree) {
		t.Fatal(there("a.txt"), there("sub/b.txt"), there("c.txt"), p.Content(t, "a.txt"), told(3))
	}
	r, err := undo.Of(s).Restore(t.Context(), 0, checkpoint.Options{})
	if err != nil || len(r.Left) > 0 || there("a.txt") != "a\n" || there("sub/b.txt") != "b\n" || there("c.txt") != "none" {
		t.Error(r, err, there("a.txt"), there("sub/b.txt"), there("c.txt"))
	}
	if _, err := undo.Of(s).Redo(t.Context(), checkpoint.Options{}); err != nil || there("a.txt") != "by the agent\n" || there("c.txt") != "new\n" {
		t.Error(err, there("a.txt"), there("c.txt"))
	}
	run(t, s, "where are you?")
	if text := told(len(m.Requests()) - 1); !strings.Contains(text, "by the agent") ||
		!strings.Contains(text, "already: call ExitWorktree first") || !strings.Contains(text, "has changes that are not committed") {
		t.Error(text)
	}
	run(t, s, "leave")
	text := told(len(m.Requests()) - 1)
	if !strings.Contains(text, "What changed in it is on the branch knack/feature") ||
		!strings.Contains(text, p.dir+`\na`) || !strings.Contains(text, "no worktree was entered") {
		t.Error(text)
	}
	if _, err := os.Stat(tree); !os.IsNotExist(err) {
		t.Error("the worktree is still there")
	}
	if out := show(t, p.dir, "knack/feature:a.txt"); out != "by the agent\n" {
		t.Errorf("the branch has %q", out)
	}
	if out := show(t, p.dir, "knack/feature:d.txt"); out != "again\n" {
		t.Errorf("the branch has %q", out)
	}
}

// TestEnterWorktreeAsks: without a rule nobody agrees, and the session stays where it is; a call of the same answer
// that was decided on before is not run in the worktree.
func TestEnterWorktreeAsks(t *testing.T) {
	p := newFixture(t, "a.txt", "a\n")
	p.Commit(t)
	both := calls("EnterWorktree", `{"name":"x"}`)
	both.Calls = append(both.Calls, llmtest.Call{Name: "ls", Input: map[string]any{}})
	m := llmtest.New(calls("EnterWorktree", `{}`), llmtest.Reply("no"), both, llmtest.Reply("yes"))
	o := p.options(m)
	_, s := p.open(t, o, nil, engine.SessionOptions{})
	run(t, s, "work beside me")
	if found, _ := filepath.Glob(p.dir + ".worktrees*"); len(found) > 0 {
		t.Error(found)
	}
	o.Values["permissions.allow"] = []string{"EnterWorktree"}
	_, s = p.open(t, o, nil, engine.SessionOptions{})
	run(t, s, "work beside me")
	last := m.Requests()[len(m.Requests())-1]
	data, err := json.Marshal(last.Messages)
	if err != nil || !strings.Contains(string(data), "the working directory changed after this call was decided on") {
		t.Error(err, string(data))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if found, _ := filepath.Glob(p.dir + ".worktrees*"); len(found) > 0 { // nothing changed in it
		t.Error(found)
	}
}

// TestResumeInWorktree: a session that is resumed works in its worktree again, and is told if that is gone.
func TestResumeInWorktree(t *testing.T) {
	p := newFixture(t, "a.txt", "a\n")
	p.Commit(t)
	m := llmtest.New(calls("EnterWorktree", `{"name":"x"}`), calls("write", `{"path":"b.txt","content":"b\n"}`),
		llmtest.Reply("done"), calls("read", `{"path":"b.txt"}`), llmtest.Reply("read"), llmtest.Reply("gone"))
	o := p.options(m)
	o.Values["permissions.allow"] = []string{"EnterWorktree", "Edit", "Write"}
	e, s := p.open(t, o, nil, engine.SessionOptions{})
	run(t, s, "begin")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	told := false
	for _, x := range e.Notices() {
		told = told || strings.Contains(x.Message, "branch knack/x, has changes that are not committed")
	}
	if !told {
		t.Error(e.Notices())
	}
	_, s = p.open(t, o, nil, engine.SessionOptions{Resume: s.ID()})
	run(t, s, "go on")
	data, err := json.Marshal(m.Requests()[len(m.Requests())-1].Messages)
	if err != nil || !strings.Contains(string(data), `"text":"b\n`) {
		t.Error(err, string(data))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(p.dir + ".worktrees"); err != nil {
		t.Fatal(err)
	}
	_, s = p.open(t, o, nil, engine.SessionOptions{Resume: s.ID()})
	run(t, s, "and now?")
	data, err = json.Marshal(m.Requests()[len(m.Requests())-1].Messages)
	if err != nil || !strings.Contains(string(data), "is not there any more: you work in "+p.dir+" again") {
		t.Error(err, string(data))
	}
}

// TestIsolation: an agent with isolation: worktree works in a worktree of its own, which is removed if nothing changed
// and named otherwise; the project's own files are only read.
func TestIsolation(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	const definition = "---\nname: lone\ndescription: works alone\nisolation: worktree\n---\nYou work alone.\n"
	for _, c := range []struct {
		name, call, input string
		kept              bool
	}{
		{"reads", "bash", `{"command":"cat a.txt"}`, false},
		{"writes", "write", `{"path":"a.txt","content":"by the agent\n"}`, true},
		{"commits", "bash", `{"command":"echo new > b.txt && git add b.txt && git -c user.name=a -c user.email=a@b commit -qm second"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newFixture(t, "a.txt", "a\n", ".claude/agents/lone.md", definition)
			p.Commit(t)
			m := llmtest.New(calls("Agent", `{"agent":"lone","prompt":"do it"}`), calls(c.call, c.input),
				llmtest.Reply("done"), llmtest.Reply("finished"))
			o := p.options(m)
			o.Trust = true
			o.Values["permissions.allow"] = []string{"Edit", "Write", "Agent", "Bash"}
			e, s := p.open(t, o, nil, engine.SessionOptions{})
			run(t, s, "let it work")
			if p.Content(t, "a.txt") != "a\n" || p.Content(t, "b.txt") != "none" {
				t.Error("the project's own files changed")
			}
			trees, err := filepath.Glob(p.dir + ".worktrees/*")
			if err != nil || len(trees) == 1 != c.kept {
				t.Fatalf("worktrees %q, %v", trees, err)
			}
			told := false
			for _, x := range e.Notices() {
				told = told || strings.Contains(x.Message, "agent lone: the worktree "+p.dir+".worktrees")
			}
			last := m.Requests()[len(m.Requests())-1]
			data, err := json.Marshal(last.Messages)
			if err != nil {
				t.Fatal(err)
			}
			report := strings.Contains(string(data), "branch knack/agent-lone-")
			if told != c.kept || report != c.kept {
				t.Errorf("the user was told: %t, the model: %t; want %t", told, report, c.kept)
			}
		})
	}
}
