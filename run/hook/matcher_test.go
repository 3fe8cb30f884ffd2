package hook_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"

	"github.com/knack-agent/knack/run/hook"
)

// TestMatchers: lookaround is understood, and a guard of a host whose matcher is wrong refuses every call.
func TestMatchers(t *testing.T) {
	t.Cleanup(regexp2.StopTimeoutClock) // it would end by itself a moment later
	ran := 0
	count := func(context.Context, json.RawMessage) (json.RawMessage, error) { ran++; return nil, nil }
	fire := func(event hook.Event, matcher, tool string) hook.Outcome {
		h, err := hook.New(event, matcher, "x", count)
		if err != nil && !strings.Contains(err.Error(), "matcher") {
			t.Error(err)
		}
		set := &hook.Set{Hooks: []hook.Hook{h}, Runner: &hook.Runner{}}
		return set.Fire(t.Context(), hook.Input{Event: event, Tool: tool})
	}
	fire(hook.PreToolUse, "^(?!Read).*", "Read")
	fire(hook.PreToolUse, "^(?!Read).*", "Bash")
	if ran != 1 {
		t.Errorf("^(?!Read).* ran %d times", ran)
	}
	if out := fire(hook.PreToolUse, "(", "Bash"); out.Vote != hook.Deny {
		t.Errorf("a guard with a wrong matcher: %v", out.Vote)
	}
	if fire(hook.PostToolUse, "(", "Bash"); ran != 2 {
		t.Error("another hook with a wrong matcher does not run")
	}
	fire(hook.PreToolUse, "^(?=(a+)+$)(?!b)", strings.Repeat("a", 40)+"!") // must end
}
