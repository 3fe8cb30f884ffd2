//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/sandbox/internal/launch"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// layers puts overlays over the user's caches, for all commands of a Sandbox. Commands that run at the
// same time share them.
type layers struct {
	mu      sync.Mutex
	current *overlays // nil: none yet
	failed  error     // why overlays cannot be used here
	limits  limits
}

// overlays are a user and a mount namespace in which overlays cover caches. They end with this program,
// however it ends, because only its descriptors and the commands refer to them.
type overlays struct {
	users, mounts *os.File
	lock          *os.File           // on the directory with the upper directories
	covered       map[string]overlay // by the path of the cache, which is resolved
	modules       launch.Overlay     // the one over Go's module cache; zero: none
	uses          int                // commands that run
	outdated      bool               // no further command gets them
}

// An overlay is one over a cache. dir identifies the user's directory, and root what covers it.
type overlay struct{ dir, root file }

// A file is identified by these two numbers.
type file struct{ dev, ino uint64 }

func fileOf(st *unix.Stat_t) file { return file{uint64(st.Dev), st.Ino} }

// maxLayers limits the programs that use the same caches in one project at a time and have a layer each.
// Others have the project's own caches.
const maxLayers = 16

// begin is called before a command uses p.Layers. It empties what is too large, unless a command uses the overlays.
func (l *layers) begin(p *Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.current; c != nil && l.limits.large() {
		if c.uses > 0 {
			return
		}
		l.giveUp()
	}
	l.limits.begin(p)
}

// acquire returns the overlays for a command, which must release them; nil if there are none. They are
// made for the first command, and anew if a cache has become another directory.
func (l *layers) acquire(p *Policy) *overlays {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil || p.Layers == "" {
		return nil
	}
	caches := p.coverable()
	if len(caches) == 0 {
		return nil
	}
	if l.current != nil && !l.current.covers(caches) {
		l.giveUp()
	}
	if l.current == nil {
		if l.current, l.failed = newOverlays(p.Layers, caches); l.failed != nil {
			return nil
		}
	}
	l.current.uses++
	return l.current
}

// release ends a command's use of overlays.
func (l *layers) release(o *overlays) {
	if o == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.uses--; o.uses == 0 {
		o.showModules()
	}
	o.closeUnused()
}

// giveUp ends the use of the current overlays, if there are any; commands that run keep them.
func (l *layers) giveUp() {
	if c := l.current; c != nil {
		l.current = nil
		c.outdated = true
		c.closeUnused()
	}
}

// problem returns why there are no overlays; "" if they work.
func (l *layers) problem() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		return ""
	}
	return l.failed.Error()
}

// close gives up the overlays, and empties layers that are too large.
func (l *layers) close(p *Policy) {
	l.mu.Lock()
	l.giveUp()
	l.mu.Unlock()
	l.limits.close(p)
}

func (o *overlays) closeUnused() {
	if o.outdated && o.uses == 0 {
		o.users.Close()
		o.mounts.Close()
		unlock(o.lock)
	}
}

// covers reports whether the overlays are over these caches, as they are now.
func (o *overlays) covers(caches map[string]Cache) bool {
	var st unix.Stat_t
	for path := range caches {
		if at, ok := o.covered[path]; !ok || unix.Lstat(path, &st) != nil || at.dir != fileOf(&st) {
			return false
		}
	}
	return len(caches) == len(o.covered)
}

// paths returns the covered paths in order.
func (o *overlays) paths() []string {
	if o == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(o.covered))
}

// coverable returns the caches, by resolved path, that get an overlay: not one that commands may write
// anyway, or in which they work.
func (p *Policy) coverable() map[string]Cache {
	open := p.opened()
	caches := map[string]Cache{}
	for _, c := range p.Caches {
		for _, path := range real([]string{c.Path}) {
			if !isFile(path) && !withinAny(open, path) &&
				!slices.ContainsFunc(open, func(dir string) bool { return subpath.Contains(path, dir) }) {
				caches[path] = c
			}
		}
	}
	return caches
}

// newOverlays makes overlays with the first layer in dir that no other program uses.
func newOverlays(dir string, caches map[string]Cache) (*overlays, error) {
	for n := 1; n <= maxLayers; n++ {
		layer := filepath.Join(dir, strconv.Itoa(n))
		lock, err := lockLayer(layer, tryLock)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, err
		}
		o, err := makeOverlays(layer, caches)
		if err != nil && !errors.Is(err, unix.EBUSY) {
			// The kernel may refuse a layer that was over other directories.
			emptyLayer(layer)
			o, err = makeOverlays(layer, caches)
		}
		if err == nil {
			o.lock = lock
			now := time.Now()
			os.Chtimes(dir, now, now)
			return o, nil
		}
		unlock(lock)
		if !errors.Is(err, unix.EBUSY) { // a command of a program that was killed may not have ended yet
			return nil, err
		}
	}
	return nil, fmt.Errorf("%d programs use the caches", maxLayers)
}

// makeOverlays starts a stub that makes overlays over caches, with the upper directories in layer.
func makeOverlays(layer string, caches map[string]Cache) (*overlays, error) {
	if stub() == nil {
		return nil, errors.New("this needs a launcher that this machine does not have")
	}
	o := &overlays{covered: map[string]overlay{}}
	var plan []launch.Overlay
	var st unix.Stat_t
	for _, path := range slices.Sorted(maps.Keys(caches)) {
		at := filepath.Join(layer, caches[path].layerName())
		x := launch.Overlay{Path: path, Upper: filepath.Join(at, "upper"), Work: filepath.Join(at, "work")}
		if err := errors.Join(os.MkdirAll(x.Upper, 0o700), os.MkdirAll(x.Work, 0o700)); err != nil {
			return nil, err
		}
		plan = append(plan, x)
		if caches[path].Variable == "GOMODCACHE" {
			o.modules = x
		}
		if err := unix.Lstat(path, &st); err != nil {
			return nil, err
		}
		o.covered[path] = overlay{dir: fileOf(&st)}
	}
	o.showModules()
	program := launch.Overlays(plan, os.Geteuid(), os.Getegid())
	defer program.Release()
	err := runStub(program, nil, func(kind byte, m *messages) (err error) {
		fd, ok := m.take()
		switch {
		case kind == launch.Overlaid && ok && len(plan) > 0:
			err = unix.Fstat(fd, &st)
			unix.Close(fd)
			at := o.covered[plan[0].Path]
			at.root = fileOf(&st)
			o.covered[plan[0].Path], plan = at, plan[1:]
		case kind == launch.Namespace && ok && o.users == nil:
			o.users = os.NewFile(uintptr(fd), "user namespace")
		case kind == launch.Namespace && ok && o.mounts == nil:
			o.mounts = os.NewFile(uintptr(fd), "mount namespace")
		}
		return err
	})
	if err == nil && o.mounts == nil {
		err = errors.New("the launcher ended")
	}
	if err != nil {
		o.users.Close()
		o.mounts.Close()
		return nil, err
	}
	return o, nil
}

// showModules ends the hiding of single files of modules that the user has, while no command uses the overlays. Inside
// and outside, go does not see the other's locks: while the user's go unpacks a module, one in the sandbox finds it
// half there, removes what it finds, and fails because more appears. Later it would take the rest for the whole module.
func (o *overlays) showModules() {
	upper := o.modules.Upper
	if upper == "" {
		return
	}
	filepath.WalkDir(upper, func(path string, d fs.DirEntry, err error) error {
		within := strings.TrimPrefix(path, upper)
		switch {
		case err != nil:
		case d.IsDir():
			if info, err := os.Lstat(o.modules.Path + within); within == "/cache" || err != nil || !info.IsDir() {
				return fs.SkipDir // downloads, and what hides nothing
			}
		case d.Type()&fs.ModeCharDevice != 0 && strings.Contains(filepath.Dir(within), "@"): // hides a name of the user's
			dir := filepath.Dir(path)
			if os.Remove(path) != nil {
				os.Chmod(dir, 0o755) // Go's directories are read-only
				os.Remove(path)
			}
		}
		return nil
	})
}

// layerName returns the name of a cache's directory in a layer.
func (c Cache) layerName() string {
	if c.Variable == "" {
		return "dir-" + filepath.Base(c.Path)
	}
	return strings.ToLower(strings.TrimSuffix(c.Variable+"-"+strings.ReplaceAll(c.Under, "/", "-"), "-"))
}
