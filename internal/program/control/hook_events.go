package control

import (
	"context"
	"errors"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/hook"
)

// Edit makes a session report the commands of its hooks, if HookEvents is set. o may be nil.
func (o *Messages) Edit(options *engine.SessionOptions) {
	if o != nil && o.HookEvents {
		options.Host.HookRan = o.hookRan
	}
}

// hookRan writes the message about a command of a hook.
func (o *Messages) hookRan(ran hook.Ran) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := HookMessage{Type: typeSystem, Subtype: subtypeHookStarted, Head: o.head(0), ID: ran.ID,
		Name: string(ran.Hook.Event), Event: string(ran.Hook.Event)}
	if ran.Hook.Matcher != "" {
		m.Name += ":" + ran.Hook.Matcher
	}
	if ran.Ended {
		m.Subtype, m.Outcome, m.Exit = subtypeHookResponse, "success", &ran.Code
		m.Stdout, m.Stderr = strings.ToValidUTF8(string(ran.Stdout), "\uFFFD"),
			strings.ToValidUTF8(string(ran.Stderr), "\uFFFD")
		m.Output = m.Stdout
		switch {
		case errors.Is(ran.Err, context.Canceled):
			m.Outcome = "cancelled"
		case ran.Err != nil || ran.Code != 0 || ran.Signal != "":
			m.Outcome = "error"
		}
		if ran.Err != nil {
			code := -1
			m.Exit = &code
		}
	}
	o.out.write(m)
}
