package own

import (
	"errors"
	"slices"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/tool"
)

// errNotYours is the error for a definition with "sandbox": false that is not the user's own.
var errNotYours = errors.New("sandbox: only what lies in your own configuration directory runs outside the sandbox")

// asUserIn returns what makes the program run as the user, in a session or without one. The error says why it runs in
// the sandbox.
func (p *Program) asUserIn(l *live, set []string) (func(environ []string) []string, error) {
	as := p.asUser
	if l != nil {
		as = l.conv.Project().Brought.AsUser
	}
	if !p.mine || as == nil {
		return nil, errNotYours
	}
	files := []string{p.Path}
	if p.program != "" {
		files = append(files, p.program)
	}
	return as(set, files...)
}

// subject is what is decided about a call, which runs line.
func (p *Program) subject(l *live, rule, line string) permission.Subject {
	s := permission.Subject{Kind: permission.KindTool, Text: rule, Note: "it runs " + line}
	if !p.definition.outside() {
		return s
	}
	if _, err := p.asUserIn(l, nil); err != nil {
		s.Note += " in the sandbox: " + err.Error()
		return s
	}
	s.Outside, s.Note = true, s.Note+" as you, outside the sandbox"
	return s
}

// outside returns what makes a call run as the user, if that was decided on; nil: it runs in the sandbox. A call that
// a skill in use restricts runs there, because nothing else enforces that.
func (p *Program) outside(l *live, call tool.Input, set []string) (func(environ []string) []string, error) {
	decided := slices.ContainsFunc(call.Subjects, func(s permission.Subject) bool { return s.Outside })
	if !decided || len(call.Limits) > 0 {
		return nil, nil
	}
	return p.asUserIn(l, set)
}
