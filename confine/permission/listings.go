package permission

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// listings remembers which entries directories have, as long as these do not change. The zero listings remembers
// nothing yet. It is safe for concurrent use and must not be copied.
type listings struct {
	mu      sync.Mutex
	dirs    map[string]listing
	entries int // in all of dirs
}

type listing struct {
	state   string
	entries []listed
}

// A listed is one entry of a directory.
type listed struct {
	name string
	mode fs.FileMode // only the type
}

// maxListed limits the entries that are remembered, which takes about 100 bytes each.
const maxListed = 300_000

// settled is how long ago a directory must have changed for its state to identify what is in it: file systems have
// coarse clocks.
const settled = 50 * time.Millisecond

// read returns the entries of a directory, none if it cannot be read. It must be called with mu held.
func (l *listings) read(dir string) []listed {
	dir = filepath.FromSlash(dir)
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	state, changed, ok := listingState(info)
	if known, has := l.dirs[dir]; has && ok && known.state == state {
		return known.entries
	}
	all, _ := os.ReadDir(dir)
	entries := make([]listed, len(all))
	for i, e := range all {
		entries[i] = listed{e.Name(), e.Type()}
	}
	l.entries -= len(l.dirs[dir].entries)
	delete(l.dirs, dir)
	if !ok || time.Since(changed) < settled {
		return entries
	}
	if l.entries+len(entries) > maxListed || l.dirs == nil {
		l.dirs, l.entries = map[string]listing{}, 0
	}
	l.dirs[dir] = listing{state, entries}
	l.entries += len(entries)
	return entries
}
