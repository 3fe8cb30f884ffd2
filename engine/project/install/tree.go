package install

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/extract"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// Limits of a tree that is installed.
const (
	MaxFiles = 10_000
	MaxBytes = 256 << 20
	maxDepth = 40 // directories, also those that links lead through
	maxLinks = 4
	maxDirs  = MaxFiles
)

// Files are the files of a tree, by path: "sha256:HEX", "sha256:HEX x" for an executable file, or
// "link TARGET".
type Files map[string]string

const (
	hashPrefix = "sha256:"
	linkPrefix = "link "
	executable = " x"
)

// Tree returns one hash of all files.
func (f Files) Tree() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(h, "%q %q\n", name, f[name])
	}
	return hashPrefix + hex.EncodeToString(h.Sum(nil))
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hashPrefix + hex.EncodeToString(s[:])
}

// same compares a file's identity with that in a lock. Windows does not store which files are executable.
func same(got, want string) bool {
	return got == want || runtime.GOOS == "windows" && strings.TrimSuffix(got, executable) == strings.TrimSuffix(want,
		executable)
}

// Drift is how a tree differs from its lock, as sorted paths.
type Drift struct{ Changed, Added, Missing []string }

// IsZero reports whether there is no difference.
func (d Drift) IsZero() bool { return len(d.Changed)+len(d.Added)+len(d.Missing) == 0 }

// String names the first files of each kind.
func (d Drift) String() string {
	var parts []string
	for _, x := range []struct {
		what  string
		names []string
	}{{"changed", d.Changed}, {"added", d.Added}, {"missing", d.Missing}} {
		if len(x.names) == 0 {
			continue
		}
		text := plain.Line(strings.Join(x.names[:min(3, len(x.names))], ", "))
		if more := len(x.names) - 3; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, x.what+": "+text)
	}
	return strings.Join(parts, "; ")
}

// Verify compares a whole tree with f, by content.
func (f Files) Verify(dir string) (Drift, error) {
	now, err := Hash(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Drift{}, err
	}
	return f.Compare(now), nil
}

// Compare returns how other files differ.
func (f Files) Compare(now Files) (d Drift) {
	for name, want := range f {
		if got, ok := now[name]; !ok {
			d.Missing = append(d.Missing, name)
		} else if !same(got, want) {
			d.Changed = append(d.Changed, name)
		}
	}
	for name := range now {
		if _, ok := f[name]; !ok {
			d.Added = append(d.Added, name)
		}
	}
	slices.Sort(d.Changed)
	slices.Sort(d.Added)
	slices.Sort(d.Missing)
	return d
}

// Sum returns one hash of all files and their names, in hexadecimal.
func (f Files) Sum() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(sum, "%q %q\n", name, f[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Hash reads all files of a tree. It does not follow links.
func Hash(dir string) (Files, error) {
	root, err := regular.Root(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	all := Files{}
	size := int64(0)
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return nil
		case len(all) >= MaxFiles:
			return errTooMany
		case e.Type()&fs.ModeSymlink != 0:
			target, err := root.Readlink(filepath.FromSlash(name))
			all[name] = linkPrefix + filepath.ToSlash(target)
			return err
		case !e.Type().IsRegular():
			all[name] = "not a file"
			return nil
		}
		f, err := regular.OpenIn(root, filepath.FromSlash(name))
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		n, err := io.Copy(h, io.LimitReader(f, MaxBytes-size+1))
		if size += n; err == nil && size > MaxBytes {
			err = errTooLarge
		}
		info, serr := f.Stat()
		if err = errors.Join(err, serr); err != nil {
			return err
		}
		all[name] = hashPrefix + hex.EncodeToString(h.Sum(nil))
		if info.Mode()&0o100 != 0 {
			all[name] += executable
		}
		return nil
	})
	return all, err
}

var (
	errTooMany  = fmt.Errorf("more than %d files", MaxFiles)
	errTooLarge = fmt.Errorf("more than %d MiB", MaxBytes>>20)

	errTooManyDirs = fmt.Errorf("more than %d directories", maxDirs)
)

// A writer writes a tree into an empty directory, within the limits.
type writer struct {
	to    *os.Root
	tmp   string // a directory for unfinished files
	files Files
	size  int64
	made  map[string]bool
	seen  map[string]string // names in lower case
	// Skipped are links that lead out of the tree; they are left out.
	skipped []string
	visited int // entries of directories that were copied, through links also several times

	dir *os.Root // the directory of the last file: opening it once is a third of the system calls
	at  string   // its path
}

func newWriter(to *os.Root) *writer {
	return &writer{to: to, files: Files{}, made: map[string]bool{".": true}, seen: map[string]string{}}
}

// claim checks a name and makes its directories.
func (w *writer) claim(name string) error {
	if err := extract.Path(name); err != nil {
		return err
	}
	if len(w.files) >= MaxFiles {
		return errTooMany
	}
	if strings.Count(name, "/") > maxDepth {
		return fmt.Errorf("%s: more than %d directories deep", plain.Line(name[:40]), maxDepth)
	}
	for at := name; at != "."; at = path.Dir(at) {
		key := strings.ToLower(at)
		if other, ok := w.seen[key]; ok && other != at {
			return fmt.Errorf("%q and %q are one file on some systems", other, at)
		}
		w.seen[key] = at
	}
	if _, ok := w.files[name]; ok {
		return fmt.Errorf("%q appears twice", name)
	}
	return w.mkdir(path.Dir(name))
}

func (w *writer) mkdir(dir string) error {
	if w.made[dir] {
		return nil
	}
	if err := w.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	if len(w.made) > maxDirs {
		return errTooManyDirs
	}
	w.made[dir] = true
	return w.to.Mkdir(filepath.FromSlash(dir), 0o700)
}

// file writes one file.
func (w *writer) file(name string, r io.Reader, script bool) error {
	if err := w.claim(name); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if script {
		mode = 0o700
	}
	if dir := path.Dir(name); w.dir == nil || w.at != dir {
		w.Close()
		root, err := regular.RootIn(w.to, filepath.FromSlash(dir))
		if err != nil {
			return err
		}
		w.dir, w.at = root, dir
	}
	out, err := w.dir.OpenFile(path.Base(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(r, MaxBytes-w.size+1))
	if w.size += n; err == nil && w.size > MaxBytes {
		err = errTooLarge
	}
	w.files[name] = hashPrefix + hex.EncodeToString(h.Sum(nil))
	if script {
		w.files[name] += executable
	}
	return errors.Join(err, out.Close())
}

// Close ends writing.
func (w *writer) Close() error {
	if w.dir == nil {
		return nil
	}
	err := w.dir.Close()
	w.dir = nil
	return err
}

// link writes a link to a path inside the tree, and leaves out one that leads elsewhere. A ".." after a name may be
// that of another link's target, anywhere.
func (w *writer) link(name, target string) error {
	target = filepath.ToSlash(target)
	_, after, _ := strings.Cut(strings.TrimLeft(target, "./"), "/")
	to := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || strings.ContainsAny(target, "\\\x00:") || !fs.ValidPath(to) || to == "." ||
		slices.Contains(strings.Split(after, "/"), "..") ||
		strings.HasPrefix(name+"/", to+"/") {
		w.skipped = append(w.skipped, name)
		return nil
	}
	if err := w.claim(name); err != nil {
		return err
	}
	if err := w.to.Symlink(filepath.FromSlash(target), filepath.FromSlash(name)); err != nil {
		return err
	}
	w.files[name] = linkPrefix + target
	return nil
}

// copyTree copies the directory dir of from. A link that leaves dir but stays in from is replaced by what it leads to.
func (w *writer) copyTree(from *os.Root, dir string) error {
	return w.copyDir(from, dir, ".", 0, 0)
}

// copyDir copies a directory below to. links is how many links led to it.
func (w *writer) copyDir(from *os.Root, dir, to string, depth, links int) error {
	if links > maxLinks {
		return fmt.Errorf("%s: links lead through more than %d directories", plain.Line(dir), maxLinks)
	}
	if depth > maxDepth {
		return fmt.Errorf("%s: more than %d directories deep", plain.Line(dir), maxDepth)
	}
	here, err := regular.RootIn(from, filepath.FromSlash(dir))
	if err != nil {
		return err
	}
	defer here.Close()
	entries, err := fs.ReadDir(here.FS(), ".")
	if err != nil {
		return err
	}
	if w.visited += len(entries) + 1; w.visited > MaxFiles+maxDirs {
		return errTooManyDirs
	}
	for _, e := range entries {
		name, out := path.Join(dir, e.Name()), path.Join(to, e.Name())
		if e.Name() == ".git" {
			continue
		}
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			target, err := from.Readlink(filepath.FromSlash(name))
			if err != nil {
				return err
			}
			inside := path.Join(path.Dir(out), filepath.ToSlash(target))
			if !filepath.IsAbs(target) && fs.ValidPath(inside) {
				if err := w.link(out, target); err != nil {
					return err
				}
				continue
			}
			info, err := from.Stat(filepath.FromSlash(name))
			if err != nil { // it leads out of from, or nowhere
				w.skipped = append(w.skipped, out)
				continue
			}
			mode = info.Mode().Type()
		}
		through := links
		if e.Type()&fs.ModeSymlink != 0 {
			through++
		}
		switch {
		case mode.IsDir():
			err = w.copyDir(from, name, out, depth+1, through)
		case e.Type().IsRegular():
			err = w.copyFile(here, e.Name(), out)
		case mode.IsRegular():
			err = w.copyFile(from, filepath.FromSlash(name), out)
		default:
			err = fmt.Errorf("%s is a pipe or a device", plain.Line(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) copyFile(from *os.Root, name, to string) error {
	f, err := regular.OpenIn(from, filepath.FromSlash(name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.file(to, f, info.Mode()&0o100 != 0)
}
