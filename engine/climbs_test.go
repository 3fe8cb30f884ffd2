package engine_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// climbs collects the calls that lead from a package back to a higher one, from stacks.
type climbs struct {
	mu    sync.Mutex
	found map[string]string // by the stack that leads to the call: the call
}

// see adds the climbs in the stack of its caller.
func (c *climbs) see() {
	height := map[string]int{"run/tool": 1, "run/gate": 2, "run/agent": 3, "engine": 4}
	pcs := make([]uintptr, 200)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var stack []runtime.Frame // the innermost call first
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		stack = append(stack, f)
	}
	name := func(f runtime.Frame) string {
		dir, file := path.Split(strings.TrimPrefix(f.Function, "github.com/knack-agent/knack/"))
		if strings.HasPrefix(dir, "engine/part/") {
			return "engine"
		}
		pkg, _, _ := strings.Cut(file, ".")
		return dir + pkg
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := ""
	for i := len(stack) - 1; i > 0; i-- {
		from, to := height[name(stack[i])], height[name(stack[i-1])]
		key += stack[i].Function + " " + string(rune(stack[i].Line)) + "\n"
		if from > 0 && to > from {
			c.found[key] = stack[i].Function + " calls " + stack[i-1].Function
		}
	}
}

// A seeingHandler is a slog.Handler that looks at the stack of each record about hooks or a decision.
type seeingHandler struct{ climbs *climbs }

func (h seeingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h seeingHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h seeingHandler) WithGroup(string) slog.Handler            { return h }

func (h seeingHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "hooks ran" || r.Message == "decision" {
		h.climbs.see()
	}
	return nil
}

// TestClimbs counts how often a bash call that asks the user, with hooks on every step and a checkpoint, climbs from
// tool, gate or agent to a higher package: see journey C in docs/life.md. Events, which decide nothing, are not counted.
func TestClimbs(t *testing.T) {
	p := newFixture(t)
	c := &climbs{found: map[string]string{}}
	var seen []string
	var hooks []hook.Hook
	for _, event := range []hook.Event{hook.PreToolUse, hook.PermissionRequest, hook.PostToolUse} {
		h, err := hook.New(event, "*", string(event), func(context.Context, json.RawMessage) (json.RawMessage, error) {
			seen = append(seen, string(event))
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		hooks = append(hooks, h)
	}
	person := personFunc(func(context.Context, engine.Question) (engine.Answer, error) {
		c.see()
		seen = append(seen, "user")
		return engine.Answer{Option: "once"}, nil
	})
	o := p.options(llmtest.New(calls("bash", `{"command":"touch made"}`), llmtest.Reply("done")))
	o.Debug = slog.New(seeingHandler{c})
	env := o.Env
	o.Env = func(name string) string {
		if name == "XDG_STATE_HOME" { // the checkpoint asks for it
			c.see()
		}
		return env(name)
	}
	_, s := p.open(t, o, person, engine.SessionOptions{Host: engine.Host{Hooks: hooks}})
	if got := run(t, s, "go"); !strings.HasSuffix(got, "done: done") {
		t.Fatal(got)
	}
	if got := strings.Join(seen, " "); got != "PreToolUse PermissionRequest user PostToolUse" {
		t.Errorf("order: %s", got)
	}
	if len(c.found) != 5 {
		t.Errorf("%d climbs, want 5", len(c.found))
		for _, call := range c.found {
			t.Log(call)
		}
	}
}
