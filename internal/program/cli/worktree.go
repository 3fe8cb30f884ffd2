package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
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
	set, err := ownSettings()
	if err != nil {
		return nil, err
	}
	w, err := worktree.Add(c.Context(), nil, dir, name, set.Worktree.Include...)
	if err != nil {
		return nil, &engine.Error{Err: fmt.Errorf("--worktree: %w", err), Hint: "git worktree list"}
	}
	if worktree.Uncommitted(c.Context(), nil, w.Root) {
		fmt.Fprintln(stderr, "knack: the worktree begins at the last commit: what is not committed is not in it")
	}
	if isTerminal(c.InOrStdin()) && !f.printing {
		err := offerInclude(c.Context(), w, set.Worktree.Include, func(question string) (bool, error) {
			return confirm(c, question, "")
		})
		if err != nil {
			_, closed := w.Close(c.Context())
			return nil, errors.Join(err, closed)
		}
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

// offerInclude asks, once for each repository, whether worktrees get a copy of the files that tell agents how to work,
// if git ignores them. A yes is kept as the setting worktree.include.
func offerInclude(ctx context.Context, w *worktree.Worktree, include []string,
	ask func(question string) (bool, error)) error {
	names := w.Absent()
	asked := engine.Env(nil).StateFile("worktrees-asked.json")
	var roots []string
	if data, err := regular.Read(asked, 1<<20); err == nil {
		_ = json.Unmarshal(data, &roots) // what cannot be read was not asked
	}
	settings := engine.Env(nil).ConfigDir()
	if len(names) == 0 || asked == "" || settings == "" || slices.Contains(roots, w.Root) {
		return nil
	}
	yes, err := ask(fmt.Sprintf("The worktree does not have %s, which git ignores.\nCopy them here, and from now on into "+
		"each worktree (the setting worktree.include)?", strings.Join(names, ", ")))
	if err != nil {
		return err
	}
	if !yes {
		data, err := json.Marshal(append(roots, w.Root))
		return cmp.Or(err, atomicfile.Write(asked, data, 0o600))
	}
	for _, name := range names {
		include = append(include, "/"+name)
	}
	data, err := json.Marshal(include)
	return cmp.Or(err, w.Include(ctx, include...),
		config.Set("", filepath.Join(settings, "settings.json"), "worktree.include", data))
}

func realPath(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}
