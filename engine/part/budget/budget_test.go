package budget_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// dollar is an answer that costs one.
var dollar = llmtest.Answer{Text: "an answer", Usage: llm.Usage{Output: 1_000_000}}

func model() *llmtest.Script {
	return &llmtest.Script{Func: func(*llm.Request) llmtest.Answer { return dollar },
		Model: llm.Info{ID: "test/script", Window: 10_000_000, Price: llm.Price{Output: 1}}}
}

func prompts(t *testing.T, p enginetest.Fixture, o engine.Options, n int) (said []string) {
	t.Helper()
	_, s := p.Open(t, o, nil, engine.SessionOptions{Forget: true})
	for range n {
		said = append(said, enginetest.Run(t, s, "hello"))
	}
	return said
}

// TestMonth: sessions of a user, one after the other and at once, share the limit of the month.
func TestMonth(t *testing.T) {
	t.Parallel()
	p := enginetest.New(t, "~/.config/knack/settings.json", `{"limits": {"costPerMonth": 10}}`,
		".knack/settings.json", `{"limits": {"costPerMonth": 1000}}`)
	o := p.Options(model())
	o.Trust = true
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { prompts(t, p, o, 2) })
	}
	all.Wait()
	file := filepath.Join(p.Home, ".local", "state", "knack", "spending.json")
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), `": 8`) {
		t.Errorf("%v: %s", err, data)
	}
	said := prompts(t, p, p.Options(model()), 3)
	if !strings.Contains(said[1], "an answer") || !strings.Contains(said[2], "the limit of $10 for ") ||
		!strings.Contains(said[2], "$10.0000 was spent") {
		t.Errorf("%q", said)
	}
	// A file that cannot be read is no empty one.
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := prompts(t, p, p.Options(model()), 1); !strings.Contains(said[0], "what was spent this month is not known") {
		t.Errorf("%q", said)
	}
}
