package install

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// maxDiff is the size in bytes of files that are compared line by line.
const maxDiff = 256 << 10

// original is a copy of a tree as it was installed, for showing what changed. It is never used for anything else.
func (s *Store) original(it *Item) string {
	return filepath.Join(s.Dir, "originals", strings.TrimPrefix(it.Tree, hashPrefix)[:16])
}

// keepOriginal copies an installed tree.
func (s *Store) keepOriginal(it *Item, top string) error {
	to := s.original(it)
	if d, err := it.Files.Verify(to); err == nil && d.IsZero() {
		return nil
	}
	part := filepath.Join(top, "original")
	if err := os.CopyFS(part, os.DirFS(s.Path(it))); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.Rename(part, to)
}

// A Difference is how an installed tree differs from its lock.
type Difference struct {
	Drift
	Tree string // the hash of the tree as it is now, for Accept
	Text string // a unified diff; untrusted
}

// Diff compares an installed tree with its lock.
func (s *Store) Diff(it *Item) (Difference, error) {
	var d Difference
	now, err := Hash(s.Path(it))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	d.Tree = now.Tree()
	if d.Drift, err = it.Files.Verify(s.Path(it)); err != nil || d.IsZero() {
		return d, err
	}
	names := slices.Concat(d.Changed, d.Added, d.Missing)
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		before, hadIt := readText(s.original(it), name, it.Files[name])
		after, hasIt := readText(s.Path(it), name, now[name])
		lines := ""
		if hadIt && hasIt {
			lines = udiff.Unified("a/"+name, "b/"+name, before, after)
		}
		if lines == "" { // not texts, or only the mode differs
			lines = fmt.Sprintf("%s: %s → %s\n", name, cmp.Or(it.Files[name], "nothing"), cmp.Or(now[name], "nothing"))
		}
		b.WriteString(lines)
	}
	d.Text = b.String()
	return d, nil
}

// readText reads a text file whose identity is known. ok is false if it is something else.
func readText(dir, name, want string) (text string, ok bool) {
	if want == "" {
		return "", true
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", false
	}
	defer root.Close()
	data, err := regular.ReadIn(root, filepath.FromSlash(name), maxDiff)
	return string(data), err == nil && sum(data) == strings.TrimSuffix(want, executable) && utf8.Valid(data)
}
