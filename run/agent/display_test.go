package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// TestFailedDisplay: of an answer that failed half way, nothing is shown that a MessageDisplay hook has not seen; the
// log has it.
func TestFailedDisplay(t *testing.T) {
	m := llmtest.New(llmtest.Answer{Text: "I was about to say", Break: llmtest.Drop},
		llmtest.Answer{Error: &llm.Error{Kind: llm.Auth, Message: "no"}})
	watch, err := hook.New(hook.MessageDisplay, "", "watch",
		func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	a := &agent.Agent{Model: m, Retry: agent.Retry{Sleep: func(context.Context, time.Duration) error { return nil }}}
	a.Policy.Hooks = &hook.Set{Hooks: []hook.Hook{watch}, Runner: &hook.Runner{}}
	log := session.New(session.Header{})
	for e := range a.Run(t.Context(), log, agent.Typed("go")) {
		entry, _ := json.Marshal(e.Entry)
		if strings.Contains(e.Text+string(entry), "I was") || e.End != nil && strings.Contains(e.End.Text, "I was") {
			t.Errorf("shown: %q %s", e.Text, entry)
		}
	}
	if kept, _ := json.Marshal(log.Branch()); !strings.Contains(string(kept), "I was about") {
		t.Errorf("the log has %s", kept)
	}
}
