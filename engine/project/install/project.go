package install

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// projectsDir contains what was installed for one project each, below a Store's directory.
const projectsDir = "projects"

// Project returns the Store of what the user installed for one project alone: its lock and trees are the user's, and
// only sessions of the project use them. root is the project's root; two paths that lead to it have one Store.
func (s *Store) Project(root string) *Store {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	key := sha256.Sum256([]byte(root))
	p := *s
	p.below = projectsDir + "/" + hex.EncodeToString(key[:16])
	p.Lock = filepath.Join(s.Dir, filepath.FromSlash(p.below), LockName)
	p.config = cmp.Or(s.config, filepath.Dir(s.Lock))
	return &p
}

// placeOf returns the part of an item's directory that says which Store it belongs to: projects/KEY, or "" for the
// user's.
func placeOf(it *Item) string {
	if first, rest, _ := strings.Cut(it.Dir, "/"); first == projectsDir {
		key, _, _ := strings.Cut(rest, "/")
		return projectsDir + "/" + key
	}
	return ""
}

// OfProject reports whether an item was installed for one project alone.
func (it *Item) OfProject() bool { return placeOf(it) != "" }

// In returns the lock of what sessions of a project use: what the user installed, and in place of that what was
// installed for the project alone, as long as the project's own lock asks for these files. stale are the names of what
// was installed for the project and is not used because the project's lock names other files, or does not name it.
func (l *Lock) In(own, wanted *Lock) (in *Lock, stale []string) {
	if len(own.Plugins)+len(own.Skills) == 0 {
		return l, nil
	}
	in = &Lock{Version: l.Version, Plugins: maps.Clone(l.Plugins), Skills: maps.Clone(l.Skills)}
	for _, id := range slices.Concat(IDs(own.Plugins), IDs(own.Skills)) {
		it, want, mine := own.Item(id), wanted.Item(id), l.Item(id)
		switch {
		case want != nil && want.Tree == it.Tree:
			in.table(id)[id] = it
		case want == nil || mine == nil || mine.Tree != want.Tree:
			stale = append(stale, id)
		}
	}
	return in, stale
}

// InProject reads the lock of what sessions of a project use, see [Lock.In]. The user's lock is all if nothing was
// installed for the project.
func (s *Store) InProject(root string) (in *Lock, stale []string, err error) {
	mine, err := ReadLock(s.Lock)
	if err != nil || root == "" {
		return mine, nil, err
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, projectsDir)); err != nil {
		return mine, nil, nil // the usual case: nothing was installed for any project
	}
	own, err := ReadLock(s.Project(root).Lock)
	if err != nil || len(own.Plugins)+len(own.Skills) == 0 {
		return mine, nil, err
	}
	wanted, err := ReadLock(SharedLock(root))
	if err != nil {
		wanted = &Lock{} // then it asks for nothing
	}
	in, stale = mine.In(own, wanted)
	return in, stale, nil
}

// SharedLock is the file of the lock that a project shares.
func SharedLock(root string) string { return filepath.Join(root, ".knack", LockName) }

// Share records what is installed in the lock that the project at root shares. A source in the project is recorded by
// its path from the root, so that it can be restored in every copy of the project.
//
// What another program installed cannot be recorded: others do not have it there.
func (s *Store) Share(id, root string) error {
	mine, err := ReadLock(s.Lock)
	if err != nil {
		return err
	}
	it := mine.Item(id)
	if it == nil {
		return errNotInstalled(id)
	}
	if it.Place != "" {
		return errors.New(id + " is in " + it.Place + ", where only this machine has it")
	}
	shared := *it
	shared.Previous, shared.By, shared.Dir = nil, "", strings.TrimPrefix(strings.TrimPrefix(it.Dir, placeOf(it)), "/")
	shared.Source = inProject(it.Source, root)
	if it.From != nil {
		from := inProject(*it.From, root)
		shared.From = &from
	}
	return s.shared(root).update(func(l *Lock) error {
		l.table(id)[id] = &shared
		return nil
	})
}

// Unshare removes an entry of the lock that the project at root shares, if it has it.
func (s *Store) Unshare(id, root string) error {
	lock, err := ReadLock(SharedLock(root))
	if err != nil || lock.Item(id) == nil {
		return err
	}
	return s.shared(root).update(func(l *Lock) error {
		delete(l.table(id), id)
		return nil
	})
}

func (s *Store) shared(root string) *Store {
	return &Store{Dir: s.Dir, Lock: SharedLock(root), project: root}
}

// IsLocal reports whether a source is a path of one machine: a directory, or an archive without an address.
func IsLocal(s plugin.Source) bool {
	return s.Kind == plugin.Path || s.Kind == plugin.Archive && s.URL == ""
}

// inProject makes a path in the project relative to its root.
func inProject(s plugin.Source, root string) plugin.Source {
	if !IsLocal(s) || !filepath.IsAbs(s.Path) {
		return s
	}
	for _, root := range realToo(root) {
		for _, at := range realToo(s.Path) {
			if rel, ok := subpath.Rel(root, at); ok {
				s.Path = filepath.ToSlash(rel)
				return s
			}
		}
	}
	return s
}

// realToo returns a path, and where it leads.
func realToo(path string) []string {
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		return []string{path, real}
	}
	return []string{path}
}

// OnMachine returns a source of a project's lock with the path in the project made absolute. ok is false for a path
// that leads out of it, by its text or by a link: only the machine of whoever recorded it has that.
func OnMachine(s plugin.Source, root string) (on plugin.Source, ok bool) {
	if !IsLocal(s) {
		return s, true
	}
	if !filepath.IsLocal(filepath.FromSlash(s.Path)) {
		return s, false
	}
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return s, false
	}
	at := filepath.Join(root, filepath.FromSlash(s.Path))
	if real, err := filepath.EvalSymlinks(at); err == nil && !subpath.Contains(root, real) {
		return s, false
	}
	s.Path = at
	return s, true
}

// Cached returns the directory of an installed tree with these files, whoever it was installed for and in whichever
// version; "": there is none, or it was changed.
func (s *Store) Cached(want *Item) string {
	locks, _ := filepath.Glob(filepath.Join(s.Dir, projectsDir, "*", LockName)) // the pattern is valid
	for _, file := range append([]string{s.Lock}, locks...) {
		lock, err := ReadLock(file)
		if err != nil {
			continue // the commands that use it say so
		}
		for _, all := range []map[string]*Item{lock.Plugins, lock.Skills} {
			for _, it := range all {
				for ; it != nil; it = it.Previous {
					if it.Tree != want.Tree {
						continue
					}
					if d, err := want.Files.Verify(s.Path(it)); err == nil && d.IsZero() {
						return s.Path(it)
					}
				}
			}
		}
	}
	return ""
}

// Resolve returns the commit to which the branch or tag of a Git source leads now, or that of its default branch. tag
// reports whether it is a tag.
func (s *Store) Resolve(ctx context.Context, g Given) (commit string, tag bool, err error) {
	st, err := s.newStaged()
	if err != nil {
		return "", false, err
	}
	defer st.Close()
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	if !g.Typed {
		if err := g.Check(); err != nil {
			return "", false, err
		}
	}
	r, done, err := s.repository(ctx, g, st.top)
	if err != nil {
		return "", false, err
	}
	defer done()
	want := []string{"HEAD"}
	if g.Ref != "" {
		name := strings.TrimPrefix(strings.TrimPrefix(g.Ref, "refs/tags/"), "refs/heads/")
		want = []string{"refs/tags/" + name + "^{}", "refs/tags/" + name, "refs/heads/" + name}
	}
	out, err := r.git(nil, append([]string{"ls-remote", "--", g.URL}, want...)...)
	if err != nil {
		return "", false, err
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if at, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			found[name] = at
		}
	}
	for _, name := range want {
		if found[name] != "" {
			return found[name], strings.HasPrefix(name, "refs/tags/"), nil
		}
	}
	return "", false, nil
}
