package engine

import (
	"slices"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
)

// notices are the problems found since an Engine was opened. Any goroutine may call the methods.
type notices struct {
	changed func() // called after a problem was added, without a lock

	mu   sync.Mutex
	list []knack.Problem
}

// add reports a problem found while sessions run.
func (n *notices) add(p knack.Problem) {
	n.keep(p, false)
	n.changed()
}

// addOnce reports a problem unless it has been reported before.
func (n *notices) addOnce(p knack.Problem) {
	if n.keep(p, true) {
		n.changed()
	}
}

// keep adds a problem, for one who tells nobody of it, and reports whether it did.
func (n *notices) keep(p knack.Problem, once bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if once && slices.ContainsFunc(n.list, func(x knack.Problem) bool {
		return x.Code == p.Code && x.Path == p.Path && x.Message == p.Message
	}) {
		return false
	}
	n.list = append(n.list, p)
	return true
}

func (n *notices) all() []knack.Problem {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

// sandbox reports a sandbox that is not complete, once for commands and MCP servers together.
func (n *notices) sandbox(r sandbox.Report) {
	if notice := r.Notice(); notice != "" {
		n.addOnce(knack.Problem{Code: knack.CodeSandbox, Severity: knack.Warn, Message: notice})
	}
}

// restored returns a func that calls release and then reports to the user what the sandbox renamed. The user may have
// created it while the command or server was running. path is the file that defines the server, "" for a command.
func (n *notices) restored(release func(*workspace.Exit), path string) func(*workspace.Exit) {
	if release == nil {
		return nil
	}
	return func(exit *workspace.Exit) {
		release(exit)
		for _, what := range exit.Restored {
			n.add(knack.Problem{Code: knack.CodeSandbox, Severity: knack.Warn, Path: path, Message: what})
		}
	}
}
