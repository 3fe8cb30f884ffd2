package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/tool"
)

// A host runs commands elsewhere, such as on a machine of its own. Knack's rules decide about them, and its user is asked.
func ExampleReplaceTool() {
	elsewhere := engine.ReplaceTool("bash",
		func(_ context.Context, _ engine.Place, call tool.Input) (tool.Result, error) {
			var in struct{ Command string }
			if err := json.Unmarshal(call.JSON, &in); err != nil {
				return tool.Result{}, err
			}
			return tool.Text("ran elsewhere: " + in.Command), nil
		})

	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example-*")
	defer os.RemoveAll(dir)
	model := llmtest.New(llmtest.Answer{Calls: []llmtest.Call{{Name: "bash", Input: `{"command":"make deploy"}`}}},
		llmtest.Answer{Want: []string{"ran elsewhere: make deploy"}, Text: "Deployed."})
	parts := append([]engine.Part{elsewhere}, part.All()...)
	e, err := engine.Open(ctx, engine.Options{Dir: dir, Model: model, Parts: parts, Env: func(name string) string { return map[string]string{"HOME": filepath.Join(dir, "home")}[name] }})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	s, err := e.Start(ctx, agreeing{}, engine.SessionOptions{})
	if err != nil {
		panic(err)
	}
	report, err := engine.Converse(s).Turn(ctx, agent.Typed("Deploy it."), nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(report.End.Text)
	// Output:
	// Run this command?
	// Deployed.
}

// An agreeing user lets everything go on, once.
type agreeing struct{}

func (agreeing) Ask(_ context.Context, q engine.Question) (engine.Answer, error) {
	fmt.Println(q.Title)
	return q.Allow(), nil
}
