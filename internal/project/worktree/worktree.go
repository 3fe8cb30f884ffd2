// Package worktree makes git worktrees in which a run works beside the user's own files.
//
// A worktree is a directory of its own, beside the repository (REPO.worktrees/NAME), on a branch of its own
// (knack/NAME) that begins at HEAD. What is not committed is not in it.
package worktree

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/knack-agent/knack/permission"
)

// A Worktree is a worktree that Add made.
type Worktree struct {
	Dir    string // of the worktree
	Branch string
	Root   string // of the repository's own work tree

	start   string // the commit at which the branch began
	environ []string
}

// Of returns the directories of the worktrees that Add made beside a repository and that still exist.
func Of(root string) []string {
	var all []string
	entries, _ := os.ReadDir(root + ".worktrees") // without it there are none
	for _, e := range entries {
		dir := filepath.Join(root+".worktrees", e.Name())
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			all = append(all, dir)
		}
	}
	return all
}

// Uncommitted reports whether the repository's own work tree has changes that a new worktree does not contain.
func Uncommitted(ctx context.Context, environ []string, root string) bool {
	out, err := run(ctx, environ, root, "status", "--porcelain")
	return err == nil && out != ""
}

// Add makes a worktree of the repository that contains dir. Without a name it gets one of its own. A name that is in
// use is an error. The repository's hooks and filters do not run. environ is the environment of the user's programs;
// nil: that of the process.
func Add(ctx context.Context, environ []string, dir, name string) (*Worktree, error) {
	root, err := run(ctx, environ, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("%s is not in a git repository: %w", dir, err)
	}
	start, err := run(ctx, environ, root, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return nil, errors.New("the repository has no commit yet")
	}
	if name == "" {
		name = time.Now().Format("20060102") + "-" + strings.ToLower(rand.Text()[:6])
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(name) || strings.HasSuffix(name, ".lock") {
		return nil, fmt.Errorf("%q cannot name a worktree: use letters, digits, - _ and dots", name)
	}
	w := &Worktree{Dir: filepath.Join(root+".worktrees", name), Branch: "knack/" + name, Root: root, start: start,
		environ: environ}
	if _, err := os.Lstat(w.Dir); err == nil {
		return nil, fmt.Errorf("the worktree %s is in use: %s exists", name, w.Dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := run(ctx, environ, root, "rev-parse", "--verify", "--quiet", "refs/heads/"+w.Branch); err == nil {
		return nil, fmt.Errorf("the branch %s exists already", w.Branch)
	}
	if _, err := run(ctx, environ, root, "worktree", "add", "--quiet", "-b", w.Branch, w.Dir, start); err != nil {
		return nil, err
	}
	return w, nil
}

// Close removes the worktree and its branch if nothing changed in it: no commit, no change, and no untracked file that
// is not ignored. kept says what did change.
func (w *Worktree) Close(ctx context.Context) (kept string, err error) {
	head, err := run(ctx, w.environ, w.Dir, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	status, err := run(ctx, w.environ, w.Dir, "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return "", err
	}
	switch {
	case head != w.start && status != "":
		return "commits and changes that are not committed", nil
	case head != w.start:
		return "commits", nil
	case status != "":
		return "changes that are not committed", nil
	}
	if _, err := run(ctx, w.environ, w.Root, "worktree", "remove", w.Dir); err != nil {
		return "", err
	}
	_, err = run(ctx, w.environ, w.Root, "branch", "--quiet", "-D", w.Branch)
	_ = os.Remove(filepath.Dir(w.Dir)) // fails while there are other worktrees
	return "", err
}

// run runs git without the programs that the repository's configuration names, and returns what it prints.
func run(ctx context.Context, environ []string, dir string, args ...string) (string, error) {
	if environ == nil {
		environ = os.Environ()
	}
	env, _ := permission.GitEnv(environ, dir)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, append(env, "LC_ALL=C")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		if line == "" {
			return "", err
		}
		return "", errors.New(line)
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
