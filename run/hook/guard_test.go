package hook

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestGuardSeesWhatRuns: a hook that rewrites a call's input cannot bypass the guards that run in parallel.
func TestGuardSeesWhatRuns(t *testing.T) {
	for _, c := range []struct {
		guard string // the guard's answer to rm
		want  Vote
	}{
		{deny, Deny}, {ask, Ask}, {allow, Nothing}, {"broken", Ask}, {into("c", "allow"), Nothing},
	} {
		for _, order := range [][]string{{"guard", "rewriter"}, {"rewriter", "guard"}} {
			asked := map[string]int{}
			in := make(chan string, 8)
			s := set(t, guards(order...), func(_ context.Context, cmd Process) (Output, error) {
				in <- cmd.Line
				switch {
				case cmd.Line == "rewriter":
					return Output{Stdout: []byte(into("rm x", "allow"))}, nil
				case !strings.Contains(string(cmd.Stdin), "rm x"):
					return Output{}, nil
				case c.guard == "broken":
					return Output{}, errors.New("gone")
				}
				return Output{Stdout: []byte(c.guard)}, nil
			})
			for i := range s.Hooks {
				s.Hooks[i].Mute = s.Hooks[i].Command == "rewriter"
			}
			o := s.Fire(t.Context(), Input{Event: PreToolUse, Tool: "bash", ToolInput: json.RawMessage(`{"command":"ls"}`)})
			close(in)
			for line := range in {
				asked[line]++
			}
			if o.Vote != c.want || (o.Input == nil) != (c.want == Deny) || asked["rewriter"] != 1 || asked["guard"] != 2 {
				t.Errorf("%s, %v: %+v %v", c.guard, order, o, asked)
			}
			if c.want != Deny && string(o.Input) != `{"command":"rm x"}` {
				t.Errorf("%s, %v: %s", c.guard, order, o.Input)
			}
		}
	}
}

// TestBrokenGuards: a guard that cannot be parsed is not ignored: the calls that its matcher selects need approval,
// and no others.
func TestBrokenGuards(t *testing.T) {
	for _, c := range []struct {
		hook   string
		vote   Vote
		broken bool
	}{
		{`{"matcher": "Bash", "hooks": [{"type": "mcp_tool", "command": "x"}]}`, Ask, true},
		{`{"matcher": "Bash", "hooks": [{"type": "mcp_tool", "required": true}]}`, Deny, false},
		{`{"matcher": "Edit", "hooks": [{"type": "agent", "prompt": "x"}]}`, Nothing, false},
		{`{"matcher": "(", "hooks": [{"type": "command", "command": "x"}]}`, Ask, true},
		{`{"hooks": [{"command": ""}]}`, Ask, true},
	} {
		hooks, _ := Parse([]byte(`{"PreToolUse": [`+c.hook+`]}`), nil)
		s := Set{Hooks: hooks, Runner: &Runner{}}
		if o := s.Fire(t.Context(), Input{Event: PreToolUse, Tool: "Bash"}); o.Vote != c.vote || o.Broken != c.broken {
			t.Errorf("%s: %+v", c.hook, o)
		}
	}
}
