package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A hookRecorder runs hooks and records their inputs. Each command is the answer of its hook.
type hookRecorder struct {
	mu     sync.Mutex
	inputs []string
	set    *hook.Set
}

// hooked returns an agent with the hooks of a mapping.
func hooked(t *testing.T, m llm.Model, text string) (*agent.Agent, *hookRecorder) {
	t.Helper()
	hooks, problems := hook.Parse([]byte(text), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w := &hookRecorder{}
	r := &hook.Runner{Run: func(ctx context.Context, c hook.Process) (hook.Output, error) {
		w.mu.Lock()
		w.inputs = append(w.inputs, string(c.Stdin))
		w.mu.Unlock()
		if c.Line == "wait" {
			<-ctx.Done()
			return hook.Output{}, context.Cause(ctx)
		}
		if reason, ok := strings.CutPrefix(c.Line, "2|"); ok {
			return hook.Output{Code: 2, Stderr: []byte(reason)}, nil
		}
		return hook.Output{Stdout: []byte(c.Line)}, nil
	}}
	t.Cleanup(func() { r.Close() })
	w.set = &hook.Set{Hooks: hooks, Runner: r}
	g, err := gate.New(gate.Options{Rules: permission.Rules{Allow: []permission.Rule{{Tool: "echo", Any: true}}}})
	if err != nil {
		t.Fatal(err)
	}
	return &agent.Agent{Model: m, Tools: tool.Set{echo()},
		Policy: agent.Policy{Hooks: w.set, Gate: g.With}}, w
}

// TestHookNotes: the context that hooks add to parallel calls follows all of their results, in call order, whichever
// ends first.
func TestHookNotes(t *testing.T) {
	var calls []llmtest.Call
	for i := range 6 {
		calls = append(calls, llmtest.Call{ID: fmt.Sprintf("c%d", i), Name: "echo",
			Input: map[string]any{"text": fmt.Sprint(i)}})
	}
	m := llmtest.New(llmtest.Answer{Calls: calls}, llmtest.Reply("done"))
	a, w := hooked(t, m, `{"PostToolUse": [{"hooks": [{"command": "x"}]}], "PostToolBatch": [{"hooks": [{"command": `+
		`"2|all of them"}]}]}`)
	w.set.Runner.Run = func(_ context.Context, c hook.Process) (hook.Output, error) {
		_, call, ok := strings.Cut(string(c.Stdin), `"tool_use_id":"`)
		if !ok || c.Hook.Event == hook.PostToolBatch {
			return hook.Output{Code: 2, Stderr: []byte("batch")}, nil
		}
		return hook.Output{Stdout: []byte(`{"hookSpecificOutput":{"additionalContext":"of ` + call[:2] + `"}}`)}, nil
	}
	all, err := do(t, a, session.New(session.Header{}), "go")
	ended(t, all, err)
	last := m.Requests()[1].Messages
	var got []string
	for _, p := range last[len(last)-1].Parts {
		if p.Result != nil {
			got = append(got, p.Result.ID)
		} else {
			got = append(got, p.Text[strings.LastIndex(p.Text, " ")+1:])
		}
	}
	if want := []string{"c0", "c1", "c2", "c3", "c4", "c5", "c0", "c1", "c2", "c3", "c4", "c5",
		"batch"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestHookReplacesOutput: the model gets what a PostToolUse hook returns instead of a tool's output; the log keeps
// both. The field for MCP tools has no effect on other tools.
func TestHookReplacesOutput(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{`"updatedToolOutput": "clean"`, "clean"},
		{`"updatedToolOutput": {"text": "clean"}`, "clean"},
		{`"updatedToolOutput": {"stdout": "clean", "stderr": "oops", "interrupted": false}`, "clean\noops"},
		{`"updatedToolOutput": {"content": [{"type": "text", "text": "clean"}]}`, "clean"},
		{`"updatedToolOutput": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]`, "a\nb"},
		{`"updatedToolOutput": {"other": 1}`, `{"other": 1}`},
		{`"updatedToolOutput": [1]`, `[1]`},
		{`"updatedToolOutput": ""`, "(no output)"},
		{`"updatedToolOutput": null`, "secret"},
		{`"updatedMCPToolOutput": "clean"`, "secret"},
	} {
		m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "secret"}), llmtest.Reply("done"))
		a, w := hooked(t, m, `{"PostToolUse": [{"hooks": [{"command": "x"}]}]}`)
		w.set.Runner.Run = func(context.Context, hook.Process) (hook.Output, error) {
			return hook.Output{Stdout: []byte(`{"hookSpecificOutput": {"hookEventName": "PostToolUse", ` + c.output + `}}`)}, nil
		}
		log := session.New(session.Header{})
		all, err := do(t, a, log, "go")
		ended(t, all, err)
		last := m.Requests()[1].Messages
		if got := llm.TextOf(last[len(last)-1].Parts[0].Result.Parts); got != c.want {
			t.Errorf("%s: the model got %q", c.output, got)
		}
		for e := range log.Walk() {
			if e.Result == nil {
				continue
			}
			if kept := e.Result.Original; (kept != nil) != (c.want != "secret") {
				t.Errorf("%s: the log keeps %v", c.output, kept)
			} else if kept != nil && llm.TextOf(kept.Parts) != "secret" {
				t.Errorf("%s: the log keeps %q", c.output, llm.TextOf(kept.Parts))
			}
		}
	}
}

// TestHookOfFailedCall: hooks learn what a failed call said, whether its result is an error or there is none.
func TestHookOfFailedCall(t *testing.T) {
	for name, run := range map[string]func() (tool.Result, error){
		"result": func() (tool.Result, error) { return tool.Errorf("no such file"), nil },
		"error":  func() (tool.Result, error) { return tool.Result{}, errors.New("no such file") },
	} {
		m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Reply("done"))
		a, w := hooked(t, m, `{"PostToolUse": [{"hooks": [{"command": "never"}]}], "PostToolUseFailure": [{"hooks": [{"command": "{}"}]}]}`)
		a.Tools[0].Run = func(context.Context, tool.Input) (tool.Result, error) { return run() }
		all, err := do(t, a, session.New(session.Header{}), "go")
		ended(t, all, err)
		if len(w.inputs) != 1 || !strings.Contains(w.inputs[0], `"error":"no such file"`) {
			t.Errorf("%s: hooks received %q", name, w.inputs)
		}
	}
}

// TestHookStops: continue false ends the run at once.
func TestHookStops(t *testing.T) {
	for _, event := range []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch"} {
		m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Reply("never"))
		a, _ := hooked(t, m, `{"`+event+`": [{"hooks": [{"command": "{\"continue\": false, \"stopReason\": \"enough\"}"}]}]}`)
		log := session.New(session.Header{})
		all, err := do(t, a, log, "go")
		if end := ended(t, all, err); end.Reason != "stopped" || end.Why != "enough" {
			t.Errorf("%s: %+v", event, end)
		}
		if log.State().InTurn {
			t.Errorf("%s: the turn continues", event)
		}
	}
}

// TestHookRefuses: a refused prompt is not recorded, and the next one works.
func TestHookRefuses(t *testing.T) {
	m := llmtest.New(llmtest.Reply("done"))
	a, _ := hooked(t, m, `{"UserPromptSubmit": [{"hooks": [{"command": "2|no"}]}]}`)
	log := session.New(session.Header{})
	_, err := do(t, a, log, "secret")
	var no *agent.Blocked
	if !errors.As(err, &no) || no.Reason != "no" || len(log.Entries()) != 0 {
		t.Errorf("%v, %d entries", err, len(log.Entries()))
	}
	a.Policy.Hooks = nil
	all, err := do(t, a, log, "hello")
	ended(t, all, err)
	if len(m.Requests()) != 1 || strings.Contains(fmt.Sprint(m.Requests()[0].Messages), "secret") {
		t.Errorf("the prompt was sent: %v", m.Requests())
	}
}

// TestHookFailure: hooks receive the end of a run that fails.
func TestHookFailure(t *testing.T) {
	m := llmtest.New(llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Message: "bad request"}})
	a, w := hooked(t, m, `{"StopFailure": [{"matcher": "invalid_request", "hooks": [{"command": "{}"}]},
		{"matcher": "rate_limit", "hooks": [{"command": "other"}]}], "Stop": [{"hooks": [{"command": "{}"}]}]}`)
	if _, err := do(t, a, session.New(session.Header{}), "go"); err == nil {
		t.Fatal("no error")
	}
	if len(w.inputs) != 1 || !strings.Contains(w.inputs[0], `"error":"invalid_request","error_details":"bad request"`) {
		t.Errorf("hooks received %q", w.inputs)
	}
}

// TestHookCancel: a run that is cancelled does not wait for its hooks.
func TestHookCancel(t *testing.T) {
	for _, event := range []string{"PreToolUse", "PostToolUse", "PostToolBatch", "Stop"} {
		m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Reply("done"))
		a, w := hooked(t, m, `{"`+event+`": [{"hooks": [{"command": "wait"}]}]}`)
		ctx, cancel := context.WithCancel(t.Context())
		inner := w.set.Runner.Run
		w.set.Runner.Run = func(ctx context.Context, c hook.Process) (hook.Output, error) {
			cancel()
			return inner(ctx, c)
		}
		log := session.New(session.Header{})
		var end *agent.End
		for e, err := range a.Run(ctx, log, agent.Typed("go")) {
			if err != nil {
				t.Errorf("%s: %v", event, err)
			}
			if e.End != nil {
				end = e.End
			}
		}
		if end == nil || log.State().InTurn {
			t.Errorf("%s: end %+v", event, end)
		}
		cancel()
	}
}

// TestHookSteering: a message that a hook refuses during a run does not end the run.
func TestHookSteering(t *testing.T) {
	m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "a"}), llmtest.Reply("done"))
	a, w := hooked(t, m, `{"UserPromptSubmit": [{"hooks": [{"command": "{}"}]}]}`)
	sent := false
	a.Steer = func() (agent.Input, bool) {
		if sent {
			return agent.Input{}, false
		}
		sent = true
		w.set.Runner.Run = func(context.Context, hook.Process) (hook.Output, error) {
			return hook.Output{Code: 2, Stderr: []byte("not now")}, nil
		}
		return agent.Typed("steer"), true
	}
	log := session.New(session.Header{})
	all, err := do(t, a, log, "go")
	if end := ended(t, all, err); end.Text != "done" {
		t.Errorf("%+v", end)
	}
	noted := slices.ContainsFunc(log.Entries(), func(e session.Entry) bool {
		return e.Note != nil &&
			strings.Contains(e.Note.People, "not now")
	})
	if !noted || strings.Contains(fmt.Sprint(m.Requests()[1].Messages), "steer") {
		t.Error("the message was not refused")
	}
}
