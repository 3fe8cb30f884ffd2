package agent_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// callsFor is a model that calls echo n times and then ends its turn. It ignores its input and costs nothing.
type callsFor struct {
	left   *int
	window int
}

func (m callsFor) Info() llm.Info { return llm.Info{ID: "test/free", Window: m.window} }

func (m callsFor) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		done := &llm.Response{Stop: llm.EndTurn, Message: llm.Message{Role: llm.Assistant,
			Parts: []llm.Part{llm.Text("done")}}}
		if *m.left > 0 && !asksSummary(req) {
			*m.left--
			done.Stop = llm.ToolUse
			done.Message.Parts = []llm.Part{{Call: &llm.ToolCall{ID: fmt.Sprint(*m.left), Name: "echo",
				Input: fmt.Appendf(nil, `{"text":"%d"}`, *m.left)}}}
		}
		yield(llm.Event{Done: done}, nil)
	}
}

// BenchmarkCall measures what one tool call costs the loop, without model and disk, in a session that already has the
// given number of calls: the cost must not grow, whether the session fits the window or is compacted repeatedly.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct{ n, window int }{{1, 1_000_000}, {200, 1_000_000}, {2000, 1_000_000}, {200, 4000},
		{2000, 4000}} {
		b.Run(fmt.Sprintf("after-%d-of-%d", c.n, c.window), func(b *testing.B) {
			left := c.n
			a := &agent.Agent{Model: callsFor{&left, c.window}, Tools: tool.Set{echo()}, Policy: agent.Policy{Gate: open}}
			log := session.New(session.Header{ID: "s"})
			run := func() {
				for _, err := range a.Run(b.Context(), log, agent.Typed("go")) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			run()
			// Runs of 100 calls keep the log near the given length.
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += 100 {
				left = min(100, b.N-done)
				run()
			}
		})
	}
}
