package engine

import (
	"context"
	"sync"
	"testing"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// TestModelOfTwoAgents: two agents that bring the same model at the same time are asked about once.
func TestModelOfTwoAgents(t *testing.T) {
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	asked := 0
	h := &sessionHooks{fire: func(context.Context, hook.Input) (hook.Outcome, error) {
		return hook.Outcome{Vote: hook.Ask}, nil
	}}
	guard := h.guardModels(session.New(session.Header{}), func(context.Context, Question) (Answer, error) {
		asked++
		begun <- struct{}{}
		<-goOn
		return Answer{Option: OptionYes}, nil
	})
	to := agent.Switch{To: llm.Info{ID: "big"}}
	var all sync.WaitGroup
	use := func() {
		if err := guard(t.Context(), to); err != nil {
			t.Error(err)
		}
	}
	all.Go(use)
	<-begun
	all.Go(use)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if guard(ended, to) == nil {
		t.Error("a cancelled agent waits for the answer")
	}
	close(goOn)
	all.Wait()
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
