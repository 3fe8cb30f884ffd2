package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// IncludeFile, at the top of a repository, names files that git ignores and that its worktrees need, in the syntax of
// .gitignore. Claude Code and others read it, too. Only files are copied, not links, and nothing that tools make anew.
// A link to the repository's own files would lead out of the worktree, where nothing of a project is read: so files
// that tell agents how to work are copied, too, and never linked.
const IncludeFile = ".worktreeinclude"

// Limits of what is copied: a pattern may match more than its author meant.
const (
	maxIncluded      = 1000
	maxIncludedBytes = 64 << 20
)

// include copies what IncludeFile and patterns name into a worktree that has just been made.
func (w *Worktree) include(ctx context.Context, patterns []string) error {
	names, err := w.included(ctx, patterns)
	if err != nil || len(names) == 0 {
		return err
	}
	if len(names) > maxIncluded {
		return fmt.Errorf("%s or worktree.include names %d files that git ignores: at most %d are copied", IncludeFile,
			len(names), maxIncluded)
	}
	from, err := regular.Root(w.Root)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := regular.Root(w.Dir)
	if err != nil {
		return err
	}
	defer to.Close()
	left := int64(maxIncludedBytes)
	for _, name := range names {
		copied, err := copyFile(from, to, filepath.FromSlash(name), left)
		if errors.As(err, new(regular.TooLargeError)) {
			return fmt.Errorf("%s or worktree.include names more than %d MiB that git ignores, with %s", IncludeFile,
				maxIncludedBytes>>20, plain.Line(name))
		}
		if err != nil {
			return err
		}
		left -= copied
	}
	return nil
}

// included returns the files in the repository's own work tree that git ignores and IncludeFile or patterns name. What
// they name and is not copied is in w.left.
func (w *Worktree) included(ctx context.Context, patterns []string) (names []string, err error) {
	var excludes []string
	file := filepath.Join(w.Root, IncludeFile)
	switch info, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", file)
	default:
		excludes = append(excludes, "--exclude-from="+file)
	}
	for _, p := range patterns {
		excludes = append(excludes, "--exclude="+p)
	}
	if len(excludes) == 0 {
		return nil, nil
	}
	list := func(excludes ...string) ([]string, error) {
		out, err := run(ctx, w.environ, w.Root,
			slices.Concat([]string{"ls-files", "-z", "--others", "--ignored"}, excludes)...)
		return strings.FieldsFunc(out, func(c rune) bool { return c == 0 }), err
	}
	wanted, err := list(excludes...)
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	ignored, err := list("--exclude-standard")
	slices.Sort(ignored)
	for _, name := range wanted {
		_, found := slices.BinarySearch(ignored, name)
		parts := strings.Split(name, "/")
		made := slices.IndexFunc(parts, sandbox.Rebuildable)
		info, missing := os.Lstat(filepath.Join(w.Root, filepath.FromSlash(name)))
		switch {
		case made >= 0:
			w.leave(strings.Join(parts[:made+1], "/"), "tools make it anew")
		case !found:
			w.leave(name, "git does not ignore it, so it may be meant for the next commit")
		case missing != nil: // it has just been removed
		case info.Mode()&fs.ModeSymlink != 0:
			w.leave(name, "a link")
		case !info.Mode().IsRegular():
			w.leave(name, "not a file")
		default:
			names = append(names, name)
		}
	}
	return names, err
}

// leave notes what is named and not copied.
func (w *Worktree) leave(name, why string) {
	if text := plain.Line(name) + " (" + why + ")"; !slices.Contains(w.left, text) {
		w.left = append(w.left, text)
	}
}

// copyFile copies a regular file of at most max bytes, with its permission bits, and returns its size. What is not a
// regular file any more, or exists there, is left alone.
func copyFile(from, to *os.Root, name string, max int64) (int64, error) {
	info, err := from.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0, nil
	}
	data, err := regular.ReadIn(from, name, max)
	if err != nil {
		return 0, err
	}
	if err := to.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return 0, err
	}
	f, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if errors.Is(err, fs.ErrExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	_, err = f.Write(data)
	return info.Size(), errors.Join(err, f.Close())
}

// isCopy reports whether a file of the worktree is as the repository's own work tree has it: nothing is lost with it.
func (w *Worktree) isCopy(name string) bool {
	ours, err1 := os.Lstat(filepath.Join(w.Dir, name))
	theirs, err2 := os.Lstat(filepath.Join(w.Root, name))
	if err1 != nil || err2 != nil || !ours.Mode().IsRegular() || !theirs.Mode().IsRegular() || ours.Size() != theirs.Size() {
		return false
	}
	a, err1 := regular.Read(filepath.Join(w.Dir, name), maxIncludedBytes)
	b, err2 := regular.Read(filepath.Join(w.Root, name), maxIncludedBytes)
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}

// Absent returns the files and directories that tell agents how to work in the repository and that the worktree lacks,
// as git ignores them and nothing names them.
func (w *Worktree) Absent() (names []string) {
	for _, name := range []string{".agents", ".claude", ".knack", ".pi", "AGENTS.md", "AGENTS.override.md", "CLAUDE.md",
		"CLAUDE.local.md"} {
		_, there := os.Lstat(filepath.Join(w.Root, name))
		if _, err := os.Lstat(filepath.Join(w.Dir, name)); there == nil && errors.Is(err, fs.ErrNotExist) {
			names = append(names, name)
		}
	}
	return names
}

// AbsentText says what a worktree lacks ([Worktree.Absent]), how worktrees get it, and what of the files that are named
// was not copied; "": nothing.
func (w *Worktree) AbsentText() string {
	var texts []string
	if names := w.Absent(); len(names) > 0 {
		texts = append(texts, fmt.Sprintf("The worktree does not have %s, which no commit has: worktrees get a copy of what "+
			"%s or the setting worktree.include names.", strings.Join(names, ", "), IncludeFile))
	}
	if len(w.left) > 0 {
		texts = append(texts, "Named for worktrees and not copied: "+plain.List(w.left, 5)+".")
	}
	return strings.Join(texts, " ")
}

// Include copies what patterns name into the worktree, which may have it already.
func (w *Worktree) Include(ctx context.Context, patterns ...string) error {
	return w.include(ctx, patterns)
}
