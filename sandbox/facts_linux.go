//go:build linux && (amd64 || arm64)

package sandbox

import (
	"maps"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/internal/leaf/userdirs"
	"github.com/knack-agent/knack/sandbox/internal/launch"
)

// facts are everything that was read of the file system while a view was made. While they are
// unchanged, the same view would result. A nil *facts records nothing.
type facts struct {
	list  []fact
	index map[string]int
	// partial means that the view depends on more than what is in the list.
	partial bool
}

// A fact is what lstat showed of a path.
type fact struct {
	path     string
	err      error // an Errno, which is comparable
	dev, ino uint64
	kind     uint32 // file type
	ctime    int64
	dated    bool // the ctime must be the same
}

func factOf(path string, st *unix.Stat_t, err error) fact {
	if err != nil {
		return fact{path: path, err: err}
	}
	return fact{path: path, dev: uint64(st.Dev), ino: st.Ino, kind: st.Mode & unix.S_IFMT, ctime: st.Ctim.Nano()}
}

// same reports whether a later fact about the same path means the same.
func (f *fact) same(now fact) bool {
	now.dated = f.dated
	if !f.dated {
		now.ctime = f.ctime
	}
	return *f == now
}

// add records what lstat showed. It does not show a change of the names in a directory; includeTime
// records that they were used.
func (f *facts) add(path string, st *unix.Stat_t, err error) {
	if f == nil {
		return
	}
	now := factOf(path, st, err)
	if i, ok := f.index[path]; ok {
		f.partial = f.partial || !f.list[i].same(now)
		return
	}
	if f.index == nil {
		f.index = map[string]int{}
	}
	f.index[path] = len(f.list)
	f.list = append(f.list, now)
	if err == nil && now.kind != unix.S_IFDIR {
		f.includeTime(path)
	}
}

// lstat records what lstat shows of a path, unless the path is recorded already.
func (f *facts) lstat(path string) {
	if f == nil {
		return
	}
	if _, ok := f.index[path]; !ok {
		var st unix.Stat_t
		err := unix.Lstat(path, &st)
		f.add(path, &st, err)
	}
}

// includeTime records that more of a recorded file was used than its number and type: the names in a
// directory, or where a link leads.
func (f *facts) includeTime(path string) {
	if f == nil {
		return
	}
	i, ok := f.index[path]
	if !ok {
		f.partial = true
		return
	}
	seen := &f.list[i]
	seen.dated = true
	if seen.err == nil && time.Since(time.Unix(0, seen.ctime)) < fresh {
		f.partial = true // it may change without a new time
	}
}

// incomplete records that the view also depends on something that no fact describes.
func (f *facts) incomplete() {
	if f != nil {
		f.partial = true
	}
}

// readDir reads and records a directory.
func (f *facts) readDir(dir string) ([]os.DirEntry, error) {
	f.lstat(dir)
	f.includeTime(dir)
	return os.ReadDir(dir)
}

// unchanged reports whether all facts are the same now.
func (f *facts) unchanged() bool {
	var st unix.Stat_t
	for i := range f.list {
		err := unix.Lstat(f.list[i].path, &st)
		if !f.list[i].same(factOf(f.list[i].path, &st, err)) {
			return false
		}
	}
	return true
}

// A cachedView is the view of a command with all that it was made from, for use by the next command.
type cachedView struct {
	from  *viewInputs
	facts *facts
	view  *view
	// What follows from the view for a stub.
	steps, fresh, late []launch.Step
	key                string
	first              atomic.Pointer[firstPart]
}

// A firstPart is the program of a launcher for a cached view that joins kept namespaces and mounts, up
// to where it needs the command.
type firstPart struct {
	program *launch.Program // never released
	encoded net.Buffers
	online  bool
	ports   []uint64
}

// apply adds the view's steps to a plan. The files of Late differ for each command.
func (s *cachedView) apply(plan *launch.Plan) {
	plan.Steps, plan.Fresh, plan.Late = s.steps, s.fresh, slices.Clone(s.late)
}

// firstPart returns the program for a plan with the view's steps.
func (s *cachedView) firstPart(plan *launch.Plan, online bool) *firstPart {
	if f := s.first.Load(); f != nil && f.online == online && slices.Equal(f.ports, plan.Ports) {
		return f
	}
	f := &firstPart{program: launch.Prepare(plan, os.Geteuid(), os.Getegid(), launch.AndMounts), online: online,
		ports: plan.Ports}
	f.encoded = f.program.Encode()
	s.first.Store(f)
	return f
}

// viewInputs are what a view is made from besides files, for a command without an allowance and
// without limits.
type viewInputs struct {
	now       present
	variables [3]string
	mounts    int // version of this program's mount table
}

func viewInputsOf(now present, env []string) *viewInputs {
	getenv := userdirs.Getenv(env)
	_, version := now.mounts.points()
	return &viewInputs{now, [3]string{os.Getenv("XDG_RUNTIME_DIR"), getenv("XDG_RUNTIME_DIR"), getenv("PATH")}, version}
}

func (a *viewInputs) same(b *viewInputs) bool {
	return a.variables == b.variables && a.mounts == b.mounts && maps.Equal(a.now.protected, b.now.protected) &&
		slices.Equal(a.now.env, b.now.env) && slices.Equal(a.now.gits, b.now.gits) &&
		slices.Equal(a.now.outer, b.now.outer) && slices.Equal(a.now.sockets, b.now.sockets)
}

// reuse returns a copy of the view, with placeholders of its own; nil if something has changed since.
func (s *cachedView) reuse(from *viewInputs) *view {
	if s == nil || !s.from.same(from) || !s.facts.unchanged() {
		return nil
	}
	v := *s.view
	v.files, v.reserved = from.now.files, nil
	ok := true
	for _, g := range v.guards {
		reserved, all := g.reserve(nil)
		v.reserved = append(v.reserved, reserved...)
		ok = ok && all
	}
	if !ok || !slices.EqualFunc(v.reserved, s.view.reserved,
		func(a, b *placeholder) bool { return a.path == b.path && a.dir == b.dir && a.keep == b.keep }) {
		v.remove(false)
		return nil
	}
	return &v
}
