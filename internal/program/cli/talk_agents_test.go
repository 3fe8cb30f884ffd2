//go:build unix

package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

func startAgent(id, prompt string, background bool) llmtest.Answer {
	return llmtest.Answer{Calls: []llmtest.Call{{ID: id, Name: "Agent",
		Input: map[string]any{"prompt": prompt, "background": background}}}}
}

// TestTalkAgents: the calls of agents are shown with their names; an answer for the session also applies to agents,
// and an answer in an agent to the session; Ctrl-C ends agents with the turn.
func TestTalkAgents(t *testing.T) {
	t.Parallel()
	when := func(expr string, a llmtest.Answer) llmtest.Answer { a.When = expr; return a }
	d := newFixture(t, serve(t,
		when("^first$", call("c1", "touch mine")),
		when("no output", startAgent("c2", "do it too", false)),
		when("^do it too$", call("c3", "touch mine")), // not asked again
		when("no output", call("c4", "touch theirs")), // asked, for the session
		when("no output", llmtest.Reply("I did")),
		when("I did", call("c5", "touch theirs")), // not asked again
		when("no output", llmtest.Reply("all done")),
		when("^second$", startAgent("d1", "sleep", false)),
		when("^sleep$", call("d2", "echo $$ >pid; sleep 300")),
		when("third$", llmtest.Answer{Want: []string{"Agent did not finish"}, Text: "still here"}),
		when("^/greeter Ada$|Greet Ada", llmtest.Reply("Dear Ada.")),
		when("fourth$", llmtest.Answer{Want: []string{"Dear Ada\\."}, Text: "I know"}),
	))
	d.file(t, ".claude/skills/greeter/SKILL.md", "---\nname: greeter\ndescription: Greets\ncontext: fork\n---\nGreet "+
		"$ARGUMENTS.\n")
	k := d.open(t, "--allow", "Bash(echo *)", "--allow", "Bash(sleep *)", "--allow", "Edit(pid)")
	k.enters("first")
	k.expect(`(?s)Run this command\?\r.*touch mine.*\x1b\[\?2004h  \? `)
	k.types("s\r")
	k.expect(`agent general-purpose: do it too`)
	k.expect(`general-purpose • bash touch mine`)
	k.expect(`(?s)Run this command\? \(agent general-purpose\)\r.*touch theirs.*\x1b\[\?2004h  \? `)
	k.types("s\r")
	k.expect(`\(agent general-purpose: do it too \(done, 3 requests`)
	k.expect(`all done`)

	k.enters("second")
	n := 0
	waitFor(t, "a pid", func() bool {
		data, _ := os.ReadFile(filepath.Join(d.dir, "pid"))
		n, _ = strconv.Atoi(strings.TrimSuffix(string(data), "\n"))
		return bytes.HasSuffix(data, []byte("\n"))
	})
	k.types(ctrlC)
	k.expect(`Message to the model \(Enter`)
	k.types(ctrlC)
	k.expect(`\(cancelled\)`)
	waitFor(t, "the command's end", func() bool { return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) })
	k.enters("third")
	k.expect(`still here`)

	k.enters("/greeter Ada")
	k.expect(`Dear Ada\.`)
	k.enters("fourth")
	k.expect(`I know`)
	k.leaves()
}

// TestTalkBackground: the user may type while an agent works; the agent's question waits for the next line, and its
// answer is sent with the line after that.
func TestTalkBackground(t *testing.T) {
	t.Parallel()
	when := func(expr string, a llmtest.Answer) llmtest.Answer { a.When = expr; return a }
	d := newFixture(t, serve(t,
		when("^first$", startAgent("b1", "work", true)),
		when("^work$", call("b0", "until [ -e go ]; do sleep 0.02; done; echo child none")),
		when("child none", call("b2", "touch asked; echo child one")),
		when("in the background", llmtest.Reply("it works")),
		when("second$", call("b3", "until [ -e asked ]; do sleep 0.02; done; echo main one")),
		when("child one", call("b5", "until [ -e late ]; do sleep 0.02; done; echo child two")),
		when("main one", llmtest.Reply("second is done")),
		when("child two", llmtest.Reply("what it found")),
		when("Its answer:\n\nwhat it found(.|\n)*third$", llmtest.Reply("heard")),
		when("^fourth$", startAgent("b4", "work for ever", true)),
		when("^work for ever$", call("b6", "until [ -e leaving ]; do sleep 0.02; done; echo child three")),
		when("child three", call("b7", "touch later")), // asked, but the user has left
		when("in the background", llmtest.Reply("gone on")),
	))
	k := d.open(t, "--allow", "Bash(sleep *)", "--allow", "Bash([ *)", "--allow", "Bash(echo *)")
	k.enters("first")
	k.expect(`it works`)
	k.prompt()
	d.file(t, "go", "")
	k.types("second\r")
	k.expect(`(?s)Run this command\? \(agent general-purpose\)\r.*touch asked.*\x1b\[\?2004h  \? `)
	k.types("y\r")
	k.expect(`second is done`)
	k.prompt()
	d.file(t, "late", "")
	waitFor(t, "the agent's end", func() bool {
		k.types("/agents\r")
		row := k.expect(`\ngeneral-purpose .*\n`)
		k.prompt()
		return !strings.Contains(row, "working")
	})
	k.types("third\r")
	k.expect(`heard`)
	// An agent that is still working when the user leaves ends with the program.
	k.enters("fourth")
	k.expect(`gone on`)
	k.prompt()
	// Changes in the meantime apply to later turns: the agent keeps what it started with.
	for _, change := range []struct{ line, want string }{{"/reload", `settings: \d`},
		{"/model opus", `anthropic/claude-opus`}} {
		k.types(change.line + "\r")
		k.expect(change.want)
		k.prompt()
	}
	d.file(t, "leaving", "")
	waitFor(t, "the agent's question", func() bool {
		transcripts, err := filepath.Glob(filepath.Join(filepath.Dir(d.dir), ".local/state/knack/sessions/*/*/*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(transcripts, func(name string) bool {
			data, _ := os.ReadFile(name)
			return bytes.Contains(data, []byte("touch later"))
		})
	})
	time.Sleep(50 * time.Millisecond) // time to ask; without a question yet, the test proves nothing
	k.types("\x04")
	select {
	case <-k.over:
	case <-time.After(patience):
		t.Fatal("Ctrl-D did not end the program")
	}
}
