package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
)

// An isolated is the git worktree in which one sub-agent or a session works.
type isolated struct {
	engine *Engine
	agent  string // "": the session itself
	tree   *worktree.Worktree
	ws     *workspace.Local
	box    *sandbox.Sandbox // nil: none
	paths  permission.PathContext

	scratch *scratch // of the agent, or of the session that works here
}

// placeOf is the place of a worktree; nil: that where the session began.
func (s *Session) placeOf(i *isolated) Place {
	if i == nil {
		return s.home()
	}
	return Place{Workspace: i.ws, Sandbox: i.box, Worktree: i.tree.Dir, Paths: func() permission.PathContext { return i.paths }}
}

// isolate makes a worktree for an agent, with a sandbox of its own: the directory beside, in which the agent that
// starts it works, can only be read.
func (t *Turn) isolate(ctx context.Context, d *agent.Definition, beside workspace.Workspace) (*isolated, error) {
	p, e := t.project, t.session.engine
	if _, local := beside.(*workspace.Local); !local {
		return nil, errors.New("isolation: worktree works on this machine only")
	}
	environ := p.options.Env.Environ()
	name := strings.Map(func(r rune) rune { // names of agents may have other letters
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, d.Name)
	name = "agent-" + name[:min(len(name), 40)] + "-" + strings.ToLower(rand.Text()[:6])
	tree, err := worktree.Add(ctx, environ, beside.Dir(), name)
	if err != nil {
		return nil, fmt.Errorf("isolation: worktree: %w", err)
	}
	i, err := e.isolatedIn(ctx, p, tree)
	if err != nil {
		return nil, err
	}
	i.agent = d.Name
	i.scratch = t.session.scratch.forAgent(name, tree.Dir, i.box)
	i.ws = i.scratch.local(i.ws)
	if worktree.Uncommitted(ctx, environ, tree.Root) {
		e.addNoticeOnce(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Info, Path: d.Path,
			Message: "the agent " + d.Name +
				" works in a worktree that begins at the last commit: what is not committed is not in it"})
	}
	return i, nil
}

// isolatedIn opens a worktree for an agent or a session. On an error the worktree is removed if nothing changed in it.
func (e *Engine) isolatedIn(ctx context.Context, p *Project, tree *worktree.Worktree) (*isolated, error) {
	i := &isolated{engine: e, tree: tree}
	var err error
	i.ws, err = workspace.NewLocal(tree.Dir)
	if err != nil {
		_, closed := tree.Close(ctx)
		return nil, errors.Join(err, closed)
	}
	i.ws.Environ = p.options.Env.Environ()
	git, box, err := e.confine(i.ws, p)
	if err != nil {
		i.end(ctx)
		return nil, err
	}
	i.box, i.paths = box, p.localContext(i.ws.Dir(), git, box)
	return i, nil
}

// text tells the agent where it works.
func (i *isolated) text() string {
	return fmt.Sprintf("You work in a git worktree of your own, %s, on the branch %s, which begins at the last commit. "+
		"Changes that are not committed are not in it. Do not change files outside it.", i.ws.Dir(), i.tree.Branch)
}

// gateOptions returns what the settings and the host say about permissions where a session works, or in a worktree at.
func gateOptions(s *Session, p *Project, at *isolated) gate.Options {
	o, host := s.engine.gateOptions(p), s.Host()
	o.Rules.Deny = slices.Concat(o.Rules.Deny, host.Rules.Deny)
	o.Rules.Ask = slices.Concat(o.Rules.Ask, host.Rules.Ask)
	s.scratch.paths(&o.Paths)
	if at != nil {
		return at.gateOptions(p, o)
	}
	return o
}

// gateOptions returns options for the worktree: rules for paths of the project hold
// for the same paths in the worktree. Those that ask and deny go on holding for the project.
func (i *isolated) gateOptions(p *Project, o gate.Options) gate.Options {
	moved := func(rules []permission.Rule) (all []permission.Rule) {
		for _, r := range rules {
			if below, ok := subpath.Rel(p.root, r.Base); ok && r.Base != "" {
				r.Base = filepath.Join(i.tree.Dir, below)
			}
			all = append(all, r)
		}
		return all
	}
	output := o.Paths.Output
	o.Paths = i.paths
	i.scratch.paths(&o.Paths)
	o.Paths.Output = output
	o.Rules = permission.Rules{Allow: moved(o.Rules.Allow), Ask: slices.Concat(o.Rules.Ask, moved(o.Rules.Ask)),
		Deny: slices.Concat(o.Rules.Deny, moved(o.Rules.Deny))}
	return o
}

// end removes the worktree if nothing changed in it. Otherwise it returns where the agent's work is, for the agent that
// started it, and tells the user.
func (i *isolated) end(ctx context.Context) string {
	err := i.ws.Close() // ends what its commands left running
	if i.agent != "" {
		i.scratch.close()
	}
	kept, closed := i.tree.Close(ctx)
	err = errors.Join(err, closed)
	text := ""
	switch {
	case err != nil:
		text = fmt.Sprintf("the worktree %s stays: %v", i.tree.Dir, err)
	case kept != "":
		text = fmt.Sprintf("the worktree %s, branch %s, has %s", i.tree.Dir, i.tree.Branch, kept)
	}
	if text != "" {
		who := "agent " + i.agent + ": "
		if i.agent == "" {
			who = ""
		}
		i.engine.addNotice(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Info, Message: who + text})
	}
	return text
}
