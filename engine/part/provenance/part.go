// Package provenance is the part that says which session and which skills made a change: with the setting
// git.provenance: note, each commit that a call of a session makes carries a git note (refs/notes/knack) with the
// session, the model, the skills in use with the hash of their files, and hashes of the added lines. No commit is
// rewritten, and git pushes no notes by itself. [Why] answers from them, also after a squash or a rebase; a seal tells
// notes that this machine did not write.
package provenance

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/run/tool"
)

// Part writes notes to the commits of a session. It is off by default.
func Part() engine.Part { return engine.Part{Name: "provenance", Open: openPart} }

// On reports whether commits of sessions get notes: the setting git.provenance.
func On(p *engine.Project) (bool, error) {
	var set struct {
		Git struct{ Provenance string } `json:"git"`
	}
	err := p.ReadSettings(&set)
	return set.Git.Provenance == "note", err
}

func openPart(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	on, err := On(c.Project())
	if err != nil {
		return nil, err
	}
	if _, local := c.Place().Workspace.(*workspace.Local); !local || !on {
		return nil, nil
	}
	l := &live{conv: c}
	return &engine.Live{Wrap: l.wrap}, nil
}

type live struct{ conv *engine.Conv }

// wrap looks at the repository before and after each call that runs commands.
func (l *live) wrap(tools tool.Set, in engine.Place) tool.Set {
	ws, local := in.Workspace.(*workspace.Local)
	if !local {
		return tools
	}
	tools = slices.Clone(tools)
	for i, t := range tools {
		if t.Effect&tool.Runs == 0 {
			continue
		}
		tools[i].Run = func(ctx context.Context, call tool.Input) (tool.Result, error) {
			r := open(ws.Dir(), l.conv.Project().Env().Environ())
			if r == nil {
				return t.Run(ctx, call)
			}
			start, before := time.Now(), r.now(ctx)
			result, err := t.Run(ctx, call)
			if bad := l.note(context.WithoutCancel(ctx), r, before, start); bad != nil {
				l.conv.Notice(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Warn,
					Message: "a commit of this session got no note: " + bad.Error(), Hint: "/settings git.provenance off"})
			}
			return result, err
		}
	}
	return tools
}

// note writes a note to each commit that was made since a call began.
func (l *live) note(ctx context.Context, r *repository, before state, start time.Time) error {
	after := r.now(ctx).head
	if after == "" || after == before.head {
		return nil
	}
	commits, err := r.made(ctx, before, after, start)
	if err != nil || len(commits) == 0 {
		return err
	}
	key, err := keyOf(l.conv.Project().Env(), true)
	if err != nil {
		return err
	}
	log := l.conv.Log()
	n := Note{Version: 1, Session: log.ID(), Entry: log.Last(), Model: l.conv.LastModel().ID, Skills: l.skills(),
		Time: time.Now().UTC().Truncate(time.Second)}
	for _, commit := range commits {
		n.Commit = commit
		if n.Lines, err = r.added(ctx, commit); err != nil {
			return err
		}
		n.Seal = n.sealOf(key)
		if err := r.attach(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// skills returns the skills in use.
func (l *live) skills() (all []Skill) {
	for _, s := range l.conv.Log().State().Scopes {
		if slices.ContainsFunc(all, func(x Skill) bool { return x.Name == s.Skill }) {
			continue
		}
		x := Skill{Name: s.Skill}
		if k := l.conv.Catalog().Skill(s.Skill); k != nil && k.Dir != "" {
			if files, err := install.Hash(k.Dir); err == nil {
				x.Tree = files.Sum()
			}
		}
		all = append(all, x)
	}
	order.Stable(all, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	return all
}
