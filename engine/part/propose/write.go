package propose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/extract"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/agent"
)

// check looks at the skill as it would be, in a directory that is removed again.
func (l live) check(ctx context.Context, c *change) error {
	var before []extract.File
	had := map[knack.Code]bool{}
	if c.skill != nil {
		_, problems := knack.Check(ctx, c.skill.Dir)
		for _, p := range problems {
			had[p.Code] = true
		}
		var err error
		if before, err = filesOf(c.skill.Dir); err != nil {
			return err
		}
	}
	after := slices.Clone(before)
	for _, f := range c.files {
		after = slices.DeleteFunc(after, func(x extract.File) bool { return x.Path == f.name })
		after = append(after, extract.File{Path: f.name, Data: []byte(f.now)})
	}
	err := l.staged(c.name, after, func(dir string) error { return c.inspect(ctx, dir, had) })
	if err != nil {
		return err
	}
	return l.try(ctx, c, before, after)
}

// staged calls use with a directory that has files while it runs.
func (l live) staged(name string, files []extract.File, use func(dir string) error) error {
	base := l.Project().Env().StateDir()
	if base == "" {
		base = os.TempDir()
	}
	top, root, err := extract.Make(base, "proposed")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	defer root.Close()
	if err := extract.Files(root, name, files); err != nil {
		return err
	}
	return use(filepath.Join(top, name))
}

// inspect reads the skill as it would be. had are the problems that it has now.
func (c *change) inspect(ctx context.Context, dir string, had map[knack.Code]bool) error {
	k, problems := knack.Check(ctx, dir)
	for _, p := range problems {
		if p.Severity == knack.Error && !had[p.Code] {
			return fmt.Errorf("it would be no valid skill: %s", strings.ReplaceAll(p.Message, dir, "."))
		}
	}
	if k == nil {
		return errors.New("it would be no skill")
	}
	asks, err := k.Asks(ctx)
	c.asks = agent.DescribeAsks(asks)
	return err
}

// try says how the program's search finds the skill by its queries, before and after.
func (l live) try(ctx context.Context, c *change, before, after []extract.File) error {
	c.cases = slices.ContainsFunc(after, func(f extract.File) bool { return f.Path == "evals/evals.json" })
	evals := func(f extract.File) bool { return strings.HasPrefix(f.Path, "evals/") }
	if l.measure == nil || !slices.ContainsFunc(after, evals) {
		return nil
	}
	var found [2]string
	for i, files := range [][]extract.File{before, after} {
		if len(files) == 0 {
			found[i] = "there is none"
			continue
		}
		err := l.staged(c.name, files, func(dir string) (err error) {
			found[i], err = l.measure(ctx, dir, l.Catalog().Skills())
			return err
		})
		if err != nil {
			return err
		}
	}
	if found[1] != "" {
		c.tried = "Found, before: " + found[0] + ".\nFound, after: " + found[1] + "."
	}
	return nil
}

// filesOf returns the files of a skill. One with links is not changed.
func filesOf(dir string) (all []extract.File, err error) {
	hashes, err := install.Hash(dir)
	if err != nil {
		return nil, err
	}
	root, err := regular.Root(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	size := 0
	for name := range hashes {
		data, err := regular.ReadIn(root, filepath.FromSlash(name), maxSkill)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if size += len(data); size > maxSkill {
			return nil, fmt.Errorf("the skill is larger than %s", plain.Bytes(maxSkill))
		}
		all = append(all, extract.File{Path: name, Data: data})
	}
	return all, nil
}

// write writes what the user saw. No link at a file or above it is followed, and a file that has changed meanwhile, or
// is there now, is an error.
func (c *change) write(to place) error {
	if err := os.MkdirAll(to.base, 0o755); err != nil { // of the user: the project is there
		return err
	}
	for _, f := range c.files {
		if err := outfile.Check(to.base, filepath.Join(to.dir, filepath.FromSlash(f.name))); err != nil {
			return err
		}
	}
	if c.skill == nil {
		return c.create(to)
	}
	if c.store != nil {
		drift, err := c.locked.Verify(to.dir)
		if err != nil {
			return err
		}
		if !drift.IsZero() {
			return errors.New("its files are not those that were installed: knack skill diff " + c.name)
		}
	}
	for _, f := range c.files {
		if err := f.write(to); err != nil {
			return err
		}
	}
	if c.store == nil {
		return nil
	}
	return c.lock(to.dir)
}

// create makes a new skill. One that is there is an error.
func (c *change) create(to place) error {
	root, err := outfile.Dir(to.base, filepath.Dir(to.dir), 0o755)
	if err != nil {
		return err
	}
	defer root.Close()
	var files []extract.File
	for _, f := range c.files {
		files = append(files, extract.File{Path: f.name, Data: []byte(f.now), Script: strings.HasPrefix(f.now, "#!")})
	}
	if err := extract.Files(root, filepath.Base(to.dir), files); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already", to.dir)
	} else if err != nil {
		return err
	}
	return nil
}

// write writes one file of a skill that exists.
func (f file) write(to place) error {
	path := filepath.Join(to.dir, filepath.FromSlash(f.name))
	if f.isNew {
		if err := outfile.Mkdir(to.base, filepath.Dir(path), 0o755); err != nil {
			return err
		}
		perm := fs.FileMode(0o644)
		if strings.HasPrefix(f.now, "#!") {
			perm = 0o755
		}
		return outfile.Write(to.base, path, []byte(f.now), perm, false)
	}
	return outfile.Update(to.base, path, 0o644, func(again []byte) ([]byte, error) {
		if string(again) != f.old {
			return nil, fmt.Errorf("%s has changed meanwhile", f.name)
		}
		return []byte(f.now), nil
	})
}

// lock records the new files in the lock, if nothing else has changed.
func (c *change) lock(dir string) error {
	now, err := install.Hash(dir)
	if err != nil {
		return err
	}
	drift := c.locked.Compare(now)
	for _, name := range slices.Concat(drift.Changed, drift.Added, drift.Missing) {
		if c.at(name) < 0 {
			return fmt.Errorf("%s has changed meanwhile: knack skill diff %s", name, c.name)
		}
	}
	return c.store.Accept(c.name, now.Tree())
}
