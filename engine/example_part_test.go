package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A program leaves out a part of knack's, and adds one of its own, which counts calls of tools and shows their number
// in the status.
func ExamplePart() {
	counter := engine.Part{Name: "example-counter", Open: func(_ context.Context, c *engine.Conv) (*engine.Live, error) {
		var calls atomic.Int64
		return &engine.Live{
			Audit:  func(gate.Record) { calls.Add(1); c.Changed() },
			Status: func(st *engine.Status) { st.Parts = append(st.Parts, fmt.Sprintf("%d calls", calls.Load())) },
		}, nil
	}}
	parts := slices.DeleteFunc(part.All(), func(p engine.Part) bool { return p.Name == "undo" })

	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example-*")
	defer os.RemoveAll(dir)
	model := llmtest.New(llmtest.Answer{Calls: []llmtest.Call{{Name: "ls", Input: `{}`}, {Name: "ls", Input: `{}`}}},
		llmtest.Reply("An empty directory."))
	e, err := engine.Open(ctx, engine.Options{Dir: dir, Model: model, Parts: append(parts, counter),
		Env: func(name string) string { return map[string]string{"HOME": filepath.Join(dir, "home")}[name] }})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	s, err := e.Start(ctx, nil, engine.SessionOptions{})
	if err != nil {
		panic(err)
	}
	report, err := engine.Converse(s).Turn(ctx, agent.Typed("What is here?"), nil)
	if err != nil {
		panic(err)
	}
	said := s.Status().Parts // by the parts, in their order
	fmt.Println(report.End.Text, said[len(said)-1])
	// Output: An empty directory. 2 calls
}
