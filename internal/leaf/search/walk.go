package search

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/order"
)

// ErrLink means that a path contains a link although it must be a real path.
var ErrLink = errors.New("leads through a link")

// A Dir is an open directory. Its methods are safe for concurrent use, except Close, which
// must be called last. No method follows a symbolic link.
type Dir interface {
	ReadDir() ([]fs.DirEntry, error) // in any order
	Enter(name string) (Dir, error)
	Open(name string) (io.ReadCloser, error) // regular files only
	Close() error
}

// A Found is an entry found by a walk.
type Found struct {
	Dir    Dir    // the directory of the entry; only valid during the visit
	Parent string // path of Dir relative to the walk's root, with slashes; "" for the root
	Name   string
	Type   fs.FileMode // type bits of the entry itself: links are not followed
}

// Path returns the entry's path relative to the walk's root, with slashes.
func (e *Found) Path() string {
	if e.Parent == "" {
		return e.Name
	}
	return e.Parent + "/" + e.Name
}

// A Walk configures a walk through a directory tree.
type Walk struct {
	Root   Dir         // not closed by the walk
	Ignore *ignore.Dir // ignore rules of Root; nil: nothing is excluded
	// Ignored is called for each entry that the rules exclude, with everything below it. It is called concurrently. If it
	// is nil, they are not counted.
	Ignored func(*Found)
	// Skip reports whether to skip an entry and everything below it. nil skips nothing. It is
	// called concurrently. Entries named ".git" are always skipped.
	Skip func(*Found) bool
	// Problem is called for each error; the walk continues. It is called concurrently. If it
	// is nil, errors are ignored.
	Problem func(path string, err error)
}

// chunk is the maximum number of entries of a directory that a goroutine processes at once.
const chunk = 64

// Each visits every entry below the root. It runs several goroutines, each with its own
// visitor made by calling visitor, and yields the visitors' results ordered by path, component
// by component. Breaking out of the loop or cancelling ctx ends the walk, including all
// goroutines.
func Each[T any](ctx context.Context, w Walk, visitor func() func(*Found) []T) iter.Seq[T] {
	return func(yield func(T) bool) {
		root := &node[T]{dir: &openDir{Dir: w.Root}, scope: w.Ignore, done: make(chan struct{})}
		root.dir.refs.Store(2) // one for the node, one for the caller
		k := &walk[T]{Walk: w, open: 1, todo: []*node[T]{root}}
		k.wake.L = &k.mu
		var workers sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			workers.Go(func() { k.work(visitor()) })
		}
		defer workers.Wait()
		defer k.stop()
		defer context.AfterFunc(ctx, k.stop)()
		k.yield(ctx, root, yield)
	}
}

// A node is a part of the tree: a directory, or some of its entries.
type node[T any] struct {
	dir     *openDir // nil: not open yet; open name in parent
	parent  *openDir
	path    string
	name    string
	scope   *ignore.Dir   // ignore rules of the directory, or of parent while it is not open
	entries []Found       // entries to visit; nil for a directory
	done    chan struct{} // closed when the fields below are set
	out     []T
	kids    []*node[T] // come after out
}

// An openDir is closed when the last node that needs it is done.
type openDir struct {
	Dir
	refs atomic.Int32
}

func (d *openDir) release() {
	if d.refs.Add(-1) == 0 {
		d.Close()
	}
}

type walk[T any] struct {
	Walk
	mu      sync.Mutex
	wake    sync.Cond
	todo    []*node[T] // taken from the end, so that work is done in the order of paths
	open    int        // number of nodes that are not done
	stopped bool
}

func (k *walk[T]) stop() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.wake.Broadcast()
}

// next waits for a node to process. It returns nil if there are no more.
func (k *walk[T]) next() *node[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.todo) == 0 && k.open > 0 && !k.stopped {
		k.wake.Wait()
	}
	if k.stopped {
		for _, n := range k.todo {
			n.drop()
		}
		k.todo = nil
	}
	if len(k.todo) == 0 {
		return nil
	}
	n := k.todo[len(k.todo)-1]
	k.todo = k.todo[:len(k.todo)-1]
	return n
}

func (k *walk[T]) work(visit func(*Found) []T) {
	for n := k.next(); n != nil; n = k.next() {
		if n.entries == nil {
			k.list(n)
		}
		for i := range n.entries {
			n.out = append(n.out, visit(&n.entries[i])...)
		}
		n.entries = nil
		n.drop()
		k.mu.Lock()
		for _, kid := range slices.Backward(n.kids) {
			k.todo = append(k.todo, kid)
		}
		k.open += len(n.kids) - 1
		k.mu.Unlock()
		close(n.done)
		k.wake.Broadcast()
	}
}

// drop releases the directories that a node kept open.
func (n *node[T]) drop() {
	if n.dir != nil {
		n.dir.release()
	} else if n.parent != nil {
		n.parent.release()
	}
}

// list opens and reads a directory. The node itself visits the first entries; the rest become
// kids.
func (k *walk[T]) list(n *node[T]) {
	if n.dir == nil {
		d, err := n.parent.Enter(n.name)
		if err != nil {
			k.problem(n.path, err)
			return
		}
		n.parent.release()
		n.dir = &openDir{Dir: d}
		n.dir.refs.Store(1)
	}
	entries, err := n.dir.ReadDir()
	if err != nil {
		k.problem(n.path, err) // continue with the entries that were read
	}
	if n.name != "" && n.scope != nil {
		n.scope = n.scope.Enter(n.name, entries)
	}
	order.Stable(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var run []Found
	flush := func() {
		switch {
		case len(run) == 0:
		case len(n.kids) == 0 && n.entries == nil:
			n.entries = run
		default:
			n.dir.refs.Add(1)
			n.kids = append(n.kids, &node[T]{dir: n.dir, entries: run, done: make(chan struct{})})
		}
		run = nil
	}
	for i, e := range entries {
		entry := Found{Dir: n.dir.Dir, Parent: n.path, Name: e.Name(), Type: e.Type()}
		if entry.Name == ".git" {
			continue
		}
		if n.scope != nil && n.scope.Match(entry.Name, e.IsDir()) {
			if k.Ignored != nil {
				k.Ignored(&entry)
			}
			continue
		}
		if k.Skip != nil && k.Skip(&entry) {
			continue
		}
		if run == nil {
			run = make([]Found, 0, min(chunk, len(entries)-i))
		}
		run = append(run, entry)
		if e.IsDir() {
			flush()
			n.dir.refs.Add(1)
			n.kids = append(n.kids, &node[T]{
				parent: n.dir, path: entry.Path(), name: entry.Name, scope: n.scope, done: make(chan struct{}),
			})
		} else if len(run) == chunk {
			flush()
		}
	}
	flush()
}

func (k *walk[T]) problem(path string, err error) {
	if k.Problem != nil {
		k.Problem(path, err)
	}
}

// yield passes on the results of n and everything below it, in order.
func (k *walk[T]) yield(ctx context.Context, n *node[T], yield func(T) bool) bool {
	select {
	case <-n.done:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // select may choose done even if ctx is done too
		return false
	}
	for _, t := range n.out {
		if !yield(t) {
			return false
		}
	}
	n.out = nil
	for i, kid := range n.kids {
		n.kids[i] = nil
		if !k.yield(ctx, kid, yield) {
			return false
		}
	}
	return true
}
