package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/knack-agent/knack/run/llm"
)

// A scripted model calls the tool look in each of its first answers, and then ends its turn.
type scripted struct{ left int } // the number of calls still to make

func (m *scripted) Info() llm.Info { return llm.Info{ID: "test/scripted"} }

func (m *scripted) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		done := &llm.Response{Stop: llm.EndTurn, Message: llm.Message{Role: llm.Assistant,
			Parts: []llm.Part{llm.Text("done")}}}
		if m.left > 0 {
			m.left--
			done.Stop = llm.ToolUse
			call := &llm.ToolCall{ID: fmt.Sprintf("early_%d", m.left), Name: "look", Input: []byte(`{"path": "a.txt"}`)}
			done.Message.Parts = []llm.Part{{Call: call}}
		}
		yield(llm.Event{Done: done}, nil)
	}
}
