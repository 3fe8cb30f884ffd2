package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// A ShellCommand is a command line that the user typed at the prompt. The model does not see it.
type ShellCommand struct {
	Command    string
	Unconfined bool              // run outside the sandbox
	Progress   func(tool.Result) // may be nil
}

// Shell runs a command that the user typed. Typing counts as approval, but deny rules, managed ask
// rules, and the rules for secrets and protected paths still apply. The result's text is untrusted.
func (s *Session) Shell(ctx context.Context, c ShellCommand) (tool.Result, error) {
	if err := s.open(); err != nil {
		return tool.Result{}, err
	}
	p := s.engine.Project()
	g, err := s.Now().typedGate(gate.Typed)
	if err != nil {
		return tool.Result{}, err
	}
	tools := s.files
	if _, ok := s.ws.(*workspace.Local); ok && c.Unconfined {
		ws, err := workspace.Parse(ctx, s.place.ws().Dir(), p.options.Env.Environ())
		if err != nil {
			return tool.Result{}, err
		}
		defer ws.Close()
		if local, ok := ws.(*workspace.Local); ok {
			p.configureLocal(local)
		}
		tools = coding.Tools(ws, s.coding)
	}
	input, err := json.Marshal(map[string]string{"command": c.Command})
	if err != nil {
		return tool.Result{}, err
	}
	if _, ok := tools.Find("bash"); !ok {
		return tool.Result{}, fmt.Errorf("there is no shell in %s", s.ws.Dir())
	}
	return tool.Call(ctx, tools, llm.ToolCall{ID: "typed", Name: "bash", Input: input}, g, c.Progress), nil
}

// typedGate makes the Gate for what the user typed.
func (t *Turn) typedGate(approver gate.Approver) (*gate.Gate, error) {
	p := t.project
	o := gateOptions(t.session, p, t.session.place.home)
	o.Approver, o.Audit = approver, gateAudit(t.session, p, t.session.log)
	o.Require = t.session.parts.require
	if t.session.person != nil { // who typed a line has typed the hosts in it, and no others
		o.Network.Approver = gate.ApproverFunc(t.session.approve)
	}
	return gate.New(o)
}

// Decide judges subjects as a new session's gate would, before hooks and questions. The Engine's
// Workspace must be open, as it is in a session.
func (e *Engine) Decide(ctx context.Context, subjects ...permission.Subject) (permission.Decision, error) {
	p := e.Project()
	o := e.gateOptions(p)
	o.Mode, o.Keeper = p.config.Settings.Permissions.DefaultMode, p.trust
	g, err := gate.New(o)
	if err != nil {
		return permission.Decision{}, err
	}
	return g.Decide(ctx, subjects...), nil
}
