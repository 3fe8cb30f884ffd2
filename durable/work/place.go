package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A place is where a run works.
type place struct {
	dir    string
	tree   *worktree.Worktree // nil: none
	copy   string             // the directory of a copy, which has dir in it; "": the place is no copy
	stamps string             // the file with the stamps of the copy
}

// dirOf returns the directory that a task names, and how it lies below that of its batch; "": it does not.
func dirOf(l batch.Lease) (dir, below string) {
	dir = l.Batch.Dir
	if d := l.Run.Task.Dir; filepath.IsAbs(d) {
		dir = d
	} else if d != "" {
		dir = filepath.Join(dir, d)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir, ""
	}
	if rel, err := filepath.Rel(l.Batch.Dir, real); err == nil && filepath.IsLocal(rel) {
		below = rel
	}
	return dir, below
}

// prepare makes the place of a run, or finds the one that an earlier attempt of the same round made.
func (w *worker) prepare(ctx context.Context, l batch.Lease) (p place, err error) {
	dir, below := dirOf(l)
	info, err := os.Stat(dir)
	if err != nil {
		return p, fmt.Errorf("its directory is gone: %w", err)
	}
	if !info.IsDir() {
		return p, fmt.Errorf("%s is no directory", dir)
	}
	switch l.Batch.Isolation {
	case batch.IsolationWorktree:
		return w.worktree(ctx, l, dir)
	case batch.IsolationCopy:
		from := dir
		if below != "" { // a copy in the directory of the batch would be a change of it
			from = l.Batch.Dir
		}
		if filepath.Dir(from) == from {
			return p, errors.New("the root of the file system is not copied")
		}
		// Not in the state directory, in which runs may not write.
		p.copy = filepath.Join(from+gitfile.CopiesSuffix, filepath.FromSlash(BranchName(l.Batch, l.Run)))
		p.dir = filepath.Join(p.copy, below)
		p.stamps = filepath.Join(w.State, "copies", SessionID(l.Run)+".json")
		if err := worktree.NoLinks(from, p.dir); err != nil { // left by an earlier attempt
			return p, err
		}
		if err := w.copy(ctx, p, from); err != nil {
			return p, err
		}
		if _, err := os.Stat(p.dir); err != nil {
			return p, fmt.Errorf("its directory is ignored, and not in the copy: %w", err)
		}
		return p, nil
	}
	p.dir = dir
	return p, nil
}

// name turns any text into a part of a branch name. Different texts have different names, also where case does not
// count.
func name(s string) string {
	clean := regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(s, "-")
	clean = strings.TrimLeft(clean, "-")
	if clean == strings.ToLower(s) && len(s) <= 40 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return strings.TrimSuffix(clean[:min(len(clean), 32)], "-") + "-" + hex.EncodeToString(sum[:3])
}

// BranchName returns the name of the worktree of a run, without the prefix of branches.
func BranchName(b batch.Batch, r batch.Run) string {
	item := name(r.Key)
	if r.Round > 0 {
		item += "-again" + strconv.Itoa(r.Round)
	}
	return b.ID + "/" + strings.TrimLeft(item, "-")
}

func (w *worker) worktree(ctx context.Context, l batch.Lease, dir string) (p place, err error) {
	w.git.Lock()
	defer w.git.Unlock()
	name := BranchName(l.Batch, l.Run)
	var t *worktree.Worktree
	for try := 0; ; try++ {
		if t, err = worktree.Open(ctx, w.Environ, dir, name); err == nil {
			break
		}
		if t, err = worktree.Add(ctx, w.Environ, dir, name, w.Include...); err == nil {
			break
		}
		if try == 5 || ctx.Err() != nil {
			return p, err
		}
		time.Sleep(pause) // another program has locked the repository
	}
	p.tree = t
	if w.Trust != nil {
		if err := w.Trust(t.Dir, t.Root); err != nil {
			return p, err
		}
	}
	p.dir, err = t.Below(dir)
	return p, err
}

// keepChanges commits what an ended run has changed in its worktree, and removes a worktree or copy without changes.
func (w *worker) keepChanges(ctx context.Context, l batch.Lease, p place, end *batch.End) error {
	if end.State == batch.Waiting || end.State == batch.Ready {
		return nil // it goes on
	}
	switch {
	case p.tree != nil:
		w.git.Lock()
		defer w.git.Unlock()
		kept, ignored, err := p.tree.Commit(ctx, fmt.Sprintf("%s: %s\n\nLeft by run %s (%s).", l.Batch.Name, l.Run.Key, l.Run.ID,
			end.State))
		if kept {
			end.Branch = p.tree.Branch
		}
		if err == nil && len(ignored) == 0 {
			end.Dir = ""
		}
		end.Ignored = ignored
		return err
	case p.copy != "":
		same, err := unchanged(p)
		if err != nil || !same {
			return err
		}
		end.Dir = ""
		err = errors.Join(os.RemoveAll(p.copy), os.Remove(p.stamps))
		for _, dir := range []string{filepath.Dir(p.copy), filepath.Dir(filepath.Dir(p.copy))} {
			_ = os.Remove(dir) // fails while there are others
		}
		return err
	}
	return nil
}

// A stamp is the size, time and mode of a file right after it was copied: it shows whether a run has changed it.
type stamp struct {
	Size int64
	Time time.Time
	Mode fs.FileMode
}

// copy copies a directory without its ignored files, unless that is done already. An interrupted copy starts over.
func (w *worker) copy(ctx context.Context, p place, from string) error {
	if _, err := os.Stat(p.stamps); err == nil {
		return nil
	}
	if err := errors.Join(os.RemoveAll(p.copy), os.MkdirAll(filepath.Dir(p.stamps), 0o700)); err != nil {
		return err
	}
	all := map[string]stamp{}
	if err := copyTree(ctx, from, p.copy, "", ignore.New(os.DirFS(from)).Root(), w.State, all); err != nil {
		return err
	}
	if w.Trust != nil {
		if err := w.Trust(p.copy, from); err != nil {
			return err
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(p.stamps, data, 0o600)
}

func copyTree(ctx context.Context, from, to, rel string, rules *ignore.Dir, except string, all map[string]stamp) error {
	entries, err := os.ReadDir(filepath.Join(from, rel))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, rel), 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := filepath.Join(rel, e.Name())
		src, dst := filepath.Join(from, path), filepath.Join(to, path)
		if e.Name() == ".git" || src == except || rules.Match(e.Name(), e.IsDir()) {
			continue
		}
		switch {
		case e.IsDir():
			below, err := os.ReadDir(src)
			if err != nil {
				return err
			}
			if err := copyTree(ctx, from, to, path, rules.Enter(e.Name(), below), except, all); err != nil {
				return err
			}
			continue
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(src)
			if err != nil {
				return err
			}
			if err := os.Symlink(target, dst); err != nil {
				return err
			}
		case e.Type().IsRegular():
			if err := copyFile(src, dst); err != nil {
				return err
			}
		default:
			continue // sockets, pipes and devices
		}
		if all[path], err = stampOf(dst); err != nil {
			return err
		}
	}
	return nil
}

func stampOf(path string) (stamp, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.Size(), info.ModTime(), info.Mode()}, nil
}

func copyFile(src, dst string) error {
	in, err := regular.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// unchanged reports whether a copy is as it was made.
func unchanged(p place) (bool, error) {
	data, err := os.ReadFile(p.stamps)
	if err != nil {
		return false, err
	}
	var all map[string]stamp
	if err := json.Unmarshal(data, &all); err != nil {
		return false, err
	}
	same := true
	err = filepath.WalkDir(p.copy, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(p.copy, path)
		if err != nil {
			return err
		}
		now, err := stampOf(path)
		was, ok := all[rel]
		if err != nil || !ok || now.Size != was.Size || now.Mode != was.Mode || !now.Time.Equal(was.Time) {
			same = false
			return fs.SkipAll
		}
		delete(all, rel)
		return nil
	})
	return same && len(all) == 0, err
}
