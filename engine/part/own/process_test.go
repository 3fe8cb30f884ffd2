package own_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// reads is the loop of a process in sh; body answers the request $line with the ID $id.
func reads(body string) string {
	return "#!/bin/sh\necho started >> starts\nwhile read -r line; do\nid=$(echo \"$line\" | sed 's/^{\"id\":\\([0-9]*\\).*/\\1/')\n" +
		body + "\ndone\necho ended >> starts\n"
}

// TestProcess: one program that stays serves a tool, a command and a guard with one state, and ends with the session.
func TestProcess(t *testing.T) {
	p := enginetest.New(t, ".knack/tools/lib", "old", ".knack/tools/ext.json", `{"type": "process", "description": "Counts.", "command": "./ext.sh",
		"tools": {"count": {"description": "Counts on.", "inputSchema": {"type": "object"}}},
		"commands": {"counted": {"description": "Says how far."}},
		"hooks": [{"event": "PreToolUse", "matcher": "Write"}, {"event": "UserPromptSubmit"}]}`)
	executable(t, p, ".knack/tools/ext.sh", reads(`case $line in
*'"method":"tool"'*) n=$((n+1)); echo "{\"id\":$id,\"progress\":\"on\"}"; echo "{\"id\":$id,\"result\":{\"text\":\"now $n\"}}" ;;
*'"method":"command"'*) echo "{\"id\":$id,\"result\":{\"text\":\"counted $n\"}}" ;;
*PreToolUse*) echo "{\"id\":$id,\"result\":{\"decision\":\"block\",\"reason\":\"no writing\"}}" ;;
*UserPromptSubmit*) echo "{\"id\":$id,\"result\":{\"status\":\"counting\"}}" ;;
esac`))
	listed := func(s *engine.Session) bool {
		for _, c := range s.Now().Commands() {
			if c.Name == "counted" {
				return true
			}
		}
		return false
	}
	m := llmtest.New(llmtest.Reply("hello"))
	_, s := p.Open(t, p.Options(m), nil, engine.SessionOptions{})
	if enginetest.Run(t, s, "hello"); listed(s) || p.Content(t, "starts") != "none" {
		t.Fatal("it ran before it was trusted")
	}
	o := p.Options(llmtest.New(enginetest.Calls("count", `{}`), enginetest.Calls("count", `{}`),
		enginetest.Calls("write", `{"path": "x", "content": "y"}`), llmtest.Reply("done"), enginetest.Calls("count", `{}`),
		llmtest.Reply("done")))
	o.Trust = true
	o.Values["permissions.allow"] = []string{"Tool(count)", "Write", "Edit"}
	_, s = p.Open(t, o, nil, engine.SessionOptions{})
	got := enginetest.Run(t, s, "go")
	if !strings.Contains(got, "result: now 1\nresult: now 2\n") || !strings.Contains(got, "no writing") ||
		p.Content(t, "x") != "none" || !slices.Contains(s.Status().Parts, "counting") {
		t.Errorf("%s; %q", got, s.Status().Parts)
	}
	if got := enginetest.Run(t, s, "/counted"); !listed(s) || got != "reply counted: counted 2\ndone: " {
		t.Errorf("%q", got)
	}
	if got := p.Content(t, "starts"); got != "started\n" {
		t.Errorf("it was started %q", got)
	}
	// A changed byte ends it: nothing of it answers any more, and its guards fail.
	p.Write(t, ".knack/tools/lib", "new")
	if got := enginetest.Run(t, s, "again"); !strings.Contains(got, "was not run") {
		t.Errorf("a changed byte: %s", got)
	}
	if got := p.Content(t, "starts"); got != "started\nended\n" {
		t.Errorf("after a changed byte: %q", got)
	}
}

// TestProcessGoesOn: a process that starts again is told what its tools returned last, and its commands and hooks share
// one place in the status line.
func TestProcessGoesOn(t *testing.T) {
	p := enginetest.New(t)
	dir := "~/.config/knack/tools/"
	p.Write(t, dir+"ext.json", `{"type": "process", "description": "Counts.", "command": "./ext.sh",
		"tools": {"count": {"description": "Counts on.", "inputSchema": {"type": "object"}}},
		"commands": {"counted": {"description": "Says how far."}}, "hooks": [{"event": "Stop"}]}`)
	executable(t, p, dir+"ext.sh", reads(`case $line in
*'"details":{"n":'*) n=${line##*'"details":{"n":'}; n=${n%%'}'*} ;;
esac
case $line in
*'"method":"tool"'*) n=$((n+1)); echo "{\"id\":$id,\"result\":{\"text\":\"now $n\",\"details\":{\"n\":$n}}}" ;;
*'"method":"command"'*) echo "{\"id\":$id,\"result\":{\"notice\":\"counted $n\",\"status\":\"at $n\"}}" ;;
*) echo "{\"id\":$id,\"result\":{\"status\":\"stopped\"}}" ;;
esac`))
	o := p.Options(llmtest.New(enginetest.Calls("count", `{}`), enginetest.Calls("count", `{}`), llmtest.Reply("done"),
		enginetest.Calls("count", `{}`), llmtest.Reply("done")))
	o.Values["permissions.allow"] = []string{"Tool(count)"}
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "go")
	id := s.ID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, s = p.Open(t, o, nil, engine.SessionOptions{Resume: id})
	if got := enginetest.Run(t, s, "/counted"); !strings.Contains(got, "counted 2") {
		t.Errorf("a command of a resumed session: %q", got)
	}
	if got := strings.Join(s.Status().Parts, ","); got != "at 2" {
		t.Errorf("status %q", got)
	}
	if got := enginetest.Run(t, s, "go on"); !strings.Contains(got, "result: now 3") {
		t.Errorf("a tool of a resumed session: %s", got)
	}
	if got := strings.Join(s.Status().Parts, ","); got != "stopped" {
		t.Errorf("status %q", got)
	}
	for e := range s.Log().Walk() {
		if e.User != nil && llm.TextOf(e.User.Parts) == "go on" {
			if err := s.Log().Move(e.Parent); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if got := enginetest.Run(t, s, "/counted"); !strings.Contains(got, "counted 2") {
		t.Errorf("a command on another branch of the conversation: %q", got)
	}
}

// TestProcessDenied: a rule that denies a tool holds for a process, too.
func TestProcessDenied(t *testing.T) {
	p := enginetest.New(t)
	dir := "~/.config/knack/tools/"
	p.Write(t, dir+"ext.json", `{"type": "process", "description": "d", "command": "./ext.sh",
		"tools": {"count": {"description": "d"}}, "hooks": [{"event": "PreToolUse", "matcher": "Bash", "required": true}]}`)
	executable(t, p, dir+"ext.sh", reads(`echo "{\"id\":$id,\"result\":null}"`))
	o := p.Options(llmtest.New(enginetest.Calls("bash", `{"command": "echo ran > ran"}`), llmtest.Reply("done")))
	o.Values["permissions.deny"] = []string{"Tool(ext)"}
	o.Values["permissions.allow"] = []string{"Bash"}
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	if got := enginetest.Run(t, s, "go"); !strings.Contains(got, "required PreToolUse hook") || p.Content(t, "ran") != "none" {
		t.Errorf("a required guard that cannot run: %s", got)
	}
}

// TestBrokenProcesses: what a program does wrong ends it, is told with what it said, and starts no storm of programs.
func TestBrokenProcesses(t *testing.T) {
	for name, c := range map[string]struct{ program, want string }{
		"exits":   {"#!/bin/sh\necho started >> starts\necho why >&2\nexit 3\n", "exit code 3"},
		"garbage": {reads(`echo no JSON`), `a line that is no answer: "no JSON`},
		"other":   {reads(`echo '{"id":99,"result":1}'`), "it answered the request 99"},
		"late":    {reads(`sleep 100`), "it did not answer within 300ms"},
		"huge":    {reads(`head -c 9000000 /dev/zero | tr '\0' x`), "a line of more than 8388608 bytes"},
		"endless": {reads(`yes "{\"id\":$id,\"progress\":\"x\"}"`), "it did not answer within"},
		"missing": {"#!/no/such/program\n", "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			p := enginetest.New(t)
			dir := "~/.config/knack/tools/"
			timeout := "30"
			if name == "late" || name == "endless" {
				timeout = "0.3"
			}
			p.Write(t, dir+"ext.json", `{"type": "process", "description": "d", "command": "./ext.sh", "timeout": `+timeout+`,
				"tools": {"bad": {"description": "d", "inputSchema": {"type": "object"}}}}`)
			executable(t, p, dir+"ext.sh", c.program)
			var calls []llmtest.Answer
			for range 6 {
				calls = append(calls, enginetest.Calls("bad", `{}`))
			}
			o := p.Options(llmtest.New(append(calls, llmtest.Reply("done"))...))
			o.Values["permissions.allow"] = []string{"Tool(bad)"}
			_, s := p.Open(t, o, nil, engine.SessionOptions{})
			got := enginetest.Run(t, s, "go")
			if !strings.Contains(got, c.want) || name == "exits" && !strings.Contains(got, "why") {
				t.Errorf("%.2000s", got)
			}
			if !strings.Contains(got, "is started again in") {
				t.Errorf("no pause: %.2000s", got)
			}
			if n := strings.Count(p.Content(t, "starts"), "started"); n > 4 {
				t.Errorf("it was started %d times", n)
			}
		})
	}
}

// TestProcessOfHook: the answer of a hook has the form of every hook's, and its questions reach the user.
func TestProcessOfHook(t *testing.T) {
	p := enginetest.New(t)
	dir := "~/.config/knack/tools/"
	p.Write(t, dir+"ext.json", `{"type": "process", "description": "d", "command": "./ext.sh",
		"hooks": [{"event": "UserPromptSubmit"}]}`)
	executable(t, p, dir+"ext.sh", reads(`case $line in
*'"answers":["go"]'*) echo "{\"id\":$id,\"result\":{\"hookSpecificOutput\":{\"updatedPrompt\":\"went\"}}}" ;;
*) echo "{\"id\":$id,\"result\":{\"ask\":{\"title\":\"Go?\",\"options\":[\"go\"]}}}" ;;
esac`))
	person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		if q.Asker != engine.AskerHook {
			t.Errorf("asked %+v", q)
		}
		return engine.Answer{Option: "go"}, nil
	})
	_, s := p.Open(t, p.Options(llmtest.New(llmtest.Answer{Want: []string{"went"}, Text: "done"})), person,
		engine.SessionOptions{})
	if got := enginetest.Run(t, s, "hello"); got != "user: went\ndone: done" {
		t.Errorf("%q", got)
	}
	var origins []string
	for _, h := range s.Now().Hooks() {
		if h.Event == hook.UserPromptSubmit {
			origins = append(origins, h.Origin+" "+filepath.Base(h.DefinedIn))
		}
	}
	if strings.Join(origins, ",") != "user ext.json" {
		t.Error(origins)
	}
}

// TestProcessClose: the end of the session ends a process that does not answer.
func TestProcessClose(t *testing.T) {
	p := enginetest.New(t)
	dir := "~/.config/knack/tools/"
	p.Write(t, dir+"ext.json", `{"type": "process", "description": "d", "command": "./ext.sh", "timeout": 80000,
		"tools": {"hang": {"description": "d", "inputSchema": {"type": "object"}}}}`)
	executable(t, p, dir+"ext.sh", reads(`echo asked >> starts; sleep 80000`))
	o := p.Options(llmtest.New(enginetest.Calls("hang", `{}`), llmtest.Reply("done")))
	o.Values["permissions.allow"] = []string{"Tool(hang)"}
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		enginetest.Run(t, s, "go")
	}()
	for !strings.Contains(p.Content(t, "starts"), "asked") {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-done
}

// TestProcessOfWorkspace: a process answers for hooks without a question, so that not even the user's runs a file of the
// workspace, which a model or a stranger may have written.
func TestProcessOfWorkspace(t *testing.T) {
	p := enginetest.New(t)
	p.Write(t, "~/.config/knack/tools/ext.json", `{"type": "process", "description": "d", "command": ["sh", "guard.sh"],
		"hooks": [{"event": "PreToolUse", "matcher": "bash"}]}`)
	p.Write(t, "guard.sh", "echo ran >ran\n")
	o := p.Options(llmtest.New(enginetest.Calls("bash", `{"command": "echo made >made"}`), llmtest.Reply("done")))
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	got := enginetest.Run(t, s, "go")
	for _, file := range []string{"ran", "made"} {
		if _, err := os.Stat(filepath.Join(p.Dir, file)); err == nil {
			t.Errorf("%s exists: %s", file, got)
		}
	}
}
