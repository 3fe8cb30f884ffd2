package worktree

import (
	"context"

	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/run/hook"
)

// creates runs the hooks for a worktree that is about to be made. An error means that one of them refuses it.
func (l *trees) creates(ctx context.Context, name string) error {
	return l.conv.Hook(ctx, hook.Input{Event: hook.WorktreeCreate, Name: name})
}

// removes runs the hooks for a worktree that is about to be removed. They refuse nothing.
func (l *trees) removes(ctx context.Context, tree *worktree.Worktree) {
	l.conv.Hook(ctx, hook.Input{Event: hook.WorktreeRemove, Worktree: tree.Dir})
}
