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
	full    bool // more than maxDirs
	said    bool // that it is full
}

// A thing is what a name stands for.
type thing struct {
	dev, ino uint64
	parent   uint64 // inode of the directory
	link     string // where a symbolic link leads
	dir      bool
}

func newNames(p Policy) *names {
	n := &names{protected: p.Protected, dirs: map[string]int64{}, known: map[string]thing{}, env: map[string]bool{}}
	for _, r := range append([]string{p.Dir}, p.Roots...) {
		if r, err := filepath.EvalSymlinks(r); err == nil && r != "/" {
			n.roots = append(n.roots, r)
		}
	}
	if slices.Contains(p.Protected, ".git") && len(n.roots) > 0 {
		n.outer = outerGit(n.roots[0], p.Home)
	}
	return n
}

// begin is called before a command and returns what is there: protected
// things by path, and .env files.
func (n *names) begin() (protected map[string]thing, env []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.look()
	for path, t := range found {
		// While another command runs, what is new may be its doing: end decides.
		if _, ok := n.known[path]; ok || n.running == 0 {
			n.known[path] = t
		}
	}
	for path := range n.known {
		if _, ok := identify(path); !ok && n.running == 0 {
			delete(n.known, path)
		}
	}
	n.running++
	return maps.Clone(n.known), slices.Sorted(maps.Keys(n.env))
}

// end is called after a command. What appeared under a protected name that was
// not opened is renamed; the result says so.
func (n *names) end(opened []string) (notes []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running--
	found := n.look()
	for _, path := range slices.Sorted(maps.Keys(found)) {
		was, now := n.known[path], found[path]
		switch {
		case withinAny(opened, path), n.moved(now):
		case was.ino != 0 && was.link == "" && was.parent == now.parent:
			// It was mounted over itself where the command ran, so whoever
			// replaced it did so outside.
		default:
			notes = append(notes, n.aside(path))
			continue
		}
		n.known[path] = now
	}
	for path, t := range n.known {
		// A link cannot be mounted over: put back one that was taken away.
		if _, ok := identify(path); ok || t.link == "" || withinAny(opened, path) {
			continue
		}
		if err := os.Symlink(t.link, path); err == nil {
			notes = append(notes, fmt.Sprintf("%s is protected: the link was removed and has been put back", path))
			n.known[path], _ = identify(path)
		}
	}
	if n.full && !n.said {
		n.said = true
		notes = append(notes, fmt.Sprintf("the working directory has more than %d directories: new protected names (.claude, .envrc …) in the deepest are not noticed", maxDirs))
	}
	return notes
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
		if within(r, path) && len(r) > len(root) {
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
		return fmt.Sprintf("%s is protected and did not exist before: what the command left there is now %s; the rule that allows it: %s",
			path, filepath.Base(to), editRule(path))
	}
}

// look brings dirs up to date and returns the protected things that are not
// known, or not as they are now.
func (n *names) look() map[string]thing {
	found := map[string]thing{}
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
	for path, t := range n.known { // replaced in a directory that did not change otherwise
		n.note(path, found)
		if t.dir && filepath.Base(path) == ".git" {
			n.noteGit(path, found)
		}
	}
	for path, t := range found {
		if t.dir && filepath.Base(path) == ".git" {
			n.noteGit(path, found)
		}
	}
	for _, dir := range n.outer {
		n.noteGit(dir, found)
	}
	return found
}

func (n *names) noteGit(dir string, found map[string]thing) {
	for _, part := range gitParts(dir) {
		n.note(part, found)
	}
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

func identify(path string) (thing, bool) {
	var st, parent syscall.Stat_t
	if syscall.Lstat(path, &st) != nil || syscall.Stat(filepath.Dir(path), &parent) != nil {
		return thing{}, false
	}
	t := thing{dev: uint64(st.Dev), ino: st.Ino, parent: parent.Ino, dir: st.Mode&syscall.S_IFMT == syscall.S_IFDIR}
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
