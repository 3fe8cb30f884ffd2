package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A complete agent for a directory: settings, trust, AGENTS.md, skills, tools, a recorded session, and a user who is
// asked. The model is scripted here; without Options.Model it is the one that the settings or the environment name.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example-*")
	defer os.RemoveAll(dir)
	os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("Greet people by name."), 0o600)

	model := llmtest.New(
		llmtest.Answer{Want: []string{"Greet people by name"},
			Calls: []llmtest.Call{{Name: "write", Input: `{"path":"hello.txt","content":"Hello Ada"}`}}},
		llmtest.Reply("It is written."))
	e, err := engine.Open(ctx, engine.Options{Dir: dir, Model: model, Env: func(name string) string {
		return map[string]string{"HOME": filepath.Join(dir, "home")}[name]
	}})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	if items, _ := e.Project().Untrusted(ctx); len(items) > 0 { // shown to the user first
		e.Trust(ctx, items...)
	}
	s, err := e.Start(ctx, user{}, engine.SessionOptions{})
	if err != nil {
		panic(err)
	}
	for ev, err := range s.Run(ctx, agent.Typed("Write a greeting for Ada.")) {
		if err != nil {
			panic(err)
		}
		if ev.End != nil {
			fmt.Println(ev.End.Text)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "hello.txt"))
	fmt.Printf("%s\n", text)
	// Output:
	// Create hello.txt?
	// It is written.
	// Hello Ada
}

// A user answers yes to every question, once each.
type user struct{}

func (user) Ask(_ context.Context, q engine.Question) (engine.Answer, error) {
	fmt.Println(q.Title)
	return engine.Answer{Option: "once"}, nil
}

// A project can be looked at without running anything.
func ExampleLoad() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example-*")
	defer os.RemoveAll(dir)
	os.MkdirAll(filepath.Join(dir, ".claude/skills/pdf"), 0o700)
	os.WriteFile(filepath.Join(dir, ".claude/skills/pdf/SKILL.md"),
		[]byte("---\nname: pdf\ndescription: Reads PDF files.\n---\nRead it."), 0o600)

	p, err := engine.Load(ctx, engine.Options{Dir: dir, Env: func(name string) string {
		return map[string]string{"HOME": filepath.Join(dir, "home")}[name]
	}})
	if err != nil {
		panic(err)
	}
	items, err := p.Untrusted(ctx)
	if err != nil {
		panic(err)
	}
	for _, it := range items {
		fmt.Println(it.State, it.Kind, it.Path)
	}
	// Output: new skill .claude/skills/pdf
}
