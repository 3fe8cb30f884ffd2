package agent_test

import (
	"context"
	"fmt"
	"os"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/coding"
)

// An agent with tools, a gate and skills. The gate refuses what no rule allows, because there is nobody to ask.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example-*")
	defer os.RemoveAll(dir)
	ws, _ := workspace.NewLocal(dir)
	defer ws.Close()
	allow, _ := permission.ParseRules([]string{"Write"}, permission.User, dir)
	g, _ := gate.New(gate.Options{Rules: permission.Rules{Allow: allow}, Paths: permission.PathContext{Dir: dir}})
	skills := knack.Load(ctx, knack.Dir("testdata/example", knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	a := &agent.Agent{
		Model: greeter(),
		Tools: coding.Tools(ws, coding.Options{}),
		Skills: agent.Skills{Catalog: func() *knack.Catalog { return skills },
			Shell: agent.ShellIn(ws, g.With, coding.Options{})},
		Policy: agent.Policy{Gate: g.With},
	}
	a.System = agent.Prompt{Role: "You write greetings.", Tools: a.Tools, Dir: dir}.String()
	for ev, err := range a.Run(ctx, session.New(session.Header{}), agent.Typed("Greet me.")) {
		if err != nil {
			panic(err)
		} else if ev.Ended != nil {
			fmt.Println(ev.Ended.Call, "failed:", ev.Ended.Result.IsError)
		} else if ev.End != nil {
			fmt.Println(ev.End.Text, ev.End.Requests, "requests")
		}
	}
	// Output:
	// call_1 failed: false
	// call_2 failed: false
	// call_3 failed: true
	// Done. 4 requests
}

// greeter is a scripted model; real ones come from llm/anthropic and its siblings, or from engine.Models.
func greeter() llm.Model {
	return llmtest.New(
		llmtest.Use("Skill", map[string]any{"skill": "shout"}),
		llmtest.Answer{Want: []string{"Use capitals"}, Calls: []llmtest.Call{{Name: "write",
			Input: `{"path":"a.txt","content":"HELLO"}`}}},
		llmtest.Use("bash", map[string]any{"command": "rm a.txt"}),
		llmtest.Reply("Done."))
}

// Projection policies recognize the texts of skills by a mark.
func ExampleAgent_project() {
	log := session.New(session.Header{})
	log.Append(session.Entry{Type: session.TypeActivation, Activation: &session.Activation{Skill: "pdf",
		Prompt: "Read it page by page."}})
	for _, m := range log.Project() {
		for _, p := range m.Parts {
			fmt.Printf("%s: %s\n", p.Skill, p.Text)
		}
	}
	// Output: pdf: Read it page by page.
}
