package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// anyWorktree is the value of --worktree without a name.
const anyWorktree = "*"

// enterWorktree makes the worktree of --worktree and moves the process into it. leave moves it back, and removes the
// worktree if nothing changed in it.
func (f *runFlags) enterWorktree(c *cobra.Command) (leave func(), err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	name := f.worktree
	if name == anyWorktree {
		name = ""
	}
	stderr := c.ErrOrStderr()
	w, err := worktree.Add(c.Context(), nil, dir, name)
	if err != nil {
		return nil, &engine.Error{Err: fmt.Errorf("--worktree: %w", err), Hint: "git worktree list"}
	}
	if worktree.Uncommitted(c.Context(), nil, w.Root) {
		fmt.Fprintln(stderr, "knack: the worktree begins at the last commit: what is not committed is not in it")
	}
	if text := w.AbsentText(); text != "" {
		fmt.Fprintln(stderr, "knack: "+text)
	}
	if err := engine.InheritTrust(nil, w.Dir, w.Root); err != nil {
		return nil, err
	}
	to, err := w.Below(dir)
	if err == nil {
		err = os.Chdir(to)
	}
	if err != nil {
		_, closed := w.Close(c.Context())
		return nil, errors.Join(&engine.Error{Err: fmt.Errorf("--worktree: %w", err), Hint: "cd " + plain.Line(w.Root)}, closed)
	}
	return func() {
		// Whatever ended the run, the worktree is looked at.
		ctx := context.WithoutCancel(c.Context())
		err := os.Chdir(dir)
		kept := ""
		if err == nil {
			kept, err = w.Close(ctx)
		}
		switch {
		case err != nil:
			fmt.Fprintf(stderr, "knack: warn: the worktree %s stays: %s\n", plain.Line(w.Dir), plain.Line(err.Error()))
		case kept != "":
			fmt.Fprintf(stderr, "knack: the worktree has %s: %s, branch %s\n", kept, plain.Line(w.Dir), w.Branch)
		}
	}, nil
}

func realPath(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}
