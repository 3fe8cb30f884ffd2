package engine_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/checkpoint"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// commit makes the project a repository with everything in it committed.
func (p fixture) commit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	for _, args := range [][]string{{"init", "-q", "--template="}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "maintenance.auto=false", "commit", "-qm", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", p.dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %s", args, out)
		}
	}
}

// content returns a file of the project, or "none".
func (p fixture) content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestUndo: what tools and commands change in turns can be taken back, turn by turn, and after a resume; the
// repository's configuration runs nothing meanwhile.
func TestUndo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	p := newFixture(t, "a.txt", "a\n", "b.txt", "b\n", "mine.txt", "mine\n")
	p.commit(t)
	p.write(t, "mine.txt", "not committed\n")
	p.write(t, "untracked.txt", "untracked\n")
	ran := filepath.Join(p.home, "ran")
	for _, name := range []string{"core.fsmonitor", "filter.x.clean", "filter.x.smudge"} {
		if out, err := exec.Command("git", "-C", p.dir, "config", name, "touch "+ran+";").CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
	}
	p.write(t, ".gitattributes", "* filter=x\n")

	m := llmtest.New(
		calls("write", `{"path":"new/c.txt","content":"c\n"}`), calls("bash", `{"command":"cat a.txt"}`),
		calls("bash", `{"command":"rm untracked.txt mine.txt && echo changed > b.txt"}`), llmtest.Reply("done"),
		calls("bash", `{"command":"rm a.txt"}`), llmtest.Reply("done"))
	o := p.options(m)
	o.Values["permissions.allow"] = []string{"Bash", "Edit"}
	e, s := p.open(t, o, nil, engine.SessionOptions{})
	run(t, s, "first")
	if p.content(t, "untracked.txt") != "none" || p.content(t, "new/c.txt") != "c\n" {
		t.Fatal("the calls did not run")
	}
	run(t, s, "second")
	turns, err := s.FileTurns()
	if err != nil || len(turns) != 2 || turns[0].Prompt != "first" || len(turns[0].Files) != 4 || turns[1].Entry <= turns[0].Entry {
		t.Fatalf("%+v %v", turns, err)
	}
	if r, err := s.RestoreFiles(t.Context(), 0, checkpoint.Options{}); err != nil || len(r.Files) != 1 ||
		p.content(t, "a.txt") != "a\n" || p.content(t, "new/c.txt") != "c\n" {
		t.Errorf("%+v %v", r, err)
	}
	id := s.Log().ID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = e.Start(t.Context(), nil, engine.SessionOptions{Resume: id}); err != nil {
		t.Fatal(err)
	}
	p.write(t, "b.txt", "by the user\n")
	r, err := s.RestoreFiles(t.Context(), turns[0].Entry, checkpoint.Options{})
	if err != nil || len(r.Left) != 1 || r.Left[0].Path != "b.txt" {
		t.Errorf("%+v %v", r, err)
	}
	for name, want := range map[string]string{"mine.txt": "not committed\n", "untracked.txt": "untracked\n",
		"new/c.txt": "none",
		"b.txt":     "by the user\n"} {
		if got := p.content(t, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := s.RedoFiles(t.Context(), checkpoint.Options{}); err != nil || p.content(t, "new/c.txt") != "c\n" {
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
		p := newFixture(t, "a.txt", "a\n")
		o, so := p.options(llmtest.New(calls("write", `{"path":"new.txt","content":"x"}`), llmtest.Reply("done"))),
			engine.SessionOptions{}
		o.Values["permissions.allow"] = []string{"Edit"}
		change(&o, &so)
		_, s := p.open(t, o, nil, so)
		run(t, s, "first")
		if _, err := s.RestoreFiles(t.Context(), 0, checkpoint.Options{}); !errors.Is(err, engine.ErrNoCheckpoints) {
			t.Errorf("%s: %v", name, err)
		}
		if found, _ := filepath.Glob(filepath.Join(p.home, ".local/state/knack/checkpoints")); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// TestUndoOfAgents: what a sub-agent changes can be taken back with the turn.
func TestUndoOfAgents(t *testing.T) {
	p := newFixture(t, "a.txt", "a\n")
	m := llmtest.New(
		calls("Agent", `{"agent":"general-purpose","prompt":"do it"}`),
		calls("write", `{"path":"new.txt","content":"by the agent\n"}`), llmtest.Reply("done"), llmtest.Reply("done"))
	o := p.options(m)
	o.Values["permissions.allow"] = []string{"Edit", "Write", "Agent"}
	_, s := p.open(t, o, nil, engine.SessionOptions{})
	run(t, s, "go on")
	if p.content(t, "new.txt") != "by the agent\n" {
		t.Fatal("the agent did not write")
	}
	if r, err := s.RestoreFiles(t.Context(), 0, checkpoint.Options{}); err != nil || len(r.Files) != 1 ||
		p.content(t, "new.txt") != "none" {
		t.Errorf("%+v %v", r, err)
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
			p.commit(t)
			m := llmtest.New(calls("Agent", `{"agent":"lone","prompt":"do it"}`), calls(c.call, c.input),
				llmtest.Reply("done"), llmtest.Reply("finished"))
			o := p.options(m)
			o.Trust = true
			o.Values["permissions.allow"] = []string{"Edit", "Write", "Agent", "Bash"}
			e, s := p.open(t, o, nil, engine.SessionOptions{})
			run(t, s, "let it work")
			if p.content(t, "a.txt") != "a\n" || p.content(t, "b.txt") != "none" {
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

// TestUndoInIsolation: what an agent does in a worktree of its own, with tools and with commands, is taken back there,
// and also what it removed that no commit has. The project's own files stay as they are.
func TestUndoInIsolation(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of sh")
	}
	p := newFixture(t, "a.txt", "a\n", "b.txt", "b\n", ".claude/agents/lone.md",
		"---\nname: lone\ndescription: works alone\nisolation: worktree\n---\nYou work alone.\n")
	p.commit(t)
	o := p.options(llmtest.New(calls("Agent", `{"agent":"lone","prompt":"do it"}`),
		calls("write", `{"path":"new.txt","content":"by the agent\n"}`),
		calls("bash", `{"command":"rm a.txt; echo changed >b.txt; mv new.txt other.txt; mkdir d; echo c >d/c.txt"}`),
		llmtest.Reply("done"), llmtest.Reply("finished")))
	o.Trust = true
	o.Values["permissions.allow"] = []string{"Edit", "Write", "Agent", "Bash"}
	_, s := p.open(t, o, nil, engine.SessionOptions{})
	run(t, s, "let it work")
	trees, err := filepath.Glob(p.dir + ".worktrees/*")
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
	own := p.content(t, "a.txt") + p.content(t, "b.txt")
	if got := content("a.txt") + content("b.txt") + content("other.txt"); got != "nonechanged\nby the agent\n" {
		t.Fatalf("the agent left %q", got)
	}
	r, err := s.RestoreFiles(t.Context(), 0, checkpoint.Options{})
	if err != nil || len(r.Left) > 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if got := content("a.txt") + content("b.txt") + content("new.txt") + content("other.txt") + content("d/c.txt"); got !=
		"a\nb\nnonenonenone" {
		t.Errorf("after the undo: %q (%+v)", got, r)
	}
	if r, err = s.RedoFiles(t.Context(), checkpoint.Options{}); err != nil || len(r.Left) > 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if got := content("a.txt") + content("b.txt") + content("other.txt") + content("d/c.txt"); got !=
		"nonechanged\nby the agent\nc\n" {
		t.Errorf("after the redo: %q (%+v)", got, r)
	}
	if p.content(t, "a.txt")+p.content(t, "b.txt") != own {
		t.Error("the project's own files changed")
	}
}
