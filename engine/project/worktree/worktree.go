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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A Worktree is a worktree that Add made.
type Worktree struct {
	Dir    string // of the worktree
	Branch string
	Root   string // of the repository's own work tree

	start   string // the commit at which the branch began
	environ []string
	left    []string // what was named for the worktree and not copied, with the reason
}

// Of returns the directories of the worktrees that Add made beside a repository and that still exist.
func Of(root string) []string {
	var all []string
	literal := strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]")
	for _, pattern := range []string{"*", "*/*"} {
		found, _ := filepath.Glob(filepath.Join(literal.Replace(root)+".worktrees", pattern, ".git")) // the pattern is valid
		for _, git := range found {
			all = append(all, filepath.Dir(git))
		}
	}
	return all
}

// Uncommitted reports whether the repository's own work tree has changes that a new worktree does not contain.
func Uncommitted(ctx context.Context, environ []string, root string) bool {
	out, err := run(ctx, environ, root, "status", "--porcelain")
	return err == nil && out != ""
}

// Names reports whether a word can name a worktree and its branch.
func Names(name string) bool {
	part := `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`
	return regexp.MustCompile(`^`+part+`(/`+part+`)?$`).MatchString(name) && !strings.HasSuffix(name, ".lock") &&
		!strings.Contains(name, ".lock/")
}

// locate returns the worktree with a name of the repository that contains dir; it need not exist.
func locate(ctx context.Context, environ []string, dir, name string) (*Worktree, error) {
	root, err := run(ctx, environ, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("%s is not in a git repository: %w", dir, err)
	}
	start, err := run(ctx, environ, root, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return nil, errors.New("the repository has no commit yet")
	}
	if !Names(name) {
		return nil, fmt.Errorf("%q cannot name a worktree: use letters, digits, - _ and dots", name)
	}
	w := &Worktree{Dir: filepath.Join(root+".worktrees", filepath.FromSlash(name)), Branch: "knack/" + name, Root: root,
		start: start, environ: environ}
	return w, NoLinks(root, w.Dir)
}

// NoLinks returns an error if a directory beside root, or one of those above it up to the parent of root, is a link: it
// would make a worktree or a copy somewhere else.
func NoLinks(root, dir string) error {
	for at := dir; at != filepath.Dir(root) && at != filepath.Dir(at); at = filepath.Dir(at) {
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			target, _ := os.Readlink(at)
			return fmt.Errorf("%s is a link to %s: remove it first", at, target)
		}
	}
	return nil
}

// Below returns the directory of the worktree that is what dir is in the repository, or that of the worktree if the
// commit has none. The commit may have a link in its place: one that leads out of the worktree is an error.
func (w *Worktree) Below(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	below, ok := subpath.Rel(w.Root, real)
	if !ok {
		return w.Dir, nil
	}
	to := filepath.Join(w.Dir, below)
	if _, err := os.Lstat(to); err != nil {
		return w.Dir, nil
	}
	top, err1 := filepath.EvalSymlinks(w.Dir)
	real, err2 := filepath.EvalSymlinks(to)
	switch {
	case err1 != nil || err2 != nil:
		return "", errors.Join(err1, err2)
	case !subpath.Contains(top, real):
		return "", fmt.Errorf("%s leads out of the worktree, to %s: the commit has a link there", to, real)
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return w.Dir, nil
	}
	return real, nil
}

// Open returns a worktree that Add made earlier.
func Open(ctx context.Context, environ []string, dir, name string) (*Worktree, error) {
	w, err := locate(ctx, environ, dir, name)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(w.Dir, ".git")); err != nil {
		return nil, err
	}
	// The repository may have moved on since the branch began.
	w.start, err = run(ctx, environ, w.Dir, "merge-base", w.start, "HEAD")
	return w, err
}

// NewName returns a name for a worktree that has none yet.
func NewName() string { return time.Now().Format("20060102") + "-" + strings.ToLower(rand.Text()[:6]) }

// Add makes a worktree of the repository that contains dir. Without a name it gets one of its own; a name may have two
// parts, separated by a slash. A name that is in use is an error. The repository's hooks and filters do not run. The
// worktree gets a copy of the ignored files that [IncludeFile] and include, in the syntax of .gitignore, name.
// environ is the environment of the user's programs; nil: that of the process.
func Add(ctx context.Context, environ []string, dir, name string, include ...string) (*Worktree, error) {
	if name == "" {
		name = NewName()
	}
	w, err := locate(ctx, environ, dir, name)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(w.Dir); err == nil {
		return nil, fmt.Errorf("the worktree %s is in use: %s exists", name, w.Dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := run(ctx, environ, w.Root, "rev-parse", "--verify", "--quiet", "refs/heads/"+w.Branch); err == nil {
		return nil, fmt.Errorf("the branch %s exists already", w.Branch)
	}
	if _, err := run(ctx, environ, w.Root, "worktree", "add", "--quiet", "-b", w.Branch, w.Dir, w.start); err != nil {
		// git removes the directory, for example if the disk is full, but not the branch: the name would be in use.
		if _, left := os.Lstat(w.Dir); errors.Is(left, fs.ErrNotExist) {
			_, _ = run(context.WithoutCancel(ctx), environ, w.Root, "update-ref", "-d", "refs/heads/"+w.Branch, w.start)
			removeEmpty(w)
		}
		return nil, err
	}
	if err := w.include(ctx, include); err != nil {
		return nil, errors.Join(err, w.remove(context.WithoutCancel(ctx), true))
	}
	return w, nil
}

// Changed says what changed in the worktree since it began: commits, files, or files that git ignores and no tool makes
// anew ([sandbox.Rebuildable]); "": nothing.
func (w *Worktree) Changed(ctx context.Context) (what string, err error) {
	head, err := run(ctx, w.environ, w.Dir, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	status, err := run(ctx, w.environ, w.Dir, "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return "", err
	}
	commits := head != w.start || w.branchMoved(ctx)
	switch {
	case commits && status != "":
		return "commits and changes that are not committed", nil
	case commits:
		return "commits", nil
	case status != "":
		return "changes that are not committed", nil
	}
	ignored, err := w.Ignored(ctx)
	if len(ignored) > 0 {
		what = "ignored files: " + plain.List(ignored, 5)
	}
	return what, err
}

// Ignored returns the files in the worktree that git ignores, and directories of such files, which end in a slash. What
// tools make anew is left out, and so are copies of what the repository's own work tree has ([IncludeFile]).
func (w *Worktree) Ignored(ctx context.Context) (names []string, err error) {
	out, err := run(ctx, w.environ, w.Dir, "status", "--porcelain", "-z", "--untracked-files=normal", "--ignored=traditional")
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(out, "\x00") {
		name, ok := strings.CutPrefix(entry, "!! ")
		if ok && !slices.ContainsFunc(strings.Split(name, "/"), sandbox.Rebuildable) && w.holds(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// holds reports whether an ignored path is a file, or a directory with one, that is not made anew and no copy.
func (w *Worktree) holds(name string) (found bool) {
	_ = filepath.WalkDir(filepath.Join(w.Dir, filepath.FromSlash(name)), func(at string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && sandbox.Rebuildable(d.Name()):
			return fs.SkipDir
		case err == nil && d.IsDir():
			return nil
		}
		if below, ok := subpath.Rel(w.Dir, at); ok && err == nil && w.isCopy(below) {
			return nil
		}
		found = true // also what cannot be read
		return fs.SkipAll
	})
	return found
}

// branchMoved reports whether the worktree's branch has commits of its own, also if HEAD is elsewhere.
func (w *Worktree) branchMoved(ctx context.Context) bool {
	tip, err := run(ctx, w.environ, w.Root, "rev-parse", "--verify", "--quiet", "refs/heads/"+w.Branch)
	return err == nil && tip != w.start
}

// attach brings a HEAD that is detached back to the worktree's branch, or else removing the worktree would lose what
// is committed there. The files and the index stay as they are. It returns the branch that is checked out then, if any.
func (w *Worktree) attach(ctx context.Context) (branch string, err error) {
	ref := "refs/heads/" + w.Branch
	if current, err := run(ctx, w.environ, w.Dir, "symbolic-ref", "--quiet", "HEAD"); err == nil {
		return strings.TrimPrefix(current, "refs/heads/"), nil
	}
	if _, err := run(ctx, w.environ, w.Dir, "merge-base", "--is-ancestor", ref, "HEAD"); err == nil {
		if _, err := run(ctx, w.environ, w.Dir, "update-ref", ref, "HEAD"); err != nil {
			return "", err
		}
		_, err := run(ctx, w.environ, w.Dir, "symbolic-ref", "HEAD", ref)
		return w.Branch, err
	}
	status, err := run(ctx, w.environ, w.Dir, "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return "", err
	}
	if _, err := run(ctx, w.environ, w.Dir, "merge-base", "--is-ancestor", "HEAD", ref); err != nil || status != "" {
		return "", fmt.Errorf("HEAD is not on a branch, and what is there is not on %s: make a branch of it first", w.Branch)
	}
	return "", nil
}

// Close removes the worktree and its branch if nothing changed in it; kept says what did change.
func (w *Worktree) Close(ctx context.Context) (kept string, err error) {
	if kept, err = w.Changed(ctx); kept != "" || err != nil {
		return kept, err
	}
	return "", w.remove(ctx, true)
}

// Left says where the work in a worktree is, for results of [Worktree.Close]; "": there is none.
func (w *Worktree) Left(kept string, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("the worktree %s stays: %v", w.Dir, err)
	case kept != "":
		return fmt.Sprintf("the worktree %s, branch %s, has %s", w.Dir, w.Branch, kept)
	}
	return ""
}

// remove removes the worktree, and its branch if that is set.
func (w *Worktree) remove(ctx context.Context, branch bool) error {
	if _, err := run(ctx, w.environ, w.Root, "worktree", "remove", w.Dir); err != nil {
		return err
	}
	removeEmpty(w)
	if !branch {
		return nil
	}
	_, err := run(ctx, w.environ, w.Root, "branch", "--quiet", "-D", w.Branch)
	return err
}

// removeEmpty removes the directories above a worktree that is gone, unless there are others.
func removeEmpty(w *Worktree) {
	for dir := filepath.Dir(w.Dir); dir != filepath.Dir(w.Root) && os.Remove(dir) == nil; {
		dir = filepath.Dir(dir)
	}
}

// Commit commits everything in the worktree that is not ignored, and removes the worktree. The branch stays if there is
// anything on it, which kept reports; w.Branch is then the one that was checked out. The worktree stays, with its
// branch, if there is anything in it that git ignores, see [Worktree.Ignored], and on an error.
func (w *Worktree) Commit(ctx context.Context, message string) (kept bool, ignored []string, err error) {
	kept, err = w.commit(ctx, message)
	if err == nil {
		ignored, err = w.Ignored(ctx)
	}
	if err != nil || len(ignored) > 0 {
		return true, ignored, err
	}
	return kept, nil, w.remove(ctx, !kept)
}

func (w *Worktree) commit(ctx context.Context, message string) (kept bool, err error) {
	branch, err := w.attach(ctx)
	if err != nil {
		return true, err
	}
	if _, err := run(ctx, w.environ, w.Dir, "add", "--all"); err != nil {
		return true, err
	}
	if _, err := run(ctx, w.environ, w.Dir, "diff", "--cached", "--quiet"); err != nil { // there are changes
		// Unsigned, whatever is configured: the signature would be the user's, and a program that the repository names must
		// not sign, nor make the commit fail.
		args := []string{"commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message", message}
		if who, err := run(ctx, w.environ, w.Dir, "config", "user.email"); err != nil || who == "" {
			args = append([]string{"-c", "user.name=knack", "-c", "user.email=knack@localhost"}, args...)
		}
		if _, err := run(ctx, w.environ, w.Dir, args...); err != nil {
			return true, err
		}
	}
	head, err := run(ctx, w.environ, w.Dir, "rev-parse", "HEAD")
	if err != nil {
		return true, err
	}
	kept = head != w.start || w.branchMoved(ctx)
	if branch != "" && head != w.start {
		w.Branch = branch
	}
	return kept, nil
}

// patience limits a question to git, which a pipe in the place of a branch would make wait for ever.
var patience = time.Minute

// run runs git without the programs that the repository's configuration names, and returns what it prints. git does not
// start where it would write through a link; git status writes the index, too.
func run(ctx context.Context, environ []string, dir string, args ...string) (string, error) {
	if err := unlinked(dir); err != nil {
		return "", err
	}
	limit := patience
	if args[0] == "worktree" || args[0] == "add" || args[0] == "commit" { // these may write a large work tree
		limit *= 10
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	git := permission.NewGit(dir)
	git.Environ = environ
	cmd, err := git.Command(ctx, dir, args...)
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	late := fmt.Errorf("git %s has not ended within %s", args[0], limit)
	defer time.AfterFunc(limit, func() { cancel(late) }).Stop()
	if err := cmd.Run(); err != nil {
		if context.Cause(ctx) == late { // and not the caller's limit
			return "", late
		}
		line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		if line == "" {
			return "", err
		}
		return "", errors.New(line)
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
