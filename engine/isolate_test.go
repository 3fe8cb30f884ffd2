package engine_test

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

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
