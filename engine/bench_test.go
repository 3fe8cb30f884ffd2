package engine

import (
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// BenchmarkTurn measures the cost of a turn before its first request.
func BenchmarkTurn(b *testing.B) {
	home := b.TempDir()
	e, err := Open(b.Context(), Options{Dir: b.TempDir(), Model: llmtest.New(), Env: func(name string) string {
		return map[string]string{"HOME": home, "USERPROFILE": home}[name]
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(b.Context(), nil, SessionOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if t := s.Now(); t.agent == nil {
			b.Fatal("no agent")
		}
	}
}
