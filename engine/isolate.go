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
	"github.com/knack-agent/knack/run/hook"
)

// An isolated is the git worktree in which one sub-agent works.
type isolated struct {
	Place
	agent  string
	tree   *worktree.Worktree
	notice func(knack.Problem)
	hooks  *sessionHooks

	scratch *scratch
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
	if err := t.session.hooks.refused(ctx, hook.Input{Event: hook.WorktreeCreate, Name: name}); err != nil {
		return nil, fmt.Errorf("isolation: worktree: %w", err)
	}
	tree, err := worktree.Add(ctx, environ, beside.Dir(), name, p.config.Settings.Worktree.Include...)
	if err != nil {
		return nil, fmt.Errorf("isolation: worktree: %w", err)
	}
	i := &isolated{agent: d.Name, tree: tree, notice: e.notices.add, hooks: t.session.hooks}
	if i.Place, err = e.openWorktree(ctx, p, tree); err != nil {
		return nil, err
	}
	i.scratch = t.session.scratch.forAgent(name, tree.Dir, i.Sandbox)
	i.Place = i.scratch.in(i.Place)
	if worktree.Uncommitted(ctx, environ, tree.Root) {
		e.notices.addOnce(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Info, Path: d.Path,
			Message: "the agent " + d.Name +
				" works in a worktree that begins at the last commit: what is not committed is not in it"})
	}
	return i, nil
}

// openWorktree opens a worktree for an agent or a session. On an error the worktree is removed if nothing changed in
// it.
func (e *Engine) openWorktree(ctx context.Context, p *Project, tree *worktree.Worktree) (Place, error) {
	fail := func(err error) (Place, error) {
		_, closed := tree.Close(ctx)
		return Place{}, errors.Join(err, closed)
	}
	ws, err := workspace.NewLocal(tree.Dir)
	if err != nil {
		return fail(err)
	}
	ws.Environ = p.options.Env.Environ()
	git, box, err := e.confine(ws, p)
	if err != nil {
		return fail(errors.Join(err, ws.Close()))
	}
	paths := p.localContext(ws.Dir(), git, box)
	return Place{Workspace: ws, Sandbox: box, Worktree: tree.Dir,
		Paths: func() permission.PathContext { return paths }}, nil
}

// text tells the agent where it works.
func (i *isolated) text() string {
	return fmt.Sprintf("You work in a git worktree of your own, %s, on the branch %s, which begins at the last commit. "+
		"Changes that are not committed are not in it. Do not change files outside it.", i.Worktree, i.tree.Branch)
}

// gateOptions returns what the settings and the host say about permissions in a place.
func gateOptions(s *Session, p *Project, at Place) gate.Options {
	o, host := s.engine.gateOptions(p), s.Host()
	o.Rules.Deny = slices.Concat(o.Rules.Deny, host.Rules.Deny)
	o.Rules.Ask = slices.Concat(o.Rules.Ask, host.Rules.Ask)
	o.Network.Guard = carriedBy((&Conv{session: s}).Reads)
	o.Network.Listens = sandbox.MachineListens
	if at.Worktree == "" {
		s.scratch.paths(&o.Paths)
		return o
	}
	// Rules that allow paths of the project hold for the same paths in the worktree; those that ask and deny hold for both
	// anyway.
	o.Rules.Allow = slices.Clone(o.Rules.Allow)
	for i := range o.Rules.Allow {
		r := &o.Rules.Allow[i]
		if below, ok := subpath.Rel(p.root, r.Base); ok && r.Base != "" {
			r.Base = filepath.Join(at.Worktree, below)
		}
	}
	o.Paths = at.Paths()
	return o
}

// end removes the worktree if nothing changed in it. Otherwise it returns where the agent's work is, for the agent that
// started it, and tells the user.
func (i *isolated) end(ctx context.Context) string {
	err := i.Workspace.Close() // ends what its commands left running
	i.scratch.close()
	if what, err := i.tree.Changed(ctx); what == "" && err == nil {
		i.hooks.refused(ctx, hook.Input{Event: hook.WorktreeRemove, Worktree: i.tree.Dir}) // nothing refuses it
	}
	kept, closed := i.tree.Close(ctx)
	text := i.tree.Left(kept, errors.Join(err, closed))
	if text != "" {
		i.notice(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Info, Message: "agent " + i.agent + ": " + text})
	}
	return text
}
