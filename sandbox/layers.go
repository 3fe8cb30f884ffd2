package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"time"
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

// lockLayer makes and locks a layer's directory for this program. The lock ends with the file.
func lockLayer(layer string) (*os.File, error) {
	if err := os.MkdirAll(layer, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(layer, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
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

// emptyLayers removes what is in the layers of a project, except those that a program uses, and the
// project's own caches. It reports whether it removed everything.
func emptyLayers(dir string) (all bool) {
	all = true
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.IsDir() && e.Name() != "own" {
			lock, err := lockLayer(path)
			if err != nil {
				all = false
				continue
			}
			emptyLayer(path)
			lock.Close()
		}
	}
	if all {
		removeTree(filepath.Join(dir, "own"))
	}
	return all
}

// removeUnused removes the layers of projects in base that nobody has used for a long time.
func removeUnused(base string, now time.Time) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if info, err := os.Stat(dir); err == nil && now.Sub(info.ModTime()) > unusedAfter && emptyLayers(dir) {
			removeTree(dir)
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
