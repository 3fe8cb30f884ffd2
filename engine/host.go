package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/tool"
)

// ReadFile reads at most maxBytes bytes of a file for the host; more reports whether the file is longer.
// The rules must allow it: the user is not asked.
func (s *Session) ReadFile(ctx context.Context, path string, maxBytes int) (data []byte, abs string, more bool,
	err error) {
	t := s.Now()
	abs = s.place.ws().Path(path)
	// A refused file must look the same as a missing one.
	if err := t.mayRead(ctx, "read_file", abs); err != nil {
		return nil, "", false, err
	}
	f, err := s.place.ws().Open(ctx, abs)
	if err != nil {
		return nil, "", false, err
	}
	defer f.Close()
	if real := f.Realpath(); real != abs {
		if err := t.mayRead(ctx, "read_file", real); err != nil {
			return nil, "", false, err
		}
	}
	data, err = io.ReadAll(io.LimitReader(f, int64(maxBytes)+1))
	if err != nil {
		return nil, "", false, err
	}
	if len(data) > maxBytes {
		return data[:maxBytes], abs, true, nil
	}
	return data, abs, false, nil
}

// mayRead decides on reading a file for the host, and records the decision.
func (t *Turn) mayRead(ctx context.Context, name, path string) error {
	p := t.project
	d := t.gate.Decide(ctx, permission.Subject{
		Kind: permission.KindRead, Text: path, Tool: "read", ReadOnly: true})
	r := gate.Record{Tool: name, Decision: d}
	if err := t.session.parts.require(r); err != nil {
		return err
	}
	p.audit(t.session.log)(r)
	if d.Verdict == permission.Allow {
		return nil
	}
	switch {
	case d.Rule != "":
		return fmt.Errorf("%s cannot be read: the rule %s (%s)", path, d.Rule, d.Origin)
	case d.Reason != "":
		return fmt.Errorf("%s cannot be read: %s", path, d.Reason)
	}
	return fmt.Errorf("%s cannot be read: no rule allows it", path)
}

// ReadResource reads a resource of a connected MCP server for the host. Deny rules for the server's tools hold, and
// managed ask rules refuse it, because nobody is asked.
func (t *Turn) ReadResource(ctx context.Context, server, uri string) ([]mcp.Content, error) {
	var client *mcp.Client
	for _, c := range t.session.servers.Clients() {
		if slices.ContainsFunc(c.Servers(), func(s mcp.Status) bool { return s.Name == server }) {
			client = c
			break
		}
	}
	if client == nil {
		return nil, fmt.Errorf("there is no MCP server %.100q", server)
	}
	d := t.gate.Decide(ctx, permission.Subject{Kind: permission.Kind("mcp__" + mcp.Safe(server) + "__read"), Text: uri})
	r := gate.Record{Tool: "read_mcp_resource", Decision: d}
	if err := t.session.parts.require(r); err != nil {
		return nil, err
	}
	t.project.audit(t.session.log)(r)
	if d.Verdict == permission.Deny || d.Verdict == permission.Ask && d.Origin == permission.Managed {
		return nil, fmt.Errorf("%s cannot be read: the rule %s (%s)", uri, d.Rule, d.Origin)
	}
	t.session.parts.audit(gate.Record{Tool: "read_mcp_resource", Decision: d, Permit: &tool.Permit{},
		Strangers: mcp.Strangers})
	return client.Contents(ctx, server, uri)
}

// StopTask stops a background command, or a background agent by the ID of its session.
func (s *Session) StopTask(id string) error {
	if s.background.Stop(s.log, id, errors.New("stopped by the user")) {
		return nil
	}
	return s.jobs.Stop(id)
}

// MoveToBackground makes background commands of those that calls wait for: see [Status].Jobs. call is the ID of one
// call; "": all. It reports whether there was one.
func (s *Session) MoveToBackground(call string) bool { return s.jobs.Move(call) }

// TaskOutput returns the end, at most maxBytes bytes, of the output of a background command, or of the
// texts and calls of a background agent. total is the size of the whole.
func (s *Session) TaskOutput(id string, maxBytes int) (text string, total int64, err error) {
	log := s.background.Log(s.log, id)
	if log == nil {
		return s.jobs.Tail(id, maxBytes)
	}
	var b strings.Builder
	for e := range log.Walk() {
		if e.Answer == nil {
			continue
		}
		for _, part := range e.Answer.Message.Parts {
			switch {
			case part.Call != nil:
				fmt.Fprintf(&b, "%s %s\n", part.Call.Name, s.Now().Summary(part.Call.Name, part.Call.Input))
			case part.Text != "":
				b.WriteString(strings.TrimRight(part.Text, "\n") + "\n")
			}
		}
	}
	text = b.String()
	return strings.ToValidUTF8(text[max(0, len(text)-maxBytes):], ""), int64(len(text)), nil
}

// Answers returns the rules of the user's answers: those that are kept ("always"), and those of this session.
func (s *Session) Answers() (kept, session []permission.Rule) {
	return s.gate.KeptRules(), s.gate.SessionRules()
}
