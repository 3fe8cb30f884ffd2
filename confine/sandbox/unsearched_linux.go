//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Directories such as node_modules are too large to be looked at before and after each command. A repository of git
// that a command makes there is found soon after the command, while nobody waits.

// An unsearched searches the directories that look passes over for repositories.
type unsearched struct {
	mu    sync.Mutex
	roots map[string]bool // directories that look passes over
	dirs  map[string]unsearchedDir
	again bool // a command ended while the search was under way
	busy  bool
	idle  *sync.Cond
	found []string // directories with a repository, found while commands ran; protectedFiles.mu is held
}

// An unsearchedDir is a directory as it was when it was read.
type unsearchedDir struct {
	ctime int64
	below []string // names of directories in it
}

// maxUnsearched limits the number of directories that are searched. maxRepositories limits how many of them may contain
// a repository of the user, and how many submodules of an index are judged at once.
const maxUnsearched, maxRepositories = 100_000, 64

func newUnsearched() *unsearched {
	u := &unsearched{roots: map[string]bool{}, dirs: map[string]unsearchedDir{}}
	u.idle = sync.NewCond(&u.mu)
	return u
}

// add notes a directory that look passes over.
func (u *unsearched) add(dir string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.roots[dir] = true
}

// start begins a search, which tells n what it found.
func (u *unsearched) start(n *protectedFiles) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.again = true; u.busy || len(u.roots) == 0 {
		return
	}
	u.busy = true
	go func() {
		for u.next() {
			for _, dir := range u.search() {
				u.tell(n, dir)
			}
		}
	}()
}

// next reports whether to search once more.
func (u *unsearched) next() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.busy, u.again = u.again, false; !u.busy {
		u.idle.Broadcast()
	}
	return u.busy
}

// search returns the directories that are or have a repository and have changed since the last search.
func (u *unsearched) search() (found []string) {
	u.mu.Lock()
	var todo []string
	for dir := range u.roots {
		todo = append(todo, dir)
	}
	u.mu.Unlock()
	before := u.dirs
	u.dirs = make(map[string]unsearchedDir, len(before))
	for len(todo) > 0 && len(u.dirs) < maxUnsearched {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		now, ok := ctime(dir)
		if _, again := u.dirs[dir]; !ok || again {
			continue
		}
		d, known := before[dir]
		if !known || d.ctime != now {
			var names []string
			d, names = readUnsearched(dir, now)
			if isBareGit(names) || slices.ContainsFunc(names, gitfile.IsDot) {
				found = append(found, dir)
			}
		}
		u.dirs[dir] = d
		for _, name := range d.below {
			todo = append(todo, dir+"/"+name)
		}
	}
	return found
}

func readUnsearched(dir string, changed int64) (d unsearchedDir, names []string) {
	if d.ctime = changed; time.Since(time.Unix(0, changed)) < fresh {
		d.ctime = 0
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if names = append(names, e.Name()); e.IsDir() && !gitfile.IsDot(e.Name()) {
			d.below = append(d.below, e.Name())
		}
	}
	return d, names
}

// tell reports a repository that was found. It is judged at once or, if commands run, when they have ended.
func (u *unsearched) tell(n *protectedFiles, dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running > 0 {
		u.found = append(u.found, dir)
		return
	}
	n.later = append(n.later, n.judgeUnsearched(dir)...)
}

// wait waits until nothing is searched any more.
func (u *unsearched) wait() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.busy {
		u.idle.Wait()
	}
}

// finish waits for the search and keeps what there is to tell for the next session.
func (n *protectedFiles) finish() {
	n.unsearched.wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.journal.keep(n.later)
	n.later = nil
}

// judgeFound judges what was found while commands ran, and returns what there is to tell of all.
func (n *protectedFiles) judgeFound() (notes []string) {
	for _, dir := range n.unsearched.found {
		n.later = append(n.later, n.judgeUnsearched(dir)...)
	}
	n.unsearched.found = nil
	notes, n.later = n.later, nil
	return notes
}

// judgeUnsearched moves a repository aside that a command has made in a directory that is not searched. One that was
// there is guarded from now on.
func (n *protectedFiles) judgeUnsearched(dir string) (notes []string) {
	names, err := readNames(dir)
	if err != nil {
		return nil
	}
	dot := false
	for _, name := range names {
		path := dir + "/" + name
		id, ok := identify(path)
		if !ok || !gitfile.IsDot(name) {
			continue
		}
		dot = true
		if _, known := n.known[path]; known || n.moved(id) {
			continue
		}
		if made, _ := n.whileRunning(path); made {
			notes = append(notes, n.asideUnsearched(path, id))
		} else {
			notes = append(notes, n.guardUnsearched(path, id)...)
		}
	}
	if id, ok := identify(dir); ok && !dot && isBareGit(names) && n.bare[dir] != id && !n.movedBare(dir, id) {
		notes = append(notes, n.judgeUnsearchedBare(dir, id, names)...)
	}
	return notes
}

// asideUnsearched is aside. What it disarmed still looks like a repository, and is guarded as one.
func (n *protectedFiles) asideUnsearched(path string, id fileID) string {
	m := n.aside(path, id)
	if now, ok := identify(m.to); ok && now.dir {
		n.bare[m.to] = now
	}
	return m.note
}

func (n *protectedFiles) judgeUnsearchedBare(dir string, id fileID, names []string) []string {
	if made, _ := n.whileRunning(dir); made {
		return []string{n.asideUnsearched(dir, id)}
	}
	var had []string
	for _, name := range gitLayout {
		if made, _ := n.whileRunning(dir + "/" + name); !made {
			had = append(had, name)
		}
	}
	if len(had) < len(gitLayout) {
		return []string{n.moveLayout(newBare{dir: dir, were: true, had: had}, names)}
	}
	n.bare[dir] = id
	return nil
}

// guardUnsearched guards a repository that was there before, and returns a note if a command may have changed what git
// runs in it, or put it there.
func (n *protectedFiles) guardUnsearched(path string, id fileID) (notes []string) {
	if n.guarded++; n.guarded > maxRepositories {
		return nil
	}
	n.known[path] = id
	n.journal.remember(path)
	_, changed := n.whileRunning(path)
	_, moved := n.whileRunning(filepath.Dir(path))
	if changed && moved {
		notes = append(notes, path)
	}
	for _, part := range n.parts(path) {
		t, ok := identify(part.name)
		if !ok || placeholderOrNone(part) {
			continue
		}
		n.known[part.name] = t
		if _, changed := n.whileRunning(part.name); changed && !t.dir {
			notes = append(notes, part.name)
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s changed while a command ran, and is not in a directory that is searched: look at it "+
		"before you use git there", plain.List(notes, 4))}
}

// A span is a time in which commands ran.
type span struct{ from, to time.Time }

// maxSpans limits the spans. The first ones become one.
const maxSpans = 1000

// ranUntilNow records that the last of the commands has ended.
func (n *protectedFiles) ranUntilNow() {
	s := span{n.began.Add(-fresh), time.Now()}
	if last := len(n.spans) - 1; last >= 0 && !s.from.After(n.spans[last].to) {
		n.spans[last].to = s.to
		return
	}
	if n.spans = append(n.spans, s); len(n.spans) > maxSpans {
		n.spans[1].from = n.spans[0].from
		n.spans = n.spans[1:]
	}
}

// whileRunning reports whether a file or directory was made, and whether it changed last, while a command ran. A file
// system that does not say when a file was made says nothing about the former.
func (n *protectedFiles) whileRunning(path string) (made, changed bool) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME|unix.STATX_CTIME, &st)
	if err != nil {
		return false, false
	}
	within := func(t unix.StatxTimestamp) bool {
		at := time.Unix(t.Sec, int64(t.Nsec))
		return n.running > 0 && at.After(n.began.Add(-fresh)) || slices.ContainsFunc(n.spans, func(s span) bool {
			return at.After(s.from) && at.Before(s.to)
		})
	}
	return st.Mask&unix.STATX_BTIME != 0 && within(st.Btime), within(st.Ctime)
}

// judgeSubmodules judges the directories that an index names as repositories and that look passes over: git enters them
// from the top of the work tree.
func (n *protectedFiles) judgeSubmodules(top string, names []string) (notes []string) {
	for _, name := range names {
		if dir := filepath.Join(top, name); top != "" && n.isSkipped(dir) {
			notes = append(notes, n.judgeUnsearched(dir)...)
		}
	}
	return notes
}
