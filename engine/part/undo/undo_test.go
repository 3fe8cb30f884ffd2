package undo_test

import (
	"errors"
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

// TestUndoUnused: a session whose tools change nothing opens no journal, which would start git.
func TestUndoUnused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("git is replaced by a script of sh")
	}
	p := enginetest.New(t, "a.txt", "a\n")
	p.Commit(t)
	p.Write(t, "../bin/git", "#!/bin/sh\necho \"$@\" >> '"+p.Home+"/ran'\n")
	bin := filepath.Join(p.Dir, "../bin")
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	o := p.Options(llmtest.New(enginetest.Calls("read", `{"path":"a.txt"}`), llmtest.Reply("done")))
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	before := s.Log().Last()
	enginetest.Run(t, s, "first")
	if undo.Of(s).ChangedSince(before + 1) {
		t.Error("something was changed")
	}
	if ran, err := os.ReadFile(p.Home + "/ran"); strings.Contains(string(ran), "--show-toplevel") {
		t.Errorf("git was started: %s %v", ran, err)
	}
}

// TestUndo: what tools and commands change in turns can be taken back, turn by turn, and after a resume; the
// repository's configuration runs nothing meanwhile.
func TestUndo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	p := enginetest.New(t, "a.txt", "a\n", "b.txt", "b\n", "mine.txt", "mine\n")
	p.Commit(t)
	p.Write(t, "mine.txt", "not committed\n")
	p.Write(t, "untracked.txt", "untracked\n")
	ran := filepath.Join(p.Home, "ran")
	for _, name := range []string{"core.fsmonitor", "filter.x.clean", "filter.x.smudge"} {
		if out, err := exec.Command("git", "-C", p.Dir, "config", name, "touch "+ran+";").CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
	}
	p.Write(t, ".gitattributes", "* filter=x\n")

	m := llmtest.New(
		enginetest.Calls("write", `{"path":"new/c.txt","content":"c\n"}`), enginetest.Calls("bash", `{"command":"cat a.txt"}`),
		enginetest.Calls("bash", `{"command":"rm untracked.txt mine.txt && echo changed > b.txt"}`), llmtest.Reply("done"),
		enginetest.Calls("bash", `{"command":"rm a.txt"}`), llmtest.Reply("done"))
	o := p.Options(m)
	o.Values["permissions.allow"] = []string{"Bash", "Edit"}
	e, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "first")
	if p.Content(t, "untracked.txt") != "none" || p.Content(t, "new/c.txt") != "c\n" {
		t.Fatal("the calls did not run")
	}
	enginetest.Run(t, s, "second")
	turns, err := undo.Of(s).Turns()
	if err != nil || len(turns) != 2 || turns[0].Prompt != "first" || len(turns[0].Files) != 4 || turns[1].Entry <= turns[0].Entry {
		t.Fatalf("%+v %v", turns, err)
	}
	if r, err := undo.Of(s).Restore(t.Context(), 0, checkpoint.Options{}); err != nil || len(r.Files) != 1 ||
		p.Content(t, "a.txt") != "a\n" || p.Content(t, "new/c.txt") != "c\n" {
		t.Errorf("%+v %v", r, err)
	}
	id := s.Log().ID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = e.Start(t.Context(), nil, engine.SessionOptions{Resume: id}); err != nil {
		t.Fatal(err)
	}
	p.Write(t, "b.txt", "by the user\n")
	r, err := undo.Of(s).Restore(t.Context(), turns[0].Entry, checkpoint.Options{})
	if err != nil || len(r.Left) != 1 || r.Left[0].Path != "b.txt" {
		t.Errorf("%+v %v", r, err)
	}
	for name, want := range map[string]string{"mine.txt": "not committed\n", "untracked.txt": "untracked\n",
		"new/c.txt": "none",
		"b.txt":     "by the user\n"} {
		if got := p.Content(t, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := undo.Of(s).Redo(t.Context(), checkpoint.Options{}); err != nil || p.Content(t, "new/c.txt") != "c\n" {
		t.Errorf("redo: %v", err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the repository's configuration ran")
	}
	for _, n := range e.Notices() {
		if strings.Contains(n.Message, "undone") {
			t.Error(n)
		}
	}
}

// TestNoCheckpoints: nothing is kept where it was switched off, or where no session is recorded.
func TestNoCheckpoints(t *testing.T) {
	for name, change := range map[string]func(*engine.Options, *engine.SessionOptions){
		"off":    func(o *engine.Options, _ *engine.SessionOptions) { o.Values["checkpoints"] = "off" },
		"forget": func(_ *engine.Options, so *engine.SessionOptions) { so.Forget = true },
	} {
		p := enginetest.New(t, "a.txt", "a\n")
		o, so := p.Options(llmtest.New(enginetest.Calls("write", `{"path":"new.txt","content":"x"}`), llmtest.Reply("done"))),
			engine.SessionOptions{}
		o.Values["permissions.allow"] = []string{"Edit"}
		change(&o, &so)
		_, s := p.Open(t, o, nil, so)
		enginetest.Run(t, s, "first")
		if _, err := undo.Of(s).Restore(t.Context(), 0, checkpoint.Options{}); !errors.Is(err, undo.ErrNoCheckpoints) {
			t.Errorf("%s: %v", name, err)
		}
		if found, _ := filepath.Glob(filepath.Join(p.Home, ".local/state/knack/checkpoints")); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// TestUndoOfAgents: what a sub-agent changes can be taken back with the turn.
func TestUndoOfAgents(t *testing.T) {
	p := enginetest.New(t, "a.txt", "a\n")
	m := llmtest.New(
		enginetest.Calls("Agent", `{"agent":"general-purpose","prompt":"do it"}`),
		enginetest.Calls("write", `{"path":"new.txt","content":"by the agent\n"}`), llmtest.Reply("done"), llmtest.Reply("done"))
	o := p.Options(m)
	o.Values["permissions.allow"] = []string{"Edit", "Write", "Agent"}
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "go on")
	if p.Content(t, "new.txt") != "by the agent\n" {
		t.Fatal("the agent did not write")
	}
	if r, err := undo.Of(s).Restore(t.Context(), 0, checkpoint.Options{}); err != nil || len(r.Files) != 1 ||
		p.Content(t, "new.txt") != "none" {
		t.Errorf("%+v %v", r, err)
	}
}

// TestUndoInIsolation: what an agent does in a worktree of its own, with tools and with commands, is taken back there,
// and also what it removed that no commit has. The project's own files stay as they are.
func TestUndoInIsolation(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	p := enginetest.New(t, "a.txt", "a\n", "b.txt", "b\n", ".claude/agents/lone.md",
		"---\nname: lone\ndescription: works alone\nisolation: worktree\n---\nYou work alone.\n")
	p.Commit(t)
	o := p.Options(llmtest.New(enginetest.Calls("Agent", `{"agent":"lone","prompt":"do it"}`),
		enginetest.Calls("write", `{"path":"new.txt","content":"by the agent\n"}`),
		enginetest.Calls("bash", `{"command":"rm a.txt; echo changed >b.txt; mv new.txt other.txt; mkdir d; echo c >d/c.txt"}`),
		llmtest.Reply("done"), llmtest.Reply("finished")))
	o.Trust = true
	o.Values["permissions.allow"] = []string{"Edit", "Write", "Agent", "Bash"}
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "let it work")
	trees, err := filepath.Glob(p.Dir + ".worktrees/*")
	if err != nil || len(trees) != 1 {
		t.Fatalf("worktrees %q, %v", trees, err)
	}
	content := func(name string) string {
		data, err := os.ReadFile(filepath.Join(trees[0], name))
		if err != nil {
			return "none"
		}
		return string(data)
	}
	own := p.Content(t, "a.txt") + p.Content(t, "b.txt")
	if got := content("a.txt") + content("b.txt") + content("other.txt"); got != "nonechanged\nby the agent\n" {
		t.Fatalf("the agent left %q", got)
	}
	r, err := undo.Of(s).Restore(t.Context(), 0, checkpoint.Options{})
	if err != nil || len(r.Left) > 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if got := content("a.txt") + content("b.txt") + content("new.txt") + content("other.txt") + content("d/c.txt"); got !=
		"a\nb\nnonenonenone" {
		t.Errorf("after the undo: %q (%+v)", got, r)
	}
	if r, err = undo.Of(s).Redo(t.Context(), checkpoint.Options{}); err != nil || len(r.Left) > 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if got := content("a.txt") + content("b.txt") + content("other.txt") + content("d/c.txt"); got !=
		"nonechanged\nby the agent\nc\n" {
		t.Errorf("after the redo: %q (%+v)", got, r)
	}
	if p.Content(t, "a.txt")+p.Content(t, "b.txt") != own {
		t.Error("the project's own files changed")
	}
}

// TestEffects: which lines a host's message runs although no user typed them.
func TestEffects(t *testing.T) {
	enginetest.Effects(t, undo.Part().Commands, []string{"rewind"}, []string{"undo", "redo", "rewind 1"})
}
