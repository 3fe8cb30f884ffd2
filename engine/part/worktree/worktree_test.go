package worktree_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part/undo"
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

// TestEnterWorktree: a session works in a worktree until it leaves it, an undo brings back what it changed there, and
// nothing that it did is lost.
func TestEnterWorktree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	p := enginetest.New(t, "a.txt", "a\n", "sub/b.txt", "b\n")
	p.Commit(t)
	m := llmtest.New(
		enginetest.Calls("EnterWorktree", `{"name":"feature"}`),
		enginetest.Calls("write", `{"path":"a.txt","content":"by the agent\n"}`),
		enginetest.Calls("bash", `{"command":"pwd; rm sub/b.txt; echo new > c.txt"}`),
		llmtest.Reply("done"),
		enginetest.Calls("read", `{"path":"a.txt"}`), // a later turn is there too
		enginetest.Calls("EnterWorktree", `{"name":"other"}`),
		enginetest.Calls("ExitWorktree", `{"action":"remove"}`),
		llmtest.Reply("asked"),
		enginetest.Calls("bash", `{"command":"echo again > d.txt"}`),
		enginetest.Calls("ExitWorktree", `{"action":"remove","discard_changes":true}`),
		enginetest.Calls("bash", `{"command":"pwd; cat a.txt"}`),
		enginetest.Calls("ExitWorktree", `{"action":"keep"}`),
		llmtest.Reply("left"))
	o := p.Options(m)
	o.Trust = true
	o.Values["permissions.allow"] = []string{"Edit", "Write", "EnterWorktree", "ExitWorktree", "Bash"}
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	tree := p.Dir + ".worktrees/feature"
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
	enginetest.Run(t, s, "work beside me")
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
	enginetest.Run(t, s, "where are you?")
	if text := told(len(m.Requests()) - 1); !strings.Contains(text, "by the agent") ||
		!strings.Contains(text, "already: call ExitWorktree first") || !strings.Contains(text, "has changes that are not committed") {
		t.Error(text)
	}
	enginetest.Run(t, s, "leave")
	text := told(len(m.Requests()) - 1)
	if !strings.Contains(text, "What changed in it is on the branch knack/feature") ||
		!strings.Contains(text, p.Dir+`\na`) || !strings.Contains(text, "no worktree was entered") {
		t.Error(text)
	}
	if _, err := os.Stat(tree); !os.IsNotExist(err) {
		t.Error("the worktree is still there")
	}
	if out := show(t, p.Dir, "knack/feature:a.txt"); out != "by the agent\n" {
		t.Errorf("the branch has %q", out)
	}
	if out := show(t, p.Dir, "knack/feature:d.txt"); out != "again\n" {
		t.Errorf("the branch has %q", out)
	}
}

// TestEnterWorktreeAsks: without a rule nobody agrees, and the session stays where it is; a call of the same answer
// that was decided on before is not run in the worktree.
func TestEnterWorktreeAsks(t *testing.T) {
	p := enginetest.New(t, "a.txt", "a\n")
	p.Commit(t)
	both := enginetest.Calls("EnterWorktree", `{"name":"x"}`)
	both.Calls = append(both.Calls, llmtest.Call{Name: "ls", Input: map[string]any{}})
	m := llmtest.New(enginetest.Calls("EnterWorktree", `{}`), llmtest.Reply("no"), both, llmtest.Reply("yes"))
	o := p.Options(m)
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "work beside me")
	if found, _ := filepath.Glob(p.Dir + ".worktrees*"); len(found) > 0 {
		t.Error(found)
	}
	o.Values["permissions.allow"] = []string{"EnterWorktree"}
	_, s = p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "work beside me")
	last := m.Requests()[len(m.Requests())-1]
	data, err := json.Marshal(last.Messages)
	if err != nil || !strings.Contains(string(data), "the working directory changed after this call was decided on") {
		t.Error(err, string(data))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if found, _ := filepath.Glob(p.Dir + ".worktrees*"); len(found) > 0 { // nothing changed in it
		t.Error(found)
	}
}

// TestResumeInWorktree: a session that is resumed works in its worktree again, and is told if that is gone.
func TestResumeInWorktree(t *testing.T) {
	p := enginetest.New(t, "a.txt", "a\n")
	p.Commit(t)
	m := llmtest.New(enginetest.Calls("EnterWorktree", `{"name":"x"}`), enginetest.Calls("write", `{"path":"b.txt","content":"b\n"}`),
		llmtest.Reply("done"), enginetest.Calls("read", `{"path":"b.txt"}`), llmtest.Reply("read"), llmtest.Reply("gone"))
	o := p.Options(m)
	o.Values["permissions.allow"] = []string{"EnterWorktree", "Edit", "Write"}
	e, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "begin")
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
	_, s = p.Open(t, o, nil, engine.SessionOptions{Resume: s.ID()})
	enginetest.Run(t, s, "go on")
	data, err := json.Marshal(m.Requests()[len(m.Requests())-1].Messages)
	if err != nil || !strings.Contains(string(data), `"text":"b\n`) {
		t.Error(err, string(data))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(p.Dir + ".worktrees"); err != nil {
		t.Fatal(err)
	}
	_, s = p.Open(t, o, nil, engine.SessionOptions{Resume: s.ID()})
	enginetest.Run(t, s, "and now?")
	data, err = json.Marshal(m.Requests()[len(m.Requests())-1].Messages)
	if err != nil || !strings.Contains(string(data), "is not there any more: you work in "+p.Dir+" again") {
		t.Error(err, string(data))
	}
}
