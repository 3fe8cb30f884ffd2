package coding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/search"
	"github.com/knack-agent/knack/run/tool"
)

// treeFS contains the methods of a workspace that grep, find and ls use.
type treeFS interface {
	readFS
	Stat(ctx context.Context, path string) (fs.FileInfo, error)
	ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error)
}

// A tree is a directory to walk, with counts of what the walk left out.
type tree struct {
	abs, real string
	dir       search.Dir

	closed     func(path string) bool // see [tool.Input]; nil: nothing is closed
	secrets    atomic.Int64
	ruledOut   atomic.Int64 // paths left out because of rules
	ignored    atomic.Int64 // paths that ignore files exclude
	mu         sync.Mutex
	unreadable int
	first      string // the first unreadable path, and why
}

// openTree opens the directory that was approved. A nil dir means that the path is a
// file.
func openTree(ctx context.Context, ws treeFS, name string, call tool.Input) (*tree, error) {
	abs, err := resolveExisting(ctx, ws, name)
	if err != nil {
		return nil, err
	}
	t := &tree{abs: abs}
	if t.real, err = ws.Realpath(ctx, abs); err != nil {
		return nil, fileError(abs, err)
	}
	if err := checkDecided(call, permission.KindRead, abs, t.real); err != nil {
		return nil, err
	}
	if call.Closed != nil {
		t.closed = call.Closed(abs, t.real)
	}
	info, err := ws.Stat(ctx, t.real)
	if err != nil {
		return nil, fileError(abs, err)
	}
	if !info.IsDir() {
		return t, nil
	}
	if local, ok := ws.(osFS); ok {
		t.dir, err = search.OpenDir(local.OSPath(t.real))
	} else {
		t.dir = &remote{ctx: ctx, ws: ws, path: t.real}
	}
	if errors.Is(err, search.ErrLink) {
		return nil, fmt.Errorf("%s was changed to lead elsewhere while the call was being decided on: try again", abs)
	}
	if err != nil {
		return nil, fileError(abs, err)
	}
	return t, nil
}

func (t *tree) Close() error {
	if t.dir == nil {
		return nil
	}
	return t.dir.Close()
}

// walk returns the configuration of a walk through the tree. It leaves out what ignore
// files exclude, including ignore files in the directories above it, up to the
// repository or the workspace. It also leaves out secrets; directories, and files
// for which progress returns true, are counted.
func (t *tree) walk(ctx context.Context, ws treeFS, o FileOptions, progress func(*search.Found) bool) search.Walk {
	top := t.real
	for dir := t.real; ; dir = filepath.Dir(dir) {
		if _, err := ws.Lstat(ctx, filepath.Join(dir, ".git")); err == nil {
			top = dir
			break
		}
		if filepath.Dir(dir) == dir {
			if rel := relative(ws.Dir(), t.real); !filepath.IsAbs(rel) {
				top = ws.Dir()
			}
			break
		}
	}
	var fsys fs.FS = remoteFS{ctx, ws, top}
	if local, ok := ws.(osFS); ok {
		fsys = os.DirFS(local.OSPath(top))
	}
	scope := ignore.New(fsys).Root()
	if rel := relative(top, t.real); rel != "." {
		for _, name := range strings.Split(rel, "/") {
			scope = scope.Enter(name, nil)
		}
	}
	leftOut := t.leftOut(ctx, ws, o)
	ignored := func(e *search.Found) {
		if e.Type.IsDir() || progress(e) {
			t.ignored.Add(1)
		}
	}
	return search.Walk{Root: t.dir, Ignore: scope, Problem: t.problem, Ignored: ignored, Skip: func(e *search.Found) bool {
		count := leftOut(e)
		if count == nil {
			return false
		}
		if e.Type.IsDir() || progress(e) {
			count.Add(1)
		}
		return true
	}}
}

// leftOut returns a func that returns where to count an entry that is left out, because read would not open it without
// a question, by its own name or, of a link, by that of its target; nil: it is not left out.
func (t *tree) leftOut(ctx context.Context, ws treeFS, o FileOptions) func(*search.Found) *atomic.Int64 {
	secret := o.secretIn(ws)
	return func(e *search.Found) *atomic.Int64 {
		if secret(filepath.Join(t.real, filepath.FromSlash(e.Path()))) {
			return &t.secrets
		}
		target := ""
		if e.Type&fs.ModeSymlink != 0 {
			target, _ = ws.Realpath(ctx, filepath.Join(t.real, filepath.FromSlash(e.Path()))) // "": it leads nowhere
			if target != "" && secret(target) {
				return &t.secrets
			}
		}
		if t.closed == nil {
			return nil
		}
		rel := filepath.FromSlash(e.Path())
		if t.closed(filepath.Join(t.real, rel)) || t.abs != t.real && t.closed(filepath.Join(t.abs, rel)) ||
			target != "" && t.closed(target) {
			return &t.ruledOut
		}
		return nil
	}
}

func (t *tree) problem(path string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unreadable++; t.unreadable == 1 {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		t.first = fmt.Sprintf("%s: %v", path, err)
	}
}

// notes describes what the walk left out. What ignore files exclude is named if nothing was found, which is surprising
// then.
func (t *tree) notes(found bool) []string {
	var out []string
	if n := int(t.ignored.Load()); n > 0 && !found {
		out = append(out, fmt.Sprintf("%s that ignore files exclude %s not searched: give one as path to search it.",
			count(n, "path"), pluralWas(n)))
	}
	if n := int(t.secrets.Load()); n > 0 {
		out = append(out, fmt.Sprintf("%s that may hold secrets %s left out.", count(n, "path"), pluralWas(n)))
	}
	if n := int(t.ruledOut.Load()); n > 0 {
		out = append(out, fmt.Sprintf("%s %s left out because of rules for reading.", count(n, "path"), pluralWas(n)))
	}
	if t.unreadable > 0 {
		out = append(out, fmt.Sprintf("%s could not be read (%s).", count(t.unreadable, "path"), t.first))
	}
	return out
}

func pluralWas(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// withNotes appends notes to a text, in one bracketed line.
func withNotes(text string, notes []string) string {
	if len(notes) == 0 {
		return text
	}
	return text + "\n\n[" + strings.Join(notes, " ") + "]"
}

// checkLimit returns the limit of a listing.
func checkLimit(limit *int, standard int) (int, error) {
	if limit == nil {
		return standard, nil
	}
	if *limit < 1 {
		return 0, fmt.Errorf("limit is %d: it must be at least 1", *limit)
	}
	return *limit, nil
}

// proposedLimit returns the limit to propose after the given limit was reached.
func proposedLimit(limit int) int {
	const maximum = 1 << 30
	return min(2*min(limit, maximum), maximum)
}

// A glob matches paths below a directory.
type glob struct {
	pattern string
	suffix  string // if set, pattern is "*" followed by this text without special characters
	deep    bool   // matches the path, not the name
	dirs    bool   // directories only
	not     bool
}

// newGlob parses a pattern. root is the directory that it is relative to.
func newGlob(pattern, root string) (glob, error) {
	var g glob
	p := pattern
	if rest, ok := strings.CutPrefix(filepath.ToSlash(p), filepath.ToSlash(root)+"/"); ok && filepath.IsAbs(pattern) {
		p = "./" + rest
	} else if filepath.IsAbs(pattern) {
		return g, fmt.Errorf("pattern %q is absolute: give the directory as path, and a pattern below it", pattern)
	}
	if slices.Contains(strings.Split(filepath.ToSlash(p), "/"), "..") {
		return g, fmt.Errorf("pattern %q leads out of the directory: give that directory as path, and a pattern within it",
			pattern)
	}
	for strings.HasPrefix(p, "./") {
		p, g.deep = p[2:], true
	}
	if rest, ok := strings.CutSuffix(p, "/"); ok {
		p, g.dirs = rest, true
	}
	if p == "" {
		return g, errors.New("the glob pattern is empty")
	}
	g.pattern = p
	g.deep = g.deep || strings.Contains(p, "/")
	if !doublestar.ValidatePattern(p) {
		return g, fmt.Errorf("invalid glob pattern %q: a [, { or \\ is not closed", pattern)
	}
	if rest, ok := strings.CutPrefix(p, "*"); ok && !g.deep && !strings.ContainsAny(rest, `*?[]{}\`) {
		g.suffix = rest
	}
	return g, nil
}

func (g *glob) match(e *search.Found) bool {
	if g.dirs && !e.Type.IsDir() {
		return false
	}
	var ok bool
	switch {
	case g.suffix != "":
		ok = strings.HasSuffix(e.Name, g.suffix)
	case g.deep:
		ok, _ = doublestar.Match(g.pattern, e.Path())
	default:
		ok, _ = doublestar.Match(g.pattern, e.Name)
	}
	return ok != g.not
}

// A remote is a directory of a workspace on another machine.
type remote struct {
	ctx  context.Context
	ws   treeFS
	path string
	all  map[string][]fs.DirEntry // entries by directory; nil: each directory is read when needed
}

// globFS is a workspace that can list a tree in one round trip.
type globFS interface {
	Glob(ctx context.Context, dir string, yield func(path string, d fs.FileInfo) error) error
}

// readAhead lists all that a walk will need in one round trip, if the workspace can.
func (t *tree) readAhead() error {
	r, ok := t.dir.(*remote)
	if !ok {
		return nil
	}
	g, ok := r.ws.(globFS)
	if !ok {
		return nil
	}
	r.all = map[string][]fs.DirEntry{}
	err := g.Glob(r.ctx, r.path, func(p string, d fs.FileInfo) error {
		r.all[path.Dir(p)] = append(r.all[path.Dir(p)], fs.FileInfoToDirEntry(namedEntry{d, path.Base(p)}))
		return nil
	})
	if err != nil {
		return fileError(t.abs, err)
	}
	return nil
}

// namedEntry is a FileInfo with a given base name.
type namedEntry struct {
	fs.FileInfo
	name string
}

func (n namedEntry) Name() string { return n.name }

func (r *remote) ReadDir() ([]fs.DirEntry, error) {
	if r.all != nil {
		return r.all[r.path], nil
	}
	return r.ws.ReadDir(r.ctx, r.path)
}

func (r *remote) Enter(name string) (search.Dir, error) {
	return &remote{ctx: r.ctx, ws: r.ws, path: path.Join(r.path, name), all: r.all}, nil
}

// Open opens a file, and fails if the path leads to another file through a link.
func (r *remote) Open(name string) (io.ReadCloser, error) {
	full := path.Join(r.path, name)
	f, err := r.ws.Open(r.ctx, full)
	if err != nil {
		return nil, err
	}
	if f.Realpath() != full {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: full, Err: search.ErrLink}
	}
	return f, nil
}

func (r *remote) Close() error { return nil }

// remoteFS is used to read ignore files.
type remoteFS struct {
	ctx context.Context
	ws  treeFS
	dir string
}

func (r remoteFS) Open(name string) (fs.File, error) {
	return r.ws.Open(r.ctx, path.Join(r.dir, name))
}
