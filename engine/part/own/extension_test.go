package own_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestExtensions runs the examples with the interpreters that are there.
func TestExtensions(t *testing.T) {
	for lang, program := range map[string]string{"python": "notes.py", "typescript": "notes.ts"} {
		t.Run(lang, func(t *testing.T) {
			run := map[string][]string{"python": {"python3", "-c", ""},
				"typescript": {"node", "--eval", "process.features.typescript || process.exit(1)"}}[lang]
			if exec.Command(run[0], run[1:]...).Run() != nil {
				t.Skip("there is no " + run[0] + " that runs it")
			}
			p := enginetest.New(t)
			from := filepath.Join("..", "..", "..", "examples", "extension", lang)
			for _, name := range []string{program, "notes.json"} {
				data, err := os.ReadFile(filepath.Join(from, name))
				if err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(string(data), "\n"); n > 60 {
					t.Errorf("%s has %d lines", name, n)
				}
				executable(t, p, ".knack/tools/"+name, string(data))
			}
			o := p.Options(llmtest.New(enginetest.Calls("note", `{"text": "buy milk"}`),
				enginetest.Calls("bash", `{"command": "git reset --hard"}`), llmtest.Reply("done"), llmtest.Reply("done")))
			o.Trust = true
			o.Values["permissions.allow"] = []string{"Tool(note)", "Bash"}
			var asked []string
			person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
				asked = append(asked, q.Title)
				if q.Options[0].ID == "yes" {
					return engine.Answer{Option: "yes"}, nil
				}
				return engine.Answer{Option: "refuse"}, nil
			})
			_, s := p.Open(t, o, person, engine.SessionOptions{})
			if got := enginetest.Run(t, s, "go"); !strings.Contains(got, "result: Noted as number 1.") ||
				!strings.Contains(got, "the user refused it") || !slices.Contains(s.Status().Parts, "1 notes") {
				t.Errorf("%s; %q", got, s.Status().Parts)
			}
			if got := enginetest.Run(t, s, "/notes"); !strings.Contains(got, "1  buy milk") {
				t.Errorf("%q", got)
			}
			if got := enginetest.Run(t, s, "/notes clear"); !strings.Contains(got, "0 notes are left") {
				t.Errorf("%q", got)
			}
			if len(asked) != 2 || !strings.Contains(asked[0], "This may lose work") {
				t.Errorf("asked %q", asked)
			}
		})
	}
}

// example writes a file of the examples into a project, as a program.
func example(t *testing.T, p enginetest.Fixture, from, to string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "extension", filepath.FromSlash(from)))
	if err != nil {
		t.Fatal(err)
	}
	executable(t, p, to, string(data))
}

// TestExampleHooks: a gate asks before a command runs, a prompt is changed, and what is not committed is kept.
func TestExampleHooks(t *testing.T) {
	if exec.Command("python3", "-c", "").Run() != nil {
		t.Skip("there is no python3")
	}
	p := enginetest.New(t, "a.txt", "a\n")
	p.Commit(t)
	for _, name := range []string{"gate", "transform", "checkpoint"} {
		example(t, p, "hooks/"+name, ".knack/hooks/"+name)
	}
	p.Write(t, ".knack/settings.json", `{"hooks": {
		"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": ".knack/hooks/gate"}]}],
		"UserPromptSubmit": [{"hooks": [{"type": "command", "command": ".knack/hooks/transform"},
			{"type": "command", "command": ".knack/hooks/checkpoint"}]}]}}`)
	p.Write(t, "a.txt", "changed\n")
	o := p.Options(llmtest.New(llmtest.Answer{When: "Answer in one sentence: why", Calls: []llmtest.Call{
		{Name: "bash", Input: `{"command": "rm -r a.txt"}`}}}, llmtest.Reply("kept"),
		enginetest.Calls("bash", `{"command": "rm -r a.txt"}`), llmtest.Reply("removed")))
	o.Trust = true
	o.Values["permissions.allow"] = []string{"Bash"}
	says := "no"
	person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		return engine.Answer{Option: says}, nil
	})
	_, s := p.Open(t, o, person, engine.SessionOptions{})
	if got := enginetest.Run(t, s, "? why"); !strings.Contains(got, "the user said no") || p.Content(t, "a.txt") == "none" {
		t.Errorf("%s", got)
	}
	if got := s.Status().Parts; !slices.Contains(got, "checkpoint 1") {
		t.Errorf("status %q", got)
	}
	says = "yes"
	if got := enginetest.Run(t, s, "go"); p.Content(t, "a.txt") != "none" {
		t.Errorf("%s", got)
	}
	if out, err := exec.Command("git", "-C", p.Dir, "stash", "apply", "-q", "refs/checkpoints/1").CombinedOutput(); err != nil ||
		p.Content(t, "a.txt") != "changed\n" {
		t.Errorf("%s %v: %q", out, err, p.Content(t, "a.txt"))
	}
	if got := enginetest.Run(t, s, "time"); !strings.Contains(got, ":") || strings.Contains(got, "error") {
		t.Errorf("answered by a hook: %q", got) // the model has no answer left
	}
}

// TestExamplePlan: a mode that a command turns on keeps the model from changing anything, and its end begins the work.
func TestExamplePlan(t *testing.T) {
	if exec.Command("python3", "-c", "").Run() != nil {
		t.Skip("there is no python3")
	}
	p := enginetest.New(t, "a.txt", "a\n")
	for _, name := range []string{"planner.json", "planner.py"} {
		example(t, p, "plan/"+name, ".knack/tools/"+name)
	}
	o := p.Options(llmtest.New(enginetest.Calls("read", `{"path": "a.txt"}`),
		enginetest.Calls("write", `{"path": "b.txt", "content": "b"}`), llmtest.Reply("1. write b.txt"),
		llmtest.Answer{When: "Carry out the plan", Calls: []llmtest.Call{{Name: "write",
			Input: `{"path": "b.txt", "content": "b"}`}}}, llmtest.Reply("done")))
	o.Trust = true
	o.Values["permissions.allow"] = []string{"Write", "Edit"}
	_, s := p.Open(t, o, nil, engine.SessionOptions{})
	enginetest.Run(t, s, "/planner")
	if got := enginetest.Run(t, s, "go"); !strings.Contains(got, "only planning") || p.Content(t, "b.txt") != "none" ||
		!slices.Contains(s.Status().Parts, "planning") || !strings.Contains(enginetest.Conversation(s), "Only plan:") {
		t.Errorf("%s %q", got, s.Status().Parts)
	}
	if got := enginetest.Run(t, s, "/planner"); p.Content(t, "b.txt") != "b" {
		t.Errorf("%s", got)
	}
}
