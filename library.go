package knack

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A Library keeps the Catalog of its Sources up to date. An agent can take its method
// value Catalog. It is safe for concurrent use.
type Library struct {
	catalog atomic.Pointer[Catalog]

	mu      sync.Mutex // locked while sources are read
	sources []Source
	read    []sourceReading

	poll time.Duration // for tests: poll at this interval instead of watching
}

// NewLibrary reads sources; their order is their precedence.
func NewLibrary(ctx context.Context, sources ...Source) *Library {
	l := &Library{sources: slices.Clone(sources)}
	l.Reload(ctx)
	return l
}

// Catalog returns the current Catalog.
func (l *Library) Catalog() *Catalog { return l.catalog.Load() }

// Reload reads all sources again and returns the current Catalog. A [Folder] reads only files
// that changed. If nothing changed, or ctx ends, the Catalog remains the same.
func (l *Library) Reload(ctx context.Context) *Catalog {
	l.mu.Lock()
	defer l.mu.Unlock()
	read := make([]sourceReading, len(l.sources))
	var wg sync.WaitGroup
	for i, src := range l.sources {
		wg.Go(func() { read[i] = readSource(ctx, src) })
	}
	wg.Wait()
	if old := l.catalog.Load(); old != nil && (ctx.Err() != nil || slices.EqualFunc(read, l.read, sourceReading.equal)) {
		return old
	}
	l.read = read
	l.catalog.Store(catalog(read))
	return l.catalog.Load()
}

// Add appends sources and reads only these. It is used for the skills of nested
// directories.
func (l *Library) Add(ctx context.Context, sources ...Source) *Catalog {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, src := range sources {
		l.sources = append(l.sources, src)
		l.read = append(l.read, readSource(ctx, src))
	}
	if len(sources) > 0 {
		l.catalog.Store(catalog(l.read))
	}
	return l.catalog.Load()
}

// Refresh reads only these sources again. They are compared with ==.
func (l *Library) Refresh(ctx context.Context, sources ...Source) *Catalog {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := false
	for _, src := range sources {
		if i := slices.Index(l.sources, src); i >= 0 {
			l.read[i], changed = readSource(ctx, src), true
		}
	}
	if changed {
		l.catalog.Store(catalog(l.read))
	}
	return l.catalog.Load()
}

// With returns the current Catalog extended by further sources, which are read once and
// are not added to the Library.
func (l *Library) With(ctx context.Context, sources ...Source) *Catalog {
	l.mu.Lock()
	read := slices.Clone(l.read)
	l.mu.Unlock()
	for _, src := range sources {
		read = append(read, readSource(ctx, src))
	}
	return catalog(read)
}

// Replace replaces all sources, including those from [Library.Add], and returns the new
// Catalog.
func (l *Library) Replace(ctx context.Context, sources ...Source) *Catalog {
	l.mu.Lock()
	l.sources = slices.Clone(sources)
	l.mu.Unlock()
	return l.Reload(ctx)
}

func (r sourceReading) equal(o sourceReading) bool {
	same := func(a, b *Skill) bool {
		return a == b || a.Size == b.Size && a.ID == b.ID && a.Name == b.Name && a.Summary() == b.Summary() &&
			a.FeatureOff == b.FeatureOff && a.Origin == b.Origin && a.fields == b.fields
	}
	return r.location == o.location && slices.EqualFunc(r.skills, o.skills, same) && slices.Equal(r.problems, o.problems)
}

// A Watcher is a Source that reports when it should be read again. A Folder does not
// need this: the Library watches its directories.
type Watcher interface {
	Source
	// Watch calls changed whenever the source should be read again, never concurrently,
	// until ctx ends.
	Watch(ctx context.Context, changed func()) error
}

// watched returns the directories to watch for changes of a source.
func watched(src Source) []string {
	if w, ok := src.(interface{ watched() []string }); ok {
		return w.watched()
	}
	return nil
}

const (
	quietTime    = 100 * time.Millisecond // how long changes are collected before a reload
	pollInterval = 2 * time.Second        // of polling
)

// Watch reloads the Library when its sources change, and calls changed (unless it is
// nil) with each new Catalog, until ctx ends. If the system cannot report changes, it
// polls every two seconds.
func (l *Library) Watch(ctx context.Context, changed func(*Catalog)) error {
	return l.watch(ctx, false, changed)
}

// WatchFiles is like Watch, and also watches the files beside each SKILL.md. changed is then
// also called with the same Catalog as before: one of these files may have changed.
func (l *Library) WatchFiles(ctx context.Context, changed func(*Catalog)) error {
	return l.watch(ctx, true, changed)
}

func (l *Library) watch(ctx context.Context, files bool, changed func(*Catalog)) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	kick := make(chan struct{}, 1)
	touch := func() {
		select {
		case kick <- struct{}{}:
		default: // a notification is already pending
		}
	}
	l.mu.Lock()
	for _, src := range l.sources {
		if w, ok := src.(Watcher); ok {
			wg.Go(func() {
				// A source whose Watch fails is no longer updated.
				_ = w.Watch(ctx, touch)
			})
		}
	}
	l.mu.Unlock()

	var events chan fsnotify.Event
	var errs chan error
	watching := map[string]bool{}
	var fsw *fsnotify.Watcher
	every := pollInterval
	if l.poll > 0 {
		every = l.poll
	} else {
		if w, err := fsnotify.NewWatcher(); err == nil {
			fsw = w
			defer fsw.Close()
			events, errs = fsw.Events, fsw.Errors
		}
	}
	// follow updates the watched directories; it returns false if one cannot be watched.
	follow := func() bool {
		if fsw == nil {
			return false
		}
		more := false
		want := map[string]bool{}
		l.mu.Lock()
		for _, src := range l.sources {
			for _, dir := range watched(src) {
				want[dir] = true
			}
		}
		l.mu.Unlock()
		if files {
			for _, s := range l.Catalog().Skills() {
				for _, dir := range s.directories(ctx) {
					want[dir] = true
				}
			}
		}
		all := true
		for dir := range want {
			if !watching[dir] {
				if fsw.Add(dir) != nil {
					all = false
					continue
				}
				watching[dir], more = true, true
			}
		}
		for dir := range watching {
			if !want[dir] {
				_ = fsw.Remove(dir) // the directory may no longer exist
				delete(watching, dir)
			}
		}
		if more {
			touch() // for changes made before it was watched
		}
		return all
	}
	see := func(e fsnotify.Event) {
		if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
			delete(watching, e.Name) // the system no longer watches it
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	if follow() {
		tick.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			see(e)
			if e.Op == fsnotify.Chmod {
				continue
			}
		case <-errs: // events were lost
		case <-tick.C:
		case <-kick:
		}
		if !awaitQuiet(ctx, events, see) {
			return nil
		}
		old := l.Catalog()
		cat := l.Reload(ctx)
		if follow() {
			tick.Stop()
		} else {
			tick.Reset(every)
		}
		if (cat != old || files) && changed != nil {
			changed(cat)
		}
	}
}

// awaitQuiet waits until no more events arrive, and passes them to see. It returns false if ctx ends.
func awaitQuiet(ctx context.Context, events <-chan fsnotify.Event, see func(fsnotify.Event)) bool {
	t := time.NewTimer(quietTime)
	defer t.Stop()
	for range 20 { // a limit, in case something never stops writing
		select {
		case <-ctx.Done():
			return false
		case e := <-events:
			see(e)
			t.Reset(quietTime)
		case <-t.C:
			return true
		}
	}
	return true
}
