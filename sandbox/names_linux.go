//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/knack-agent/knack/internal/subpath"
)

// maxDirs bounds the directories of a workspace that are watched for
// protected names.
const maxDirs = 2048

// fresh is how near to its last change a directory may have been read and
// still have changed since unnoticed: clocks of file systems are coarse.
const fresh = 50 * time.Millisecond

// skipped are directories in which nobody looks for skills or settings, and
// which are too large to watch.
var skipped = []string{"node_modules", "__pycache__", ".venv", "venv", "target", ".cache", ".tox"}

// names knows the protected names and the .env files of a workspace. It reads
// every directory once and afterwards only those that changed: ctime cannot be
// set back from inside.
type names struct {
	roots     []string // and git directories outside them, resolved
	protected []string
	outer     []string // git directories outside the roots that belong to Dir

	mu      sync.Mutex
	running int // commands
	dirs    map[string]int64
	known   map[string]thing // protected things, by path
	env     map[string]bool
	bare    map[string]bool // directories that git takes for a repository; false: not reported yet
	full    bool            // more than maxDirs
	said    bool            // that it is full
	journal journal

	absent absent
	mounts mountTable
}

// A thing is what a name stands for.
type thing struct {
	dev, ino uint64
	parent   uint64 // inode of the directory
	link     string // where a symbolic link leads
	dir      bool
}

func newNames(p Policy) *names {
	n := &names{protected: p.Protected, dirs: map[string]int64{}, known: map[string]thing{}, env: map[string]bool{},
		bare: map[string]bool{}}
	for _, r := range append([]string{p.Dir}, p.Roots...) {
		if r, err := filepath.EvalSymlinks(r); err == nil && r != "/" {
			n.roots = append(n.roots, r)
		}
	}
	if slices.Contains(p.Protected, ".git") && len(n.roots) > 0 {
		n.outer = outerGit(n.roots[0], p.Home)
	}
	if len(n.roots) > 0 {
		n.journal = newJournal(p.State, n.roots[0])
	}
	return n
}

// What names knows when a command begins.
type present struct {
	things map[string]thing // protected, by path
	env    []string         // .env files
	gits   []string         // git directories to guard
	outer  []string         // those of them that lie outside the roots
	absent *absent
	mounts *mountTable
}

// begin is called before a command.
func (n *names) begin() present {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refresh()
	if n.running == 0 {
		n.journal.begin(n.known)
	}
	n.running++
	return present{maps.Clone(n.known), slices.Sorted(maps.Keys(n.env)), n.gits(n.known), n.outer, &n.absent, &n.mounts}
}

// refresh brings what is known up to date. While a command runs, what is new
// may be its doing: end decides about it.
func (n *names) refresh() {
	found, gone := n.look()
	for path, t := range found {
		if _, ok := n.known[path]; ok || n.running == 0 {
			n.known[path] = t
		}
	}
	if n.running > 0 {
		return
	}
	for _, path := range gone {
		delete(n.known, path)
	}
	for dir := range n.bare {
		n.bare[dir] = true
	}
}

// gits lists the git directories of some protected things: directories named
// .git, what files of that name point to, and outer.
func (n *names) gits(things map[string]thing) []string {
	dirs := slices.Clone(n.outer)
	for path, t := range things {
		if filepath.Base(path) != ".git" || t.link != "" {
			continue
		}
		if t.dir {
			dirs = append(dirs, path)
			continue
		}
		targets := gitPointer(path)
		if len(targets) == 2 && filepath.Dir(targets[0]) == targets[1]+"/worktrees" {
			targets = targets[1:] // guarded with the common directory
		}
		for _, dir := range targets {
			if withinAny(n.roots, dir) && !slices.Contains(n.roots, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// end is called after a command. What appeared under a protected name that was
// not opened is renamed; the result says so.
func (n *names) end(opened []string) (notes []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running--
	if n.running == 0 {
		defer n.journal.end()
	}
	found, _ := n.look()
	var aside []string
	for _, path := range slices.Sorted(maps.Keys(found)) {
		was, now := n.known[path], found[path]
		switch {
		case withinAny(aside, path): // gone with the directory
			continue
		case withinAny(opened, path), n.moved(now), n.isWorktree(path, now):
		case was.ino != 0 && was.link == "" && was.parent == now.parent:
			// It was mounted over itself where the command ran, so it was
			// replaced from outside.
		default:
			notes = append(notes, n.aside(path))
			aside = append(aside, path)
			continue
		}
		n.known[path] = now
	}
	for path, t := range n.known {
		// A link cannot be mounted over: put back one that was taken away.
		if t.link == "" || withinAny(opened, path) {
			continue
		}
		if _, ok := identify(path); ok {
			continue
		}
		if err := os.Symlink(t.link, path); err == nil {
			notes = append(notes, fmt.Sprintf("%s is protected: the link was removed and has been put back", path))
			n.known[path], _ = identify(path)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(n.bare)) {
		if !n.bare[dir] {
			n.bare[dir] = true
			notes = append(notes, fmt.Sprintf("%s has become a bare git repository: a git command in it would use its "+
				"configuration, which can run programs", dir))
		}
	}
	if n.full && !n.said {
		n.said = true
		notes = append(notes, fmt.Sprintf("the working directory has more than %d directories: new protected names "+
			"(.claude, .envrc …) in the deepest are not noticed", maxDirs))
	}
	return notes
}

// isWorktree reports whether a thing belongs to a worktree as
// `git worktree add` makes it: git uses no other configuration there than that
// of the repository, which is protected.
func (n *names) isWorktree(path string, t thing) bool {
	if t.dir || t.link != "" {
		return false
	}
	own := filepath.Dir(path)
	switch filepath.Base(path) {
	case ".git":
		target, ok := gitFileTarget(path)
		if !ok || !worktreeOf(filepath.Dir(filepath.Dir(target)), target, path) {
			return false
		}
		own = target
	case "commondir", "gitdir":
	default:
		return false
	}
	common := filepath.Dir(filepath.Dir(own))
	if c, ok := commonDir(own); !ok || c != common || !slices.Contains(n.gits(n.known), common) {
		return false
	}
	for _, name := range []string{"config.worktree", "modules"} {
		if _, err := os.Lstat(own + "/" + name); err == nil {
			return false
		}
	}
	return true
}

// moved reports whether a thing is one that was known under another name,
// because a directory above it was renamed.
func (n *names) moved(t thing) bool {
	for _, k := range n.known {
		if k.dev == t.dev && k.ino == t.ino && k.link == t.link && k.dir == t.dir { // a link's number can be had again
			return true
		}
	}
	return false
}

// aside renames what appeared. The rename goes through os.Root: whatever links
// a command left on the way, nothing outside the workspace is touched.
func (n *names) aside(path string) string {
	root := ""
	for _, r := range append(n.outer, n.roots...) {
		if subpath.Contains(r, path) && len(r) > len(root) {
			root = r
		}
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Sprintf("%s appeared (protected) and could not be moved aside: %v", path, err)
	}
	defer dir.Close()
	rel, _ := filepath.Rel(root, path)
	for i := 1; ; i++ {
		to := fmt.Sprintf("%s.refused-%d", rel, i)
		if _, err := dir.Lstat(to); err == nil && i < 1000 {
			continue
		}
		if err := dir.Rename(rel, to); err != nil {
			return fmt.Sprintf("%s appeared (protected) and could not be moved aside: %v", path, err)
		}
		return fmt.Sprintf("%s is protected and did not exist before: what the command left there is now %s; the rule "+
			"that allows it: %s",
			path, filepath.Base(to), editRule(path))
	}
}

// look brings dirs up to date and returns the protected things that are not
// known, or not as they are now, and the known ones that do not exist any more.
func (n *names) look() (found map[string]thing, gone []string) {
	found = map[string]thing{}
	for dir, seen := range n.dirs {
		if now, ok := ctime(dir); !ok {
			delete(n.dirs, dir)
		} else if now != seen {
			n.read(dir, found)
		}
	}
	for _, r := range n.roots {
		if _, ok := n.dirs[r]; !ok {
			n.read(r, found)
		}
	}
	for path := range n.env {
		if _, err := os.Lstat(path); err != nil {
			delete(n.env, path)
		}
	}
	parents := parents{}
	for path := range n.known { // replaced in a directory that did not change otherwise
		if t, ok := parents.identify(path); !ok {
			gone = append(gone, path)
		} else if n.known[path] != t {
			found[path] = t
		}
	}
	for _, things := range []map[string]thing{n.known, found} {
		for _, dir := range n.gits(things) {
			for _, part := range guardGit(dir).readOnly {
				if t, ok := parents.identify(part.name); ok && n.known[part.name] != t && !placeholderAt(part) {
					found[part.name] = t
				}
			}
		}
	}
	gits := n.gits(n.known)
	for dir := range n.bare {
		if withinAny(gits, dir) {
			delete(n.bare, dir)
		} else if names, err := readNames(dir); err != nil || !isBareGit(names) {
			delete(n.bare, dir)
		}
	}
	return found, gone
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// read reads a directory and those below it that are not known, the nearest
// first: the number is bounded.
func (n *names) read(dir string, found map[string]thing) {
	for queue := []string{dir}; len(queue) > 0; queue = queue[1:] {
		if _, ok := n.dirs[queue[0]]; !ok && len(n.dirs) >= maxDirs {
			n.full = true
			return
		}
		queue = append(queue, n.readOne(queue[0], found)...)
	}
}

// readOne returns the directories in dir that are not known.
func (n *names) readOne(dir string, found map[string]thing) (below []string) {
	seen, ok := ctime(dir)
	if !ok {
		return nil
	}
	if time.Since(time.Unix(0, seen)) < fresh {
		seen = 0
	}
	n.dirs[dir] = seen
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	entries, _ := f.ReadDir(-1)
	f.Close()
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if _, ok := n.bare[dir]; !ok && isBareGit(names) && !slices.Contains(n.roots, dir) {
		n.bare[dir] = false
	}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		switch {
		case slices.ContainsFunc(n.protected, func(p string) bool { return strings.HasSuffix(path, "/"+p) }):
			n.note(path, found)
			if isEnvFile(name) {
				n.env[path] = true
			}
		case isEnvFile(name) && !e.IsDir():
			n.env[path] = true
		case e.IsDir() && !slices.Contains(skipped, name):
			if _, ok := n.dirs[path]; !ok {
				below = append(below, path)
			}
		}
	}
	return below
}

func (n *names) note(path string, found map[string]thing) {
	if t, ok := identify(path); ok && n.known[path] != t {
		found[path] = t
	}
}

func identify(path string) (thing, bool) { return parents{}.identify(path) }

// parents are the inodes of directories, for identifying several things in each.
type parents map[string]uint64

func (p parents) identify(path string) (thing, bool) {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return thing{}, false
	}
	dir := filepath.Dir(path)
	if _, ok := p[dir]; !ok {
		var st syscall.Stat_t
		if syscall.Stat(dir, &st) != nil {
			return thing{}, false
		}
		p[dir] = st.Ino
	}
	t := thing{dev: uint64(st.Dev), ino: st.Ino, parent: p[dir], dir: st.Mode&syscall.S_IFMT == syscall.S_IFDIR}
	if st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		t.link, _ = os.Readlink(path)
	}
	return t, true
}

func ctime(dir string) (int64, bool) {
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return 0, false
	}
	return st.Ctim.Nano(), true
}
