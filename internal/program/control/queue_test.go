package control

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestQueueIsBounded: reading stops when maxQueued lines wait, and goes on when there is room, or while an answer of
// the host is awaited, which may come after them.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{pending: map[string]chan answer{}, handling: openRequests{},
			changed: make(chan struct{})}
		go func() {
			for n := range 3 * maxQueued {
				s.take(ctx, inputLine{number: n}, frame{Type: typeUser})
			}
		}()
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.inbox) != n {
				t.Errorf("%d lines wait, want %d", len(s.inbox), n)
			}
		}
		want(maxQueued)
		s.mu.Lock()
		s.prompts, s.drained = []prompt{{}}, true
		s.mu.Unlock()
		s.next(ctx) // takes the prompt, so that nothing changes
		want(maxQueued)
		s.mu.Lock()
		s.inbox = s.inbox[1:]
		s.notify()
		s.mu.Unlock()
		want(maxQueued)
		s.mu.Lock()
		s.pending["1"] = make(chan answer, 1)
		s.notify()
		s.mu.Unlock()
		want(3*maxQueued - 1)
		cancel()
	})
}

// TestManyPromptsRun: more prompts than may wait are all answered, in order.
func TestManyPromptsRun(t *testing.T) {
	t.Parallel()
	const n = maxQueued + 200
	answers := make([]llmtest.Answer, n)
	for i := range answers {
		answers[i] = llmtest.Reply(fmt.Sprintf("answer %d", i))
	}
	h := newHost(t, llmtest.New(answers...), nil)
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "{\"type\":\"user\",\"priority\":\"later\",\"message\":{\"content\":\"prompt %d\"}}\n", i)
	}
	go func() {
		fmt.Fprint(h.in, all.String())
		h.in.Close()
	}()
	for i := range n {
		h.expect(`"type":"result"`, fmt.Sprintf(`"result":"answer %d"`, i))
	}
	if err := <-h.done; err != nil {
		t.Error(err)
	}
}

// TestManyHooks: a host may have many hooks.
func TestManyHooks(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("true"), llmtest.Reply("done")), nil,
		values(map[string]any{"permissions.allow": []string{"Bash"}}))
	var hooks strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&hooks, `{"matcher":"Edit","hookCallbackIds":["hook_%d"]},`, i)
	}
	h.must(h.ask("1", `{"subtype":"initialize","hooks":{"PreToolUse":[`+hooks.String()+
		`{"matcher":"Bash","hookCallbackIds":["x","x"]}]}}`), `"subtype":"success"`)
	h.user("go")
	h.answers(`{}`, `"subtype":"hook_callback"`) // the same callback is asked once
	h.must(h.expect(`"type":"result"`), `"result":"done"`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
}
