package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/llm/llmtest"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool/coding"
	"github.com/knack-agent/knack/workspace"
)

// An agent with tools, a gate and skills. The model is a scripted one here; that
// of a vendor comes from engine.Models, or from llm/anthropic and its siblings.
func Example() {
	dir, _ := os.MkdirTemp("", "example-*")
	defer os.RemoveAll(dir)
	os.Mkdir(filepath.Join(dir, "shout"), 0o700)
	os.WriteFile(filepath.Join(dir, "shout/SKILL.md"), []byte("---\nname: shout\ndescription: Writes loudly.\n---\nUse capitals."), 0o600)

	ctx := context.Background()
	ws, _ := workspace.NewLocal(dir)
	defer ws.Close()
	rules := permission.Rules{}
	rules.Allow, _ = permission.ParseRules([]string{"Write"}, permission.User, dir)
	g, _ := gate.New(gate.Options{Rules: rules, Place: permission.PathContext{Dir: dir}})
	catalog := knack.Load(ctx, knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	tools := coding.Tools(ws, coding.Options{})
	a := &agent.Agent{
		Model: llmtest.New(
			llmtest.Use("Skill", map[string]any{"skill": "shout"}),
			llmtest.Answer{Want: []string{"Use capitals"}, Calls: []llmtest.Call{{Name: "write", Input: `{"path":"a.txt","content":"HELLO"}`}}},
			llmtest.Use("bash", map[string]any{"command": "rm a.txt"}),
			llmtest.Reply("Done.")),
		System: agent.Prompt{Role: "You write greetings.", Tools: tools, Dir: dir}.String(),
		Tools:  tools,
		Skills: agent.Skills{Catalog: func() *knack.Catalog { return catalog }, Shell: agent.ShellIn(ws, agent.Gated(g), "")},
		Policy: agent.Policy{Gate: agent.Gated(g)},
	}
	for ev, err := range a.Run(ctx, session.New(session.Header{}), agent.Typed("Greet me.")) {
		switch {
		case err != nil:
			fmt.Println(err)
		case ev.Ended != nil: // the third is refused: no rule allows it
			fmt.Println(ev.Ended.Call, ev.Ended.Result.IsError)
		case ev.End != nil:
			fmt.Println(ev.End.Text, ev.End.Requests, "requests")
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "a.txt"))
	fmt.Println(string(text))
	// Output:
	// call_1 false
	// call_2 false
	// call_3 true
	// Done. 4 requests
	// HELLO
}

// Projects see which parts are texts of skills, by a mark.
func ExampleAgent_project() {
	log := session.New(session.Header{})
	log.Append(session.Entry{Type: session.TypeActivation, Activation: &session.Activation{Skill: "pdf", Prompt: "Read it page by page."}})
	for _, m := range log.Project() {
		for _, p := range m.Parts {
			fmt.Printf("%s: %s\n", p.Skill, p.Text)
		}
	}
	// Output: pdf: Read it page by page.
}
