//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// maxDirs limits the directories of a workspace that are watched for protected names.
const maxDirs = 2048

// fresh is the time after a change in which a directory may change again without a new time stamp,
// because file systems have coarse clocks. What was read in this time may be outdated.
const fresh = 50 * time.Millisecond

// protectedFiles keeps track of the protected names and the .env files of a workspace. It reads every
// directory once and then only those whose ctime has changed: a command cannot set ctime back.
type protectedFiles struct {
	roots   []string // workspace directories, resolved
	outer   []string // git directories outside the roots that git writes when it works in the first root
	shared  []string // files in outer that belong to another work tree than the first root
	used    []string // directories in which a worktree's git directory is open to commands
	keepNew bool     // see Policy

	mu       sync.Mutex
	names    []string // what patterns was made of
	patterns permission.PathNames
	running  int // number of running commands
	dirs     map[string]int64
	known    map[string]fileID // protected files and directories, by path
	seen     map[string]bool   // protected names that look found and nobody has decided about
	env      map[string]bool
	closed   map[string]bool     // git directories of other worktrees, which each command has read-only as a whole
	bare     map[string]fileID   // directories that git treats as a repository without a name such as .git
	newBare  []newBare           // those that appeared since the last call of refresh without a running command
	layout   map[string][]string // which of gitLayout a directory has, if any
	began    time.Time           // when the first of the running commands began
	full     bool                // there are more than maxDirs directories
	reported bool                // full has been reported
	journal  journal
	open     map[string]openFile  // open files of known and env, by path
	unlinked map[string]time.Time // when look noticed that a file of open has no name any more
	places   worktreePlaces
	gitLeft  gitLeft

	unsearched *unsearched
	spans      []span   // when commands ran
	later      []string // notes for the next command that ends
	guarded    int      // repositories that unsearched found

	mounts mountTable
}

// A fileID identifies the file or directory at a path.
type fileID struct {
	dev, ino uint64
	parent   uint64 // inode of the parent directory
	link     string // target, if it is a symbolic link
	dir      bool
}

func newProtectedFiles(p Policy) *protectedFiles {
	n := &protectedFiles{names: p.Protected, patterns: permission.NewPathNames(p.Protected), keepNew: p.KeepNew,
		dirs: map[string]int64{}, known: map[string]fileID{},
		seen: map[string]bool{}, env: map[string]bool{}, bare: map[string]fileID{}, open: map[string]openFile{},
		unlinked: map[string]time.Time{},
		places:   worktreePlaces{}, layout: map[string][]string{}, gitLeft: newGitLeft(),
		unsearched: newUnsearched()}
	for _, r := range append([]string{p.Dir}, p.Roots...) {
		if r, err := filepath.EvalSymlinks(r); err == nil && r != "/" {
			n.roots = append(n.roots, r)
		}
	}
	n.used = append(real(p.Write), n.roots...)
	if slices.Contains(p.Protected, ".git") && len(n.roots) > 0 {
		n.outer, n.shared = outerGit(n.roots[0], p.Home)
	}
	if len(n.roots) > 0 {
		n.journal = newJournal(p.State, n.roots[0])
	}
	for _, path := range n.journal.recall() {
		t, ok := identify(path)
		if !ok || !withinAny(n.roots, path) {
			continue
		}
		if permission.KeyFile(filepath.Base(path)) {
			n.env[path] = true
		}
		if n.patterns.Match(path) != "" {
			n.known[path] = t
		}
	}
	return n
}

// A present is the state of the workspace when a command begins.
type present struct {
	protected map[string]fileID // protected files and directories, by path
	env       []string          // .env files
	gits      []string          // git directories to guard
	outer     []string          // those outside the roots
	closed    map[string]bool   // those of worktrees that are read-only as a whole
	sockets   []string          // that listen or are mounted; set where connections are not supervised
	shared    []string          // files of another work tree of the repository
	denied    workspace.DeniedFiles
	files     map[string]openFile // which files those of protected and env are
}

// protect replaces the protected names. What exists under new ones was there before the next command, also if another
// one is running.
func (n *protectedFiles) protect(names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Equal(names, n.names) {
		return
	}
	for _, name := range names {
		if path := filepath.Clean(name); filepath.IsAbs(path) && !slices.Contains(n.names, name) && withinAny(n.roots, path) {
			if t, ok := identify(path); ok {
				n.known[path] = t
			}
		}
	}
	n.names, n.patterns = names, permission.NewPathNames(names)
	clear(n.dirs) // they are read again
	maps.DeleteFunc(n.known, func(path string, t fileID) bool {
		name, _ := n.patterns.In(path)
		return name == "" && !withinAny(n.gits(n.known), path) && !inBare(n.bare, path)
	})
}

// inBare reports whether a path is in one of some bare repositories.
func inBare(bare map[string]fileID, path string) bool {
	for dir := range bare {
		if subpath.Contains(dir, path) {
			return true
		}
	}
	return false
}

// begin must be called before a command starts; end must be called after it.
func (n *protectedFiles) begin() present {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refresh()
	closed := n.findClosed()
	n.openKnown() // also what was found for the first time
	n.gitLeft.begin(n)
	if n.running == 0 {
		n.began = time.Now()
		n.journal.begin(slices.Concat(slices.Collect(maps.Keys(n.known)), slices.Collect(maps.Keys(n.closed)),
			n.gitLeft.recorded()))
	}
	n.running++
	return present{maps.Clone(n.known), slices.Sorted(maps.Keys(n.env)),
		append(n.gits(n.known), slices.Sorted(maps.Keys(n.bare))...), n.outer, closed, nil,
		n.shared, workspace.DeniedFiles{}, maps.Clone(n.open)}
}

// refresh updates what is known about the workspace. While a command runs, it does not add new
// names, which the command may have created: end decides about these.
func (n *protectedFiles) refresh() {
	found, removed := n.look()
	for path, t := range found {
		if _, ok := n.known[path]; ok || n.running == 0 {
			n.known[path] = t
		}
	}
	for _, path := range removed {
		// A link that a command removes is put back. What else is gone, the user or an approved command has removed: nothing
		// can be mounted over it, and what comes to lie there is new.
		if n.running == 0 || n.known[path].link == "" {
			delete(n.known, path)
		}
	}
	if n.running > 0 {
		return
	}
	for _, b := range n.newBare {
		if id, ok := identify(b.dir); ok {
			n.bare[b.dir] = id
		}
	}
	n.newBare = nil
	gits := n.gits(n.known)
	maps.DeleteFunc(n.bare, func(dir string, _ fileID) bool {
		names, err := readNames(dir)
		return withinAny(gits, dir) || err != nil || !isBareGit(names)
	})
	for dir := range n.bare {
		for _, part := range n.parts(dir) {
			if t, ok := identify(part.name); ok && !placeholderOrNone(part) {
				n.known[part.name] = t
			}
		}
	}
}

// findClosed finds the git directories of worktrees elsewhere. If no command runs, nothing in them is looked at from
// now on, because no command can write there. One that a command makes is not among those, whatever place it names.
func (n *protectedFiles) findClosed() map[string]bool {
	now := map[string]bool{}
	for _, dir := range append(n.gits(n.known), slices.Collect(maps.Keys(n.bare))...) {
		g := gitGuard{used: n.used, places: n.places}
		g.add(dir, 8)
		for _, tree := range g.closed {
			now[tree] = true
		}
	}
	if n.running > 0 {
		maps.DeleteFunc(n.closed, func(tree string, _ bool) bool { return !now[tree] })
		return now
	}
	n.closed = maps.Clone(now)
	if len(now) > 0 {
		maps.DeleteFunc(n.known, func(path string, _ fileID) bool { return inside(path, now) })
		maps.DeleteFunc(n.seen, func(path string, _ bool) bool { return inside(path, now) })
	}
	return now
}

// inside reports whether a path is below one of the git directories of worktrees.
func inside(path string, trees map[string]bool) bool {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if filepath.Base(filepath.Dir(dir)) == "worktrees" && trees[dir] {
			return true
		}
	}
	return false
}

// parts returns the names to guard in a git directory that commands can write.
func (n *protectedFiles) parts(dir string) []gitName {
	g := gitGuard{skip: n.closed}
	g.add(dir, 8)
	return g.readOnly
}

// gits lists the git directories among some protected files: directories named .git, the targets of
// files with that name, and outer.
func (n *protectedFiles) gits(protected map[string]fileID) []string {
	dirs := slices.Clone(n.outer)
	for path, t := range protected {
		if filepath.Base(path) != ".git" || t.link != "" {
			continue
		}
		if t.dir {
			dirs = append(dirs, path)
			continue
		}
		targets := gitPointer(path)
		if len(targets) == 2 && filepath.Dir(targets[0]) == targets[1]+"/worktrees" {
			targets = targets[1:] // guarded together with the common directory
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

// leave ends what begin began, without a look at what the command did.
func (n *protectedFiles) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running--
}

// end is called after a command. A file or directory that appeared under a protected name is
// renamed, unless the name is in opened or in replaced, has a file of replaced in it, or the policy keeps
// it. The notes report this.
func (n *protectedFiles) end(opened, replaced []string) []string {
	notes, _ := n.endUnless(nil, opened, replaced)
	return notes
}

// endUnless is end, unless new files under protected names are in one of some directories: then it does nothing.
func (n *protectedFiles) endUnless(tops, opened, replaced []string) (notes []string, ended bool) {
	open, above := newDirSet(slices.Concat(opened, replaced)), newDirSet(replaced).above()
	n.mu.Lock()
	defer n.mu.Unlock()
	found, _ := n.look()
	if n.anyNew(found, tops) {
		return nil, false
	}
	n.running--
	if n.running == 0 {
		n.ranUntilNow()
		defer n.journal.end()
	}
	var trees []string
	var aside []movedFile
	for _, path := range slices.Sorted(maps.Keys(found)) {
		was, now := n.known[path], found[path]
		switch {
		case within(aside, path): // renamed together with its directory
			continue
		case n.keepNew && was.ino == 0, open.contain(path), above[path], n.moved(now):
		case n.isWorktree(path, now):
			if filepath.Base(path) == ".git" && was.ino == 0 {
				trees = append(trees, filepath.Dir(path))
			}
		case was.ino != 0 && was.link == "" && was.parent == now.parent:
			// A mount protected it from the command, so something outside the sandbox replaced it.
		default:
			m := n.aside(path, now)
			if aside = append(aside, m); m.to != "" && filepath.Base(path) == ".git" {
				trees = append(trees, filepath.Dir(path))
			}
			continue
		}
		n.known[path] = now
	}
	notes = append(notes, notesOf(aside, trees)...)
	for path, t := range n.known {
		// A link cannot be covered by a mount, so one that was removed is restored.
		if t.link == "" || open.contain(path) {
			continue
		}
		if _, ok := identify(path); ok {
			continue
		}
		if err := n.relink(path, t.link); err == nil {
			notes = append(notes, fmt.Sprintf("%s is protected: the link was removed while the command ran, and has been put back", path))
			n.known[path], _ = identify(path)
		}
	}
	notes = append(notes, n.disableBare(open, aside)...)
	if !n.keepNew {
		notes = append(append(notes, n.gitLeft.end(n, open)...), n.judgeFound()...)
		n.unsearched.start(n)
	}
	if n.full && !n.reported {
		n.reported = true
		notes = append(notes, fmt.Sprintf("the working directory has more than %d directories: new protected names "+
			"(.claude, .envrc …) in the deepest are not noticed", maxDirs))
	}
	return notes, true
}

// anyNew reports whether found has a file below one of some directories that was not known.
func (n *protectedFiles) anyNew(found map[string]fileID, tops []string) bool {
	for path := range found {
		if n.isNew(path, tops) {
			return true
		}
	}
	return false
}

func (n *protectedFiles) isNew(path string, tops []string) bool {
	_, known := n.known[path]
	return !known && withinAny(tops, path)
}

// movedBare reports whether a bare repository was there before, at another path.
func (n *protectedFiles) movedBare(dir string, id fileID) bool {
	for path, was := range n.bare {
		if path != dir && was.dev == id.dev && was.ino == id.ino {
			return true
		}
	}
	return false
}

// isWorktree reports whether a file belongs to a worktree as `git worktree add` creates it. There
// git uses only the configuration of the repository, which is protected.
func (n *protectedFiles) isWorktree(path string, t fileID) bool {
	if t.dir || t.link != "" {
		return false
	}
	own := filepath.Dir(path)
	switch filepath.Base(path) {
	case ".git":
		target, ok := gitfile.Target(path)
		if !ok || !gitfile.IsWorktree(filepath.Dir(filepath.Dir(target)), target, path) {
			return false
		}
		own = target
	case "commondir", "gitdir":
	default:
		return false
	}
	common := filepath.Dir(filepath.Dir(own))
	if c, ok := gitfile.Common(own); !ok || c != common || !slices.Contains(n.gits(n.known), common) {
		return false
	}
	for _, name := range []string{"config.worktree", "modules"} {
		if _, err := os.Lstat(own + "/" + name); err == nil {
			return false
		}
	}
	return true
}

// moved reports whether a file was known under another name, because a directory above it was
// renamed.
func (n *protectedFiles) moved(t fileID) bool {
	for _, k := range n.known {
		if k.dev == t.dev && k.ino == t.ino && k.link == t.link && k.dir == t.dir { // a link's inode can be reused
			return true
		}
	}
	return false
}

// rootOf returns the deepest of the directories that are looked after which contains a path.
func (n *protectedFiles) rootOf(path string) (root string) {
	for _, r := range append(n.outer, n.roots...) {
		if subpath.Contains(r, path) && len(r) > len(root) {
			root = r
		}
	}
	return root
}

// relink puts a link back.
func (n *protectedFiles) relink(path, target string) error {
	p, err := openPlace(n.rootOf(path), path)
	if err != nil {
		return err
	}
	defer p.close()
	return unix.Symlinkat(target, p.dir, p.name)
}

// A movedFile is what was found at a protected name and renamed.
type movedFile struct {
	path, to string // to is "" if it could not be renamed, or was removed
	gone     bool   // it was a directory without files and was removed
	note     string
	disarmed map[string]string // what was renamed in it, by the name before
}

// within reports whether a path was moved aside, or lies in a directory that was.
func within(aside []movedFile, path string) bool {
	return slices.ContainsFunc(aside, func(m movedFile) bool { return subpath.Contains(m.path, path) })
}

// aside renames what was found at a protected name. A directory without files is removed.
func (n *protectedFiles) aside(path string, found fileID) movedFile {
	if found.dir && removeDirs(n.rootOf(path), path, found) {
		return movedFile{path: path, gone: true, note: fmt.Sprintf("%s is protected and did not exist before: a "+
			"directory without files appeared there while the command ran, and was removed. To allow it: %s", path, editRule(path))}
	}
	p, err := openPlace(n.rootOf(path), path)
	if err == nil {
		defer p.close()
		err = errMoved
	}
	for i := 1; err != nil && i < 1000 && p.name != "" && p.is(found.dev, found.ino); i++ {
		to := fmt.Sprintf("%s.refused-%d", p.name, i)
		if err = p.rename(to); err == nil {
			m := movedFile{path: path, to: filepath.Join(filepath.Dir(path), to), note: fmt.Sprintf("%s is protected and did not "+
				"exist before: what appeared there while the command ran is now %s. If it is yours, take it back outside "+
				"(mv %[2]s %[3]s). To allow it: %[4]s", path, to, filepath.Base(path), editRule(path))}
			if found.dir {
				n.disarmMoved(&m)
			}
			return m
		}
		if !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	return movedFile{path: path, note: fmt.Sprintf("%s appeared (protected) and could not be moved aside: %v", path, err)}
}

// notesOf reports what was moved aside. In new work trees, where a commit would remove these files, one command
// restores them.
func notesOf(aside []movedFile, trees []string) (notes []string) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	names, moves, rule := map[string][]string{}, map[string][]string{}, map[string]string{}
	for _, m := range aside {
		top := ""
		for _, t := range trees {
			if subpath.Contains(t, m.path) && len(t) > len(top) {
				top = t
			}
		}
		if top == "" || m.to == "" {
			notes = append(notes, m.note)
			continue
		}
		to, _ := subpath.Rel(top, m.path)
		names[top] = append(names[top], to)
		rule[top] = cmp.Or(rule[top], editRule(m.path))
		moves[top] = append(moves[top], "mv "+quote(m.to)+" "+quote(m.path))
		for _, name := range slices.Sorted(maps.Keys(m.disarmed)) {
			moves[top] = append(moves[top], "mv "+quote(filepath.Join(m.path, m.disarmed[name]))+" "+
				quote(filepath.Join(m.path, name)))
		}
	}
	for _, top := range slices.Sorted(maps.Keys(moves)) {
		notes = append(notes, fmt.Sprintf("%s is a new work tree of git with protected files (%s), which were moved aside "+
			"(the rule that allows the first one: %s). This restores them, after a question about exactly these: %s", top,
			plain.List(names[top], 8), rule[top], strings.Join(moves[top], " && ")))
	}
	return notes
}

// look updates dirs. found are the protected files that are new or changed, removed the known ones
// that no longer exist. What a caller does not add to known or move away is found again the next time,
// although the directory that contains it has not changed since.
func (n *protectedFiles) look() (found map[string]fileID, removed []string) {
	found = map[string]fileID{}
	for path := range n.seen {
		n.note(path, found)
	}
	clear(n.seen)
	defer func() {
		for path := range found {
			n.seen[path] = true
		}
	}()
	for _, dir := range touched(n.dirs) {
		if _, ok := ctime(dir); ok {
			n.read(dir, found)
		} else {
			delete(n.dirs, dir)
		}
	}
	for _, r := range n.roots {
		if _, ok := n.dirs[r]; !ok {
			n.read(r, found)
		}
	}
	n.relocate()
	for path := range n.env {
		if _, ok := n.open[path]; ok {
			continue // it exists here, or did a moment ago
		}
		if _, err := os.Lstat(path); err != nil {
			delete(n.env, path)
		}
	}
	parents := parents{}
	for path := range n.known { // replaced without another change in its directory
		if t, ok := parents.identify(path); !ok {
			removed = append(removed, path)
		} else if n.known[path] != t {
			found[path] = t
		}
	}
	for _, files := range []map[string]fileID{n.known, found} {
		for _, dir := range append(n.gits(files), slices.Collect(maps.Keys(n.bare))...) {
			for _, part := range n.parts(dir) {
				if t, ok := parents.identify(part.name); ok && n.known[part.name] != t && !placeholderOrNone(part) {
					found[part.name] = t
				}
			}
		}
	}
	n.openKnown()
	gits := n.gits(n.known)
	n.newBare = slices.DeleteFunc(n.newBare, func(b newBare) bool { return withinAny(gits, b.dir) })
	return found, removed
}

// touched returns the directories that have changed since the times or are gone. Each command waits for this twice, so
// in a large workspace two threads look.
func touched(times map[string]int64) (dirs []string) {
	all := slices.Collect(maps.Keys(times))
	look := func(part []string) (dirs []string) {
		for _, dir := range part {
			if now, ok := ctime(dir); !ok || now != times[dir] {
				dirs = append(dirs, dir)
			}
		}
		return dirs
	}
	if len(all) < 100 {
		return look(all)
	}
	var first []string
	var wait sync.WaitGroup
	wait.Go(func() { first = look(all[:len(all)/2]) })
	dirs = look(all[len(all)/2:])
	wait.Wait()
	return append(first, dirs...)
}

// An openFile is an open file (O_PATH) under a protected name or of secrets. It shows where the file is
// after a directory above it was renamed, perhaps into one that is not searched.
type openFile struct {
	file       *os.File
	dev, ino   uint64
	env, known bool
}

// maxOpen limits the open files.
const maxOpen = 256

// openKnown opens the files in known and env that are not open yet.
func (n *protectedFiles) openKnown() {
	open := func(path string, env bool) {
		h, ok := n.open[path]
		if !ok && len(n.open) < maxOpen {
			f, err := os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				return
			}
			var st unix.Stat_t
			if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
				f.Close()
				return
			}
			h, ok = openFile{file: f, dev: uint64(st.Dev), ino: st.Ino}, true
		}
		if ok {
			h.env, h.known = h.env || env, h.known || !env
			n.open[path] = h
		}
	}
	for path := range n.env {
		open(path, true)
	}
	for path := range n.known {
		open(path, false)
	}
}

// at reports whether the file is at a path.
func (h openFile) at(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && h.dev == uint64(st.Dev) && h.ino == st.Ino
}

// relocate adds to known and env where the open files are now. A command can rename the directories
// above one, but not the file: one with another name was renamed outside the sandbox.
func (n *protectedFiles) relocate() {
	for path, h := range maps.Clone(n.open) {
		if h.at(path) {
			continue
		}
		delete(n.open, path)
		to := h.find()
		if to == "" && len(n.unlinked) < 10*maxOpen {
			n.unlinked[path] = time.Now()
		}
		if _, again := n.open[to]; again || filepath.Base(to) != filepath.Base(path) || !withinAny(n.roots, to) {
			h.file.Close()
			continue
		}
		n.open[to] = h
		if n.isSkipped(to) {
			n.journal.remember(to)
		}
		if h.env {
			n.env[to] = true
		}
		if t, ok := identify(to); ok && h.known {
			delete(n.known, path)
			n.known[to] = t
		}
	}
}

// removedOutside reports whether the file or directory of a mount that covers a path, or the one at the path, was
// removed since a time. No command could: the kernel removes nothing that is mounted over where the command sees it,
// and what was renamed with a directory above it still exists.
func (n *protectedFiles) removedOutside(mounted []string, path string, since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(mounted, func(m string) bool {
		return subpath.Contains(m, path) && n.unlinked[m].After(since)
	})
}

// isSkipped reports whether a path is in a directory that is not searched.
func (n *protectedFiles) isSkipped(path string) bool {
	rel, _ := subpath.Rel(n.rootOf(path), path)
	return slices.ContainsFunc(strings.Split(rel, "/"), permission.Unwatched)
}

// find returns the path of a file; "" if it was removed. While a directory is renamed all the time,
// the file may be elsewhere immediately afterwards.
func (h openFile) find() string {
	var path string
	for range 10 {
		var st unix.Stat_t
		if unix.Fstat(int(h.file.Fd()), &st) != nil || st.Nlink == 0 {
			return ""
		}
		if path, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", h.file.Fd())); h.at(path) {
			break
		}
	}
	return path
}

func readNames(dir string) ([]string, error) {
	f, err := regular.Dir(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// read reads a directory and the unknown directories below it, breadth first, because their number
// is limited.
func (n *protectedFiles) read(dir string, found map[string]fileID) {
	for queue := []string{dir}; len(queue) > 0; queue = queue[1:] {
		if _, ok := n.dirs[queue[0]]; !ok && len(n.dirs) >= maxDirs {
			n.full = true
			for _, dir := range queue {
				n.unsearched.add(dir)
			}
			return
		}
		queue = append(queue, n.readOne(queue[0], found)...)
	}
}

// readOne reads one directory and returns the unknown directories in it.
func (n *protectedFiles) readOne(dir string, found map[string]fileID) (below []string) {
	seen, ok := ctime(dir)
	if !ok {
		return nil
	}
	if time.Since(time.Unix(0, seen)) < fresh {
		seen = 0
	}
	_, were := n.dirs[dir]
	n.dirs[dir] = seen
	f, err := regular.Dir(dir)
	if err != nil {
		return nil
	}
	entries, _ := f.ReadDir(-1)
	f.Close()
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	n.noteLayout(dir, names, were)
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		switch {
		case n.patterns.Match(path) != "":
			n.note(path, found)
			if permission.KeyFile(name) {
				n.env[path] = true
			}
		case permission.KeyFile(name) && !e.IsDir():
			n.env[path] = true
		case e.IsDir() && permission.Unwatched(name):
			n.unsearched.add(path)
		case e.IsDir():
			if _, ok := n.dirs[path]; !ok {
				below = append(below, path)
			}
		}
	}
	return below
}

func (n *protectedFiles) note(path string, found map[string]fileID) {
	if t, ok := identify(path); ok && n.known[path] != t {
		found[path] = t
	}
}

func identify(path string) (fileID, bool) { return parents{}.identify(path) }

// parents caches the inodes of parent directories for several calls of identify.
type parents map[string]uint64

func (p parents) identify(path string) (fileID, bool) {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return fileID{}, false
	}
	dir := filepath.Dir(path)
	if _, ok := p[dir]; !ok {
		var st syscall.Stat_t
		if syscall.Stat(dir, &st) != nil {
			return fileID{}, false
		}
		p[dir] = st.Ino
	}
	t := fileID{dev: uint64(st.Dev), ino: st.Ino, parent: p[dir], dir: st.Mode&syscall.S_IFMT == syscall.S_IFDIR}
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
