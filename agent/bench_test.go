package agent_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// callsFor is a model that calls echo so often and then is done. It costs
// nothing, and does not look at what it is sent.
type callsFor struct{ left *int }

func (callsFor) Info() llm.Info { return llm.Info{ID: "test/free"} }

func (m callsFor) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		done := &llm.Response{Stop: llm.EndTurn, Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text("done")}}}
		if *m.left > 0 {
			*m.left--
			done.Stop = llm.ToolUse
			done.Message.Parts = []llm.Part{{Call: &llm.ToolCall{ID: fmt.Sprint(*m.left), Name: "echo", Input: fmt.Appendf(nil, `{"text":"%d"}`, *m.left)}}}
		}
		yield(llm.Event{Done: done}, nil)
	}
}

// BenchmarkCall measures what one tool call costs the loop, beside model and
// disk, in a session that is already so many calls long: it must not grow.
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{1, 200, 2000} {
		b.Run(fmt.Sprintf("after-%d", n), func(b *testing.B) {
			left := n
			a := &agent.Agent{Model: callsFor{&left}, Tools: tool.Set{echo()}, Gate: open}
			log := session.New(session.Header{ID: "s"})
			run := func() {
				for _, err := range a.Run(b.Context(), log, agent.Text("go")) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			run()
			// Runs of 100 calls, so that the log stays about as long as it says.
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += 100 {
				left = min(100, b.N-done)
				run()
			}
		})
	}
}
