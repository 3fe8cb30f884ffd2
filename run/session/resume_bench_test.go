package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// BenchmarkOpen opens a session of 14,000 entries, half of them calls and half
// results.
func BenchmarkOpen(b *testing.B) {
	s := Store{Dir: b.TempDir()}
	l, err := s.Create(Header{ID: "long"})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 7000 {
		id := fmt.Sprintf("toolu_%020d", i)
		call := &llm.ToolCall{ID: id, Name: "read", Input: []byte(`{"path":"a.txt"}`)}
		result := llm.ToolResult{ID: id, Name: "read",
			Parts: []llm.Part{llm.Text(strings.Repeat("a line of a file, one of several\n", 18))}}
		for _, e := range []Entry{
			{Type: TypeAnswer, Answer: &Answer{
				Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Call: call}}},
				Stop:    llm.ToolUse, Usage: llm.Usage{Input: 1000, Output: 20}, Model: "test/m",
			}},
			{Type: TypeResult, Result: &Result{ToolResult: result}},
		} {
			if _, err := l.Append(e); err != nil {
				b.Fatal(err)
			}
		}
	}
	l.Close()
	b.ReportAllocs()
	for b.Loop() {
		l, err := s.Open("long")
		if err != nil {
			b.Fatal(err)
		}
		l.Close()
	}
}
