package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
)

// What commands write to the caches of language tools is in one directory for each project: "own" has the
// caches that are only the project's, and 1, 2 … the layers over the user's caches, of which each running
// program has its own.

const (
	defaultLayerLimit = 2 << 30
	// unusedAfter is the time after which the layers of a project that nobody uses are removed.
	unusedAfter = 30 * 24 * time.Hour
)

// LayersOf returns the directory below base for what the commands of the project in dir write to caches.
// All worktrees of a repository are one project. Another repository at the same path later is another one.
func LayersOf(base, dir string) string {
	if base == "" {
		return ""
	}
	root := repositoryOf(dir)
	key := sha256.Sum256([]byte(root + "\x00" + birth(root)))
	return filepath.Join(base, hex.EncodeToString(key[:12]))
}

func (p *Policy) layerLimit() int64 {
	if p.LayerLimit > 0 {
		return p.LayerLimit
	}
	return defaultLayerLimit
}

// measureAfter is the time between two measurements of what is in the layers.
const measureAfter = time.Minute

// limits keep the directory Policy.Layers below its limit, and remove those of projects that nobody uses. The zero
// value is ready.
type limits struct {
	mu       sync.Mutex
	measured time.Time // when the size was last measured
	tooLarge bool      // it is above the limit
	// measuring ends when the size is known.
	measuring sync.WaitGroup
	unused    sync.Once
}

// begin is called before a command uses p.Layers.
func (l *limits) begin(p *Policy) {
	if p.Layers == "" {
		return
	}
	l.unused.Do(func() { go removeUnused(filepath.Dir(p.Layers), time.Now()) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.empty(p)
}

// large reports whether layers are to be emptied.
func (l *limits) large() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tooLarge
}

// end is called after a command used p.Layers.
func (l *limits) end(p *Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if p.Layers == "" || now.Sub(l.measured) <= measureAfter {
		return
	}
	l.measured = now
	l.measuring.Go(func() {
		os.Chtimes(p.Layers, now, now) // used now
		large := layersSize(p.Layers) > p.layerLimit()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tooLarge = large
	})
}

// close empties layers that are too large, because a program may end after its first command.
func (l *limits) close(p *Policy) {
	l.measuring.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.empty(p)
}

// empty empties layers that are too large. Those that are in use count again when they are measured again.
func (l *limits) empty(p *Policy) {
	if l.tooLarge {
		emptyLayers(p.Layers)
		l.tooLarge = false
	}
}

// lockLayer makes a layer's directory and locks it for this program, or with others who share it. unlock or the end
// of the program ends that.
func lockLayer(layer string, lock func(*os.File) error) (*os.File, error) {
	file := filepath.Join(layer, "lock")
	for tries := 0; ; tries++ {
		if err := os.MkdirAll(layer, 0o700); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
		if err == nil {
			if err = lock(f); err != nil {
				f.Close()
				return nil, err
			}
			// Whoever removes a layer has locked it and moved it away.
			var locked, now fs.FileInfo
			if locked, err = f.Stat(); err == nil {
				if now, err = os.Stat(file); err == nil && os.SameFile(locked, now) {
					return f, nil
				}
			}
			unlock(f)
		}
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case tries == 100:
			return nil, errors.New("removed again and again: " + layer)
		}
	}
}

// emptyLayer removes what is in a layer, which must be locked.
func emptyLayer(layer string) {
	entries, _ := os.ReadDir(layer)
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(layer, e.Name()))
		}
	}
}

// removed begins the names of layers that are being removed.
const removed = "removed-"

// emptyLayers removes the layers of a project and its own caches, except those that a program uses.
func emptyLayers(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasPrefix(e.Name(), removed) {
			lock, err := lockLayer(path, tryLock)
			if err != nil {
				continue
			}
			// Removing takes long, and others may be waiting for the lock.
			aside := filepath.Join(dir, removed+rand.Text())
			err = os.Rename(path, aside)
			unlock(lock)
			if err != nil {
				continue
			}
			path = aside
		}
		removeTree(path)
	}
}

// removeUnused removes the layers of projects in base that nobody has used for a long time.
func removeUnused(base string, now time.Time) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if info, err := os.Stat(dir); err == nil && now.Sub(info.ModTime()) > unusedAfter {
			emptyLayers(dir)
			os.Remove(dir) // fails if a layer is in use
		}
	}
}

// removeTree is os.RemoveAll for trees with read-only directories, such as Go's module cache.
func removeTree(dir string) error {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// layersSize returns the number of bytes that a directory takes on disk.
func layersSize(dir string) (size int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			size += onDisk(info)
		}
		return nil
	})
	return size
}

// A CacheReport describes what commands write to the caches of language tools.
type CacheReport struct {
	// Layered are the user's caches that commands read through a layer of the project, and Own the others,
	// in whose place they have directories of the project.
	Layered []string `json:"layered,omitempty"`
	Own     []string `json:"own,omitempty"`
	// Problem is why there are no layers; "" if there are.
	Problem string `json:"problem,omitempty"`
	// Project, Bytes and Limit are the directory of what this project's commands wrote, its size on disk,
	// and the size above which it is emptied.
	Project string `json:"project,omitempty"`
	Bytes   int64  `json:"bytes"`
	Limit   int64  `json:"limit"`
	// Projects and AllBytes are the number of projects on this machine with such a directory, and their size.
	Projects int   `json:"projects"`
	AllBytes int64 `json:"allBytes"`
}

// CacheReport returns what commands write to caches. It tests whether layers work.
func (s *Sandbox) CacheReport() CacheReport {
	p := &s.policy
	r := CacheReport{Project: p.Layers, Limit: p.layerLimit()}
	layered, problem := []string(nil), "the sandbox is off"
	if report := s.Report(); report.Level != None {
		layered, problem = s.system.layered(p, report)
	}
	for _, c := range p.Caches {
		switch {
		case c.Path != "" && withinAny(layered, resolved(c.Path)):
			r.Layered = append(r.Layered, c.Path)
		case c.Path != "" && !withinAny(p.opened(), resolved(c.Path)) && exists(c.Path):
			r.Own = append(r.Own, c.Path)
		}
	}
	if len(r.Own) > 0 {
		r.Problem = problem
	}
	if p.Layers != "" {
		entries, _ := os.ReadDir(filepath.Dir(p.Layers))
		for _, e := range entries {
			dir := filepath.Join(filepath.Dir(p.Layers), e.Name())
			size := layersSize(dir)
			if r.Projects++; dir == p.Layers {
				r.Bytes = size
			}
			r.AllBytes += size
		}
	}
	return r
}

// repositoryOf returns the git directory with the history of dir, or the directory that it belongs to without
// one. Worktrees of a repository have the same.
func repositoryOf(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for at := dir; ; at = filepath.Dir(at) {
		path := filepath.Join(at, ".git")
		if info, err := os.Lstat(path); err == nil {
			own, ok := gitfile.Target(path)
			// Anyone can write a .git file, so the directory that it names must refer back to it.
			if common := filepath.Dir(filepath.Dir(own)); ok && gitfile.IsWorktree(common, own, path) {
				return common
			}
			if info.IsDir() {
				return path
			}
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}
