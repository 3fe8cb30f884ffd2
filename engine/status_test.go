package engine_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestWakes: hooks with asyncRewake begin eight turns in a row, and none after one that failed or was stopped. The next
// message of the user counts anew.
func TestWakes(t *testing.T) {
	p := newFixture(t)
	answers := make([]llmtest.Answer, 11)
	for i := range answers {
		answers[i] = llmtest.Reply("done")
	}
	_, s := p.open(t, p.options(llmtest.New(answers...)), nil, engine.SessionOptions{Forget: true, Host: engine.Host{
		Hooks: []hook.Hook{{Event: hook.Stop, Type: hook.OfFunc, Async: true, Rewake: true,
			Func: func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"decision":"block","reason":"tests fail"}`), nil
			}}}}})
	reported := func() engine.Status {
		for st := range s.Watch(t.Context()) {
			if st.News && !st.Running {
				return st
			}
		}
		t.Fatal("nothing is reported")
		return engine.Status{}
	}
	turn := func(in agent.Input) {
		t.Helper()
		for _, err := range s.Run(t.Context(), in) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	turn(agent.Text("one"))
	for n := range 8 {
		if !reported().Wakes {
			t.Fatalf("after %d turns", n)
		}
		turn(engine.Woken())
	}
	if reported().Wakes {
		t.Error("a ninth turn")
	}
	turn(agent.Text("two"))
	if !reported().Wakes {
		t.Error("the user's message does not count anew")
	}
	for e := range s.Run(t.Context(), agent.Text("three")) {
		if e.End != nil {
			break
		}
	}
	if reported().Wakes {
		t.Error("after a turn that was stopped")
	}
}
