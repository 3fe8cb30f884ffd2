package checkpoint

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// Permission bits and directories, of which git knows next to nothing: of a file whether it is executable, of a
// directory only that there are files in it. What a step finds of them before it begins is compared with what it finds
// at its end.

// bits are the permission bits of tracked files, and the directories of a tree.
type bits struct {
	root    string // of another worktree; "": the tree
	tracked *tracked
	modes   []uint16               // of the same files; 0: there is no regular file, or the system has no bits
	dirs    map[string]fs.FileMode // names in the journal, with fs.ModeDir; without what is ignored or passed over
}

// isFile marks a mode of a file that is there.
const isFile = 1 << 15

// tracked are the files that an index names.
type tracked struct {
	paths    []string            // sorted
	children map[string][]string // the names of directories by the directory that they are in
}

// A dirChange is what happened to a directory; 0 means that there is none.
type dirChange struct {
	Path   string      `json:"path"`
	Before fs.FileMode `json:"before,omitempty"`
	After  fs.FileMode `json:"after,omitempty"`
}

// lookedAt is what lookAtTracked has found.
type lookedAt struct {
	bits *bits
	err  error
}

// lookAtTracked returns the bits of the files in a copy of git's index, which are listed once for each copy.
func (j *Journal) lookAtTracked(ctx context.Context, t Tree, index string, before *bits) lookedAt {
	b := &bits{}
	if t.Root != j.tree.Root {
		b.root = t.Root
	}
	if c := j.indexes[t.Root]; c != nil && c.name == index {
		b.tracked = c.tracked
	}
	if before != nil {
		b.tracked = before.tracked
	}
	if b.tracked == nil {
		out, err := t.Git(ctx, []string{"GIT_INDEX_FILE=" + filepath.Join(j.dir, index)}, nil, "ls-files", "-z")
		if err != nil {
			return lookedAt{b, err}
		}
		b.tracked = listTracked(string(out))
		if c := j.indexes[t.Root]; c != nil && c.name == index {
			c.tracked = b.tracked
		}
	}
	b.modes = fileModes(t.Root, b.tracked.paths)
	return lookedAt{b, nil}
}

func listTracked(out string) *tracked {
	t := &tracked{children: map[string][]string{}}
	if out == "" {
		return t
	}
	t.paths = strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	known := map[string]bool{".": true}
	for _, p := range t.paths {
		for dir := path.Dir(p); !known[dir]; dir = path.Dir(dir) {
			known[dir] = true
			t.children[path.Dir(dir)] = append(t.children[path.Dir(dir)], path.Base(dir))
		}
	}
	return t
}

// of returns a file with the permission bits that it had, if its state is git's.
func (b *bits) of(f file) state {
	if b == nil || b.modes == nil || f.State.Kind != regular || f.State.Blob == "" {
		return f.State
	}
	name := f.Path
	if b.root != "" {
		if rel, err := filepath.Rel(b.root, name); err == nil {
			name = filepath.ToSlash(rel)
		}
	}
	if i, ok := slices.BinarySearch(b.tracked.paths, name); ok && b.modes[i] != 0 {
		f.State.Mode, f.State.Bits = modeOf(b.modes[i]), true
	}
	return f.State
}

// modeOf returns the mode that bits of a system stand for.
func modeOf(bits uint16) fs.FileMode {
	mode := fs.FileMode(bits) & fs.ModePerm
	for i, m := range [...]fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if bits&(0o1000<<i) != 0 {
			mode |= m
		}
	}
	return mode
}

// chmods returns the tracked files that have other permission bits after a step, and those that git does not see any
// more because a link to itself is in the place of their directory.
func (j *Journal) chmods(ctx context.Context, t Tree, r stepRecord, after *bits) (all []file, err error) {
	if r.bits == nil || len(r.bits.modes) != len(after.modes) {
		return nil, nil
	}
	other := map[string]bool{}
	for i, mode := range r.bits.modes {
		name := after.tracked.paths[i]
		if now := after.modes[i]; mode != now && mode != 0 && (now != 0 || isLoop(filepath.Join(t.Root, name))) {
			other[name] = true
		}
	}
	if len(other) == 0 {
		return nil, nil
	}
	out, err := t.Git(ctx, []string{"GIT_INDEX_FILE=" + filepath.Join(j.dir, r.Index)}, nil, "ls-files", "--stage", "-z")
	for line := range strings.SplitSeq(string(out), "\x00") { // MODE ID STAGE\tPATH
		about, name, _ := strings.Cut(line, "\t")
		if words := strings.Fields(about); len(words) == 3 && words[2] == "0" && other[name] {
			all = append(all, file{j.nameIn(t, name), blobState(words[0], words[1])})
		}
	}
	return all, err
}

// isLoop reports whether a path leads through a link that leads to itself.
func isLoop(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, syscall.ELOOP)
}

// keepBits writes down what a step has found before it began, and returns the name of the file.
func (j *Journal) keepBits(t Tree, b *bits) (string, error) {
	c := j.indexes[t.Root]
	if c == nil {
		c = &indexCopy{}
		j.indexes[t.Root] = c
	}
	if c.bits != nil && c.bits.tracked == b.tracked && slices.Equal(c.bits.modes, b.modes) &&
		maps.Equal(c.bits.dirs, b.dirs) {
		return c.kept, nil
	}
	if err := errors.Join(j.share(), os.MkdirAll(j.dir, 0o700)); err != nil {
		return "", storeError(err)
	}
	name := "bits-" + strconv.Itoa(j.steps+1)
	f, err := os.OpenFile(filepath.Join(j.dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", storeError(err)
	}
	if err := errors.Join(gob.NewEncoder(f).Encode(keptBits{b.modes, b.dirs}), f.Close()); err != nil {
		return "", storeError(err)
	}
	c.bits, c.kept = b, name
	return name, nil
}

// keptBits is what a file with bits has: the paths of the files are in the copy of git's index.
type keptBits struct {
	Modes []uint16
	Dirs  map[string]fs.FileMode
}

// readBits reads what a step of an earlier process has found before it began. Without it, the step is compared with
// what git knows.
func (j *Journal) readBits(ctx context.Context, r *stepRecord) {
	f, err := os.Open(filepath.Join(j.dir, r.Bits))
	if r.Bits == "" || err != nil {
		return
	}
	defer f.Close()
	var k keptBits
	if gob.NewDecoder(f).Decode(&k) != nil {
		return
	}
	b := &bits{tracked: &tracked{}, modes: k.Modes, dirs: k.Dirs}
	if t, err := j.treeOf(*r); err == nil && t.Git != nil {
		now := j.lookAtTracked(ctx, t, r.Index, nil)
		if now.err != nil || len(now.bits.modes) != len(k.Modes) {
			return
		}
		b.root, b.tracked = now.bits.root, now.bits.tracked
	}
	r.bits = b
}

// directories calls yield for the directories below a root, except those in closed, with their bits. known has the
// directories with tracked files. A directory is only read if it contains others than these, which its number of links
// shows on systems that count them.
func directories(ctx context.Context, root string, known map[string][]string, closed map[string]bool,
	yield func(dir string, mode fs.FileMode)) {
	var visit func(dir string, subdirs int)
	visit = func(dir string, subdirs int) {
		type child struct {
			name    string
			mode    fs.FileMode
			subdirs int
		}
		var children []child
		look := func(base string) {
			if name := path.Join(dir, base); base != ".git" && !closed[name] {
				if mode, n := dirBits(filepath.Join(root, filepath.FromSlash(name))); mode != 0 {
					children = append(children, child{name, mode, n})
				}
			}
		}
		for _, base := range known[dir] {
			look(base)
		}
		if subdirs != len(children) {
			children = nil
			entries, _ := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir))) // what cannot be read stays unknown
			for _, e := range entries {
				if e.IsDir() {
					look(e.Name())
				}
			}
		}
		for _, c := range children {
			if ctx.Err() != nil {
				return
			}
			yield(c.name, c.mode)
			visit(c.name, c.subdirs)
		}
	}
	visit(".", -1)
}

// dirMode returns the permission bits of a directory, with fs.ModeDir; 0: there is none.
func (j *Journal) dirMode(name string) fs.FileMode {
	mode, _ := dirBits(j.absolute(name))
	return mode
}

// missing adds to dirs those that a file needs and that are not there.
func (j *Journal) missing(dirs map[string]fs.FileMode, name string) {
	for dir := parent(name); dir != "" && j.dirMode(dir) == 0; dir = parent(dir) {
		dirs[dir] = 0
	}
}

// parent returns the directory that a path of the journal is in; "": the root of the tree, or of the file system.
func parent(name string) string {
	dir := path.Dir(name)
	if filepath.IsAbs(name) {
		dir = filepath.Dir(name)
	}
	if dir == "." || dir == name {
		return ""
	}
	return dir
}

// dirChanges compares the directories of a step with what they were before. after is nil if the step names its files.
func (j *Journal) dirChanges(r stepRecord, after *bits) (all []dirChange) {
	was := r.Dirs
	if after != nil {
		if r.bits == nil {
			return nil
		}
		was = r.bits.dirs
	}
	for name, before := range was {
		now := fs.FileMode(0)
		if after != nil {
			now = after.dirs[name]
		}
		if now = cmp.Or(now, j.dirMode(name)); now != before {
			all = append(all, dirChange{name, before, now})
		}
	}
	if after != nil {
		for name, now := range after.dirs {
			if _, ok := was[name]; !ok && !r.unknown(name) {
				all = append(all, dirChange{name, 0, now})
			}
		}
	}
	order.Stable(all, func(a, b dirChange) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// unknown reports whether it is not known if a directory was there before the step.
func (r stepRecord) unknown(dir string) bool {
	return covers(r.ignored, dir) || covers(r.ignored, dir+"/") || r.passedOver(dir) || r.passedOver(dir+"/")
}
