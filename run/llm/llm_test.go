package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

func TestEffort(t *testing.T) {
	for effort, want := range map[string]struct {
		level  string
		tokens int
	}{
		"": {"", 0}, "low": {"low", 2048}, "max": {"max", 63999}, "none of these": {"", 0}, "-5": {"", 0}, "0": {"", 0},
		"1": {"low", 1}, "5000": {"low", 5000}, "6000": {"medium", 6000}, "16384": {"high", 16384}, "30000": {"xhigh", 30000},
		"999999": {"max", 999999}, " 6000\n": {"medium", 6000}, " high ": {"high", 16384},
	} {
		if l := llm.EffortLevel(effort); l != want.level {
			t.Errorf("level of %q: %q, want %q", effort, l, want.level)
		}
		if n := llm.EffortTokens(effort); n != want.tokens {
			t.Errorf("tokens of %q: %d, want %d", effort, n, want.tokens)
		}
	}
}

func TestCost(t *testing.T) {
	p := llm.Price{Input: 2, Output: 10, CacheRead: 0.2, CacheWrite: 2.5,
		Long: llm.Long{Above: 200_000, Input: 2, Output: 1.5}}
	short := llm.Usage{Input: 100_000, Output: 10_000, CacheRead: 50_000, CacheWrite: 40_000}
	if c := p.Cost(short); !near(c, 0.2+0.1+0.01+0.1) {
		t.Errorf("short: %v", c)
	}
	long := short
	long.CacheRead += 20_000 // 210,000 in total
	if c := p.Cost(long); !near(c, 2*(0.2+0.014+0.1)+1.5*0.1) {
		t.Errorf("long: %v", c)
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// A call whose input is not JSON can still be encoded and decoded.
func TestCallJSON(t *testing.T) {
	for _, input := range []string{`{"a":1}`, `"text"`, `{"path": bro`, `no "object" at all`, ``} {
		call := llm.ToolCall{ID: "c", Name: "read", Input: json.RawMessage(input), Opaque: "o"}
		data, err := json.Marshal(llm.Message{Parts: []llm.Part{{Call: &call}}})
		if err != nil {
			t.Errorf("%q: %v", input, err)
			continue
		}
		var m llm.Message
		if err := json.Unmarshal(data, &m); err != nil {
			t.Errorf("%q: %v", input, err)
			continue
		}
		got := *m.Parts[0].Call
		if got.ID != "c" || got.Name != "read" || got.Opaque != "o" || string(got.Input) != input && input != "" {
			t.Errorf("%q came back as %+v", input, got)
		}
	}
}
