package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// A dirMove is a directory that a restore makes, removes, or gives other permission bits; 0: there is none.
type dirMove struct {
	path       string
	have, want fs.FileMode
}

// dirHistories returns the changes of each directory, in order; the directories are sorted by path.
func dirHistories(ends []endRecord) [][]dirChange {
	byPath := map[string][]dirChange{}
	for _, e := range ends {
		for _, c := range e.Dirs {
			byPath[c.Path] = append(byPath[c.Path], c)
		}
	}
	var all [][]dirChange
	for _, h := range byPath {
		all = append(all, h)
	}
	order.Stable(all, func(a, b []dirChange) int { return strings.Compare(a[0].Path, b[0].Path) })
	return all
}

// planDirs returns what becomes of the directories when files are moved. Those that are not empty then stay.
func (j *Journal) planDirs(ends []endRecord, files []move, o Options, result *Result) (dirs []dirMove) {
	for _, h := range dirHistories(ends) {
		name, want, last := h[0].Path, h[0].Before, h[len(h)-1].After
		if !selectedDir(o, name) {
			continue
		}
		for i := 1; i < len(h) && !o.Force; i++ {
			if h[i-1].After != h[i].Before { // what somebody else made of it in between
				want = h[i].Before
			}
		}
		switch have := j.dirMode(name); {
		case have == want:
		case have == last || want == 0 || o.Force:
			dirs = append(dirs, dirMove{name, have, want})
		case have != 0:
			result.Left = append(result.Left, Left{name + "/", changedSince})
		}
	}
	return j.removable(dirs, files)
}

// selectedDir is selected for a directory: with a file, the directories that it is in are selected.
func selectedDir(o Options, name string) bool {
	return o.Only == nil || slices.ContainsFunc(o.Only, func(p string) bool { return strings.HasPrefix(p, name+"/") })
}

// dirsBack returns what takes back the changes of directories that a restore has made.
func (j *Journal) dirsBack(changes []dirChange, o Options) (dirs []dirMove) {
	for _, c := range changes {
		if have := j.dirMode(c.Path); have != c.Before && (have == c.After || o.Force) {
			dirs = append(dirs, dirMove{c.Path, have, c.Before})
		}
	}
	return dirs
}

// removable leaves out the directories in which something stays that files and dirs do not remove.
func (j *Journal) removable(dirs []dirMove, files []move) []dirMove {
	gone := map[string]bool{}
	for _, m := range files {
		gone[m.path] = m.want.Kind == absent
	}
	kept := slices.Clone(dirs)
	for _, d := range deepestFirst(dirs) {
		if d.want != 0 {
			continue
		}
		entries, err := os.ReadDir(j.absolute(d.path))
		stays := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !gone[j.join(d.path, e.Name())] })
		if gone[d.path] = err == nil && !stays; !gone[d.path] {
			kept = slices.DeleteFunc(kept, func(k dirMove) bool { return k.path == d.path })
		}
	}
	return kept
}

// unblocked returns the files without those in whose place a directory stays, which are named.
func (j *Journal) unblocked(p plan, result *Result) []move {
	goes := map[string]bool{}
	for _, d := range p.dirs {
		goes[d.path] = d.want == 0
	}
	return slices.DeleteFunc(p.files, func(m move) bool {
		stays := m.want.Kind != absent && !goes[m.path] && j.dirMode(m.path) != 0
		if stays {
			result.Left = append(result.Left, Left{m.path, "a directory with other files is there"})
		}
		return stays
	})
}

// join returns the name in the journal of what is in a directory.
func (j *Journal) join(dir, base string) string {
	if filepath.IsAbs(dir) {
		return filepath.Join(dir, base)
	}
	return path.Join(dir, base)
}

// deepestFirst returns directories in an order in which each comes before those that it is in.
func deepestFirst(dirs []dirMove) []dirMove {
	return order.Sorted(dirs, func(a, b dirMove) int { return strings.Compare(b.path, a.path) })
}

// nameDirs returns the changes of directories that those of files do not imply.
func nameDirs(dirs []dirMove, files []FileChange) (all []FileChange) {
	implied := map[FileChange]bool{}
	imply := func(name string, e Effect) {
		for dir := parent(name); dir != "" && !implied[FileChange{dir, e}]; dir = parent(dir) {
			implied[FileChange{dir, e}] = true
		}
	}
	change := func(d dirMove) FileChange {
		switch {
		case d.have == 0:
			return FileChange{d.path, Created}
		case d.want == 0:
			return FileChange{d.path, Removed}
		}
		return FileChange{d.path, Changed}
	}
	for _, f := range files {
		imply(f.Path, f.Effect)
	}
	for _, d := range dirs {
		if c := change(d); c.Effect != Changed {
			imply(c.Path, c.Effect)
		}
	}
	for _, d := range dirs {
		if c := change(d); c.Effect == Changed || !implied[c] {
			all = append(all, FileChange{c.Path + "/", c.Effect})
		}
	}
	return all
}

// openDirs lets the owner change what is in directories whose bits change.
func (j *Journal) openDirs(dirs []dirMove) {
	for _, d := range dirs {
		if d.have != 0 && d.have&0o700 != 0o700 {
			_ = j.inDir(d.path, false, func(root *os.Root, name string) error { return chmodDir(root, name, d.have|0o700) })
		}
	}
}

// moveDirs removes and makes directories, and returns those that it could not make.
func (j *Journal) moveDirs(dirs []dirMove) (left []Left) {
	deepest := deepestFirst(dirs)
	for _, d := range deepest {
		if d.want == 0 {
			// What has something in it stays.
			_ = j.inDir(d.path, false, func(root *os.Root, name string) error { return removeDir(root, name) })
		}
	}
	for _, d := range slices.Backward(deepest) {
		if d.have != 0 || d.want == 0 {
			continue
		}
		err := j.inDir(d.path, true, func(root *os.Root, name string) error { return root.Mkdir(name, d.want.Perm()|0o700) })
		if err != nil && !errors.Is(err, fs.ErrExist) {
			left = append(left, Left{d.path + "/", reason(err).Error()})
		}
	}
	return left
}

// chmodDirs gives directories their bits when everything in them has been moved.
func (j *Journal) chmodDirs(dirs []dirMove) (left []Left) {
	for _, d := range deepestFirst(dirs) {
		if now := j.dirMode(d.path); now == 0 || d.want == 0 || now == d.want {
			continue
		}
		err := j.inDir(d.path, false, func(root *os.Root, name string) error { return chmodDir(root, name, d.want) })
		if err != nil {
			left = append(left, Left{d.path + "/", reason(err).Error()})
		}
	}
	return left
}

// inDir calls f with the directory that a path of the journal is in, which is made if create is set, and the path's
// name there.
func (j *Journal) inDir(name string, create bool, f func(root *os.Root, name string) error) error {
	root, err := j.openDir(name, create)
	if err != nil {
		return err
	}
	defer root.Close()
	return f(root, path.Base(filepath.ToSlash(name)))
}

func removeDir(root *os.Root, name string) error {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() {
		return err
	}
	return root.Remove(name)
}

func chmodDir(root *os.Root, name string, mode fs.FileMode) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("it is no directory any more")
	}
	return root.Chmod(name, mode&^fs.ModeDir|info.Mode()&fs.ModeSetuid)
}
