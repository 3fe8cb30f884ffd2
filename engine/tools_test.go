package engine_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/engine/transcript/claude"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// TestNewTool: a tool that the program does not know is one value. Rules, hooks, front ends and models trained for
// other agents get everything they need from it.
func TestNewTool(t *testing.T) {
	dir := t.TempDir()
	type input struct {
		File string `json:"file"`
	}
	ran := 0
	peek := tool.New("peek", "Looks at a file.", func(_ context.Context, in input, _ tool.Input) (tool.Result, error) {
		ran++
		return tool.Text(in.File), nil
	})
	peek.Aliases, peek.Effect = []string{"Peek", "LookAt"}, tool.Reads
	peek.Fields = []tool.Field{{Name: "file", Other: []string{"file_path"}, Hooks: "file_path"}}
	peek.Summary = tool.SummaryOf(func(in input) string { return "at " + in.File })
	peek.Subjects = tool.SubjectsOf(func(_ context.Context, in input) []permission.Subject {
		return []permission.Subject{{Kind: "Read", Text: filepath.Join(dir, in.File)}}
	})
	set := tool.Set{peek}

	// Rules with every name of the tool, and of the kind of its subjects.
	for _, c := range []struct {
		allow, deny string
		runs        bool
	}{
		{"", "", true}, {"", "Peek(secret)", false}, {"", "LookAt(secret)", false}, {"", "peek", false},
		{"", "Read(secret)", false},
		{"", "Grep(secret)", true}, {"", "Peek(other)", true}, {"", "Look*", true},
	} {
		var rules permission.Rules
		for _, r := range []struct {
			text string
			to   *[]permission.Rule
		}{{c.allow, &rules.Allow}, {c.deny, &rules.Deny}} {
			if r.text == "" {
				continue
			}
			list, problems := permission.ParseRules([]string{r.text}, permission.User, dir, set.AllNames()...)
			if len(problems) > 0 && r.text != "Look*" {
				t.Errorf("%s: %v", r.text, problems)
			}
			*r.to = list
		}
		g, err := gate.New(gate.Options{Rules: rules, Paths: permission.PathContext{Dir: dir}})
		if err != nil {
			t.Fatal(err)
		}
		ran = 0
		// A model that uses another agent's name and field.
		call := llm.ToolCall{ID: "1", Name: "LookAt", Input: json.RawMessage(`{"file_path":"secret"}`)}
		if res := tool.Call(t.Context(), set, call, g, nil); res.IsError == c.runs || (ran == 1) != c.runs {
			t.Errorf("deny %q: %+v", c.deny, res)
		}
	}

	// Hooks receive the names that hooks for other agents know.
	var stdin string
	hooks, problems := hook.Parse(
		[]byte(`{"PreToolUse": [{"matcher": "LookAt", "hooks": [{"type": "command", "command": "x"}]}]}`), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := hook.Set{Hooks: hooks, Runner: &hook.Runner{
		Run: func(_ context.Context, c hook.Process) (hook.Output, error) {
			stdin = string(c.Stdin)
			return hook.Output{Stdout: []byte(`{"hookSpecificOutput": {"updatedInput": {"file_path": "b"}}}`)}, nil
		},
		Tool: func(name string) hook.ToolMapping {
			t, _ := set.Find(name)
			return hook.ToolMapping{Names: t.Names(), Encode: t.Encode, Decode: t.Decode}
		},
	}}
	out := s.Fire(t.Context(), hook.Input{Event: hook.PreToolUse, Tool: "peek",
		ToolInput: json.RawMessage(`{"file":"a"}`)})
	var in struct {
		Name  string            `json:"tool_name"`
		Input map[string]string `json:"tool_input"`
	}
	if err := json.Unmarshal([]byte(stdin), &in); err != nil || in.Name != "Peek" || in.Input["file_path"] != "a" ||
		string(out.Input) != `{"file":"b"}` {
		t.Errorf("hooks received %s and returned %s", stdin, out.Input)
	}

	// Front ends and exports describe a call in the way the tool defines.
	if got := set.Line("peek", json.RawMessage(`{"file":"a"}`)); got != "at a" {
		t.Errorf("shown as %q", got)
	}
	log := session.New(session.Header{})
	made := llm.Part{Call: &llm.ToolCall{ID: "1", Name: "peek", Input: json.RawMessage(`{"file":"a"}`)}}
	message := llm.Message{Role: llm.Assistant, Parts: []llm.Part{made}}
	if _, err := log.Append(session.Entry{Type: session.TypeAnswer,
		Answer: &session.Answer{Message: message}}); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"html", "md"} {
		var page strings.Builder
		if err := (command.Export{Format: format, Summary: set.Line}).Write(&page, log); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page.String(), "at a") {
			t.Errorf("exported as\n%s", page.String())
		}
	}

	// A transcript of another agent contains the call with that agent's names.
	const lines = `{"type":"user","uuid":"1","sessionId":"s","message":{"content":"q"}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"a","content":[` +
		`{"type":"tool_use","id":"c","name":"LookAt","input":{"file_path":"b"}}]}}`
	read, err := transcript.Read(strings.NewReader(lines),
		transcript.ReadOptions{Agents: []transcript.Importer{claude.Agent},
			Tools: set})
	if err != nil {
		t.Fatal(err)
	}
	got := read.Log.Branch()[1].Answer.Message.Parts[0].Call
	if got.Name != "peek" || string(got.Input) != `{"file":"b"}` {
		t.Errorf("imported as %s %s", got.Name, got.Input)
	}
}

// TestNeedsNoApproval: questions to the user, and reading or ending a background command that was approved, need no
// approval; a deny rule for the tool applies.
func TestNeedsNoApproval(t *testing.T) {
	for name, rule := range map[string]string{"ask": "AskUserQuestion", "bash_output": "BashOutput",
		"bash_kill": "KillShell", "todo": "TodoWrite"} {
		x, _ := engine.KnownTools().Find(name)
		for _, denied := range []bool{false, true} {
			var rules permission.Rules
			if denied {
				rules.Deny, _ = permission.ParseRules([]string{rule}, permission.User, "")
			}
			g, err := gate.New(gate.Options{Rules: rules})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Ask(t.Context(), x.Propose("1", json.RawMessage(`{"id":"1"}`))); (err != nil) != denied {
				t.Errorf("%s, denied %v: %v", name, denied, err)
			}
		}
	}
}
