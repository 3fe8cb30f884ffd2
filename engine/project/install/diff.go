package install

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// maxDiff is the size in bytes of files that are compared line by line.
const maxDiff = 256 << 10

// original is an archive of a tree as it was installed, for showing what changed. It is never used for anything else,
// and one file is written much faster than as many as the tree has.
func (s *Store) original(it *Item) string {
	return filepath.Join(s.Dir, filepath.FromSlash(placeOf(it)), "originals", strings.TrimPrefix(it.Tree, hashPrefix)[:16]+".zip")
}

// keepOriginal archives an installed tree. top is a directory for the unfinished file.
func (s *Store) keepOriginal(it *Item, top string) (err error) {
	to := s.original(it)
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	root, err := regular.Root(s.Path(it))
	if err != nil {
		return err
	}
	defer root.Close()
	out, err := os.Create(filepath.Join(top, "original.zip"))
	if err != nil {
		return err
	}
	z := zip.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(it.Files)) {
		data, err := regular.ReadIn(root, filepath.FromSlash(name), maxDiff)
		if err != nil || !isText(data) {
			continue // a link or a file whose lines are not shown
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
	}
	if err := errors.Join(z.Close(), out.Close()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

// isText reports whether the lines of a file are compared.
func isText(data []byte) bool { return len(data) <= maxDiff && utf8.Valid(data) }

// A Difference is how an installed tree differs from its lock.
type Difference struct {
	Drift
	Tree string // the hash of the tree as it is now, for Accept
	Text string // a unified diff; untrusted
}

// Diff compares an installed tree, or in its place another one in dir, with its lock.
func (s *Store) Diff(it *Item, dir string) (Difference, error) {
	var d Difference
	dir = cmp.Or(dir, s.Path(it))
	now, err := Hash(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	d.Tree = now.Tree()
	if d.Drift = it.Files.Compare(now); d.IsZero() {
		return d, nil
	}
	original, err := zip.OpenReader(s.original(it))
	if err != nil {
		original = new(zip.ReadCloser) // then only the hashes are shown
	} else {
		defer original.Close()
	}
	var installed fs.FS = original // if the directory is missing, no file is read of it
	if root, err := regular.Root(dir); err == nil {
		defer root.Close()
		installed = plugin.FS(root)
	}
	names := slices.Concat(d.Changed, d.Added, d.Missing)
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		before, hadIt := readText(original, name, it.Files[name])
		after, hasIt := readText(installed, name, now[name])
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
func readText(fsys fs.FS, name, want string) (text string, ok bool) {
	if want == "" {
		return "", true
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDiff+1))
	return string(data), err == nil && sum(data) == strings.TrimSuffix(want, executable) && isText(data)
}
