package engine

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/tool"
)

// A place is where the tools of a session work: where it began, or a git worktree to which a part moved it.
type place struct {
	home Place

	mu      sync.Mutex
	in      Place          // its Worktree is "": home
	tools   tool.Set       // of in
	moves   int            // how often the session was moved
	decided map[string]int // moves, when a call was decided on in this turn, by its tool and input
	running *gate.Gate     // of the turn that runs or ran last; nil: there was none
}

// now returns where the tools work.
func (l *place) now() Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in.Worktree == "" {
		return l.home
	}
	return l.in
}

// ws returns the workspace in which the tools work.
func (l *place) ws() workspace.Workspace { return l.now().Workspace }

// begin says that a turn begins, with a gate that decides its calls.
func (l *place) begin(g *gate.Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.decided = g, map[string]int{}
}

// set moves the session to a worktree, with tools that work there; the zero Place is home. It returns the gate of the
// turn that runs.
func (l *place) set(in Place, tools tool.Set) (running *gate.Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in, l.tools = in, tools
	l.moves++
	return l.running
}

// renew makes the tools of the worktree again, if the session works in one.
func (l *place) renew(tools func(Place) tool.Set) {
	in := l.now()
	if in.Worktree == "" {
		return
	}
	fresh := tools(in)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in.Worktree == in.Worktree { // it has not moved meanwhile
		l.tools = fresh
	}
}

// tool returns what a tool of the workspace is in the worktree; nil: the session does not work in one.
func (l *place) tool(name string) *tool.Tool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, _ := l.tools.Find(name)
	return t
}

// wrap returns the tools of the workspace as tools that work in the worktree while the session does.
func (l *place) wrap(tools tool.Set) tool.Set {
	for i, t := range tools {
		of := func() *tool.Tool {
			if other := l.tool(t.Name); other != nil {
				return other
			}
			return &t
		}
		tools[i].Run = func(ctx context.Context, call tool.Input) (tool.Result, error) {
			l.mu.Lock()
			decided, known := l.decided[t.Name+string(call.JSON)]
			moved := known && decided != l.moves
			l.mu.Unlock()
			if moved {
				return tool.Result{}, errors.New("the working directory changed after this call was decided on: call it again")
			}
			return of().Run(ctx, call)
		}
		if t.Subjects != nil {
			tools[i].Subjects = func(ctx context.Context, in json.RawMessage) ([]permission.Subject, error) {
				l.mu.Lock()
				if l.decided != nil { // before the first turn nothing moves
					l.decided[t.Name+string(in)] = l.moves
				}
				l.mu.Unlock()
				return of().Subjects(ctx, in)
			}
		}
		if t.Changes != nil {
			tools[i].Changes = func(ctx context.Context, in json.RawMessage) ([]tool.Change, error) {
				return of().Changes(ctx, in)
			}
		}
		if t.Key != nil {
			tools[i].Key = func(ctx context.Context, in json.RawMessage) string { return of().Key(ctx, in) }
		}
	}
	return tools
}
