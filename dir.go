package knack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/filetree"
	"github.com/knack-agent/knack/internal/leaf/headcache"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Limits of a search.
const (
	maxDepth    = 6
	maxSearched = 2000 // directories that are not skills themselves
	maxPassed   = 500  // directories that are only looked into to name the skills in them
)

// headSize is how many bytes of a file are read first.
const headSize = 4 << 10

// Dir returns the skills of a directory on disk: a [Folder] with only Path and Origin
// set.
func Dir(path string, o Origin) Source { return &Folder{Path: path, Origin: o} }

// A Folder is a place on disk that contains skills: a directory that is searched for
// directories with a SKILL.md, such a directory itself, or a single file. A path that
// does not exist has no skills.
//
// A directory with a SKILL.md (in any letter case; the exact name wins) is one skill and
// is not searched further. Other directories are searched to a depth of 6, at most 2,000
// of them. Directories whose names begin with a dot, node_modules, and whatever ignore
// files at or below Path exclude are skipped; a Problem names those with skills that were
// skipped for their names or depth. Links to directories are followed, but
// each directory is searched once.
//
// Calling Skills again reads only files that have changed. The fields must not be
// changed after the first use.
type Folder struct {
	Path   string
	Origin Origin
	// Files also loads the *.md files directly in Path that have a description, as Pi
	// does.
	Files bool
	// Commands loads all *.md files as skills: a/b.md becomes a:b.
	Commands bool
	// Pack also searches the directories beside a SKILL.md that is directly in Path.
	// This is for a repository of skills that was cloned into a place for skills. The
	// skills found there are not resources of the one in Path.
	Pack bool
	// Root limits links: a link whose target is outside of Root has the trust that
	// Outside returns. "" means no limit.
	Root string
	// Outside returns the trust of a directory, given its real path. nil means that all
	// are Untrusted. Untrusted targets are not read.
	Outside func(dir string) Trust
	// Check, if not nil, decides on the trust of each file from the bytes just read: nil
	// means Trusted; an error means Untrusted, and becomes a Problem. data is the whole
	// file, or, if head is set, its first 4 KiB, and the rest has not been read. A skill
	// in use consists only of bytes that Check has accepted, also when it is invoked.
	// Check is called concurrently.
	Check func(path string, data []byte, head bool) error
	// Replaces, if not nil, reports whether the user agreed that the skill at a path
	// replaces the bundled one of its name; see [Origin].
	Replaces func(path, name string) bool
	// Cache is a directory that stores what was read, so that the next start need not read
	// trusted files again that did not change (without a Check and a Root, on a local file
	// system), or need not parse those again whose bytes Check accepted. Only what is
	// displayed of a skill comes from the cache: invoking it reads the file. "" means no cache.
	Cache string

	mu   sync.Mutex
	last []priorResult // results of the last reading
	dirs []string      // directories of the last reading, for a watcher

	now            func() time.Time // for tests; nil: time.Now
	opened         int64            // files opened in the last reading
	found, refused int              // skills of the last reading, and those that Check refused
}

// A readResult is the result of reading a file. The file is not read again while its
// time and size stay the same.
type readResult struct {
	skill    *Skill
	problems []Problem
	mod      time.Time
	size     int64
	trust    Trust
}

// A priorResult is a file with the result of reading it.
type priorResult struct {
	path string
	readResult
}

// recentWrite is how old a file must be when it is read, so that a later change certainly
// gets a different time: the clocks of file systems are coarse.
const recentWrite = 2 * time.Second

// A Location is a place where a Source looks for skills.
type Location struct {
	Kind    SourceKind
	Label   string // name of the plugin or server
	Path    string // "" if it is not on disk
	Trust   Trust  // the lowest of the skills found there
	Missing bool   // it does not exist
	Skills  int    // number found there, used or not
	Unasked string // why it was not searched; "": it was
}

// Location returns where the folder is. If the folder has a Check, it is trusted if
// every skill of the last reading is.
func (f *Folder) Location() Location {
	_, err := os.Stat(f.Path)
	f.mu.Lock()
	defer f.mu.Unlock()
	trust := f.Origin.Trust
	if f.Check != nil && f.found > 0 {
		trust = Untrusted
		if f.refused == 0 {
			trust = Trusted
		}
	}
	return Location{Kind: f.Origin.Kind, Label: f.Origin.Label, Path: f.Path, Trust: trust,
		Missing: errors.Is(err, fs.ErrNotExist)}
}

// Skills yields the folder's skills, sorted by name.
func (f *Folder) Skills(ctx context.Context) iter.Seq2[*Skill, error] {
	return func(yield func(*Skill, error) bool) {
		f.mu.Lock()
		w := &walk{ctx: ctx, last: make(map[string]readResult, len(f.last)), next: []priorResult{}, links: map[string]bool{},
			origin: f.Origin, files: f.Files, commands: f.Commands, pack: f.Pack, outside: f.Outside, check: f.Check,
			replaces: f.Replaces}
		for _, s := range f.last {
			w.last[s.path] = s.readResult
		}
		files := filetree.OpenDisk(f.Path)
		defer files.Close()
		w.fsys = files
		now := f.now
		if now == nil {
			now = time.Now
		}
		if f.last == nil {
			w.openCache(f, files, now()) // a file that changes after it was read has a later time
		}
		f.mu.Unlock()
		w.start(f.Path, f.Root)
		if ctx.Err() == nil && w.cacheUsed.Load() {
			w.cache().Update(w.uncached)
		}
		f.mu.Lock()
		f.opened = w.opened.Load()
		f.last, f.dirs, f.found, f.refused = w.next, w.dirs, 0, 0
		for _, o := range w.found {
			if o.skill != nil {
				f.found++
				if o.skill.Origin.Trust == Untrusted {
					f.refused++
				}
			}
		}
		f.mu.Unlock()
		w.yield(yield)
	}
}

// An Excluded is a file that would be a skill if no ignore file excluded it.
type Excluded struct {
	Path string
	By   string // the line that excludes it, such as .gitignore:3: drafts/
}

// Excluded returns the skills that ignore files at or below Path exclude. It does not
// read them and follows no links.
func (f *Folder) Excluded(ctx context.Context) []Excluded {
	var all []Excluded
	fsys := os.DirFS(f.Path)
	tree, looked := ignore.New(fsys), 0
	// The only errors are those of ctx and of unreadable directories, which Skills
	// reports.
	_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), fs.SkipDir)
		}
		base := path.Base(name)
		switch {
		case name == ".":
		case base[0] == '.' || base == "node_modules":
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			if looked++; looked > 2*maxSearched || strings.Count(name, "/") >= maxDepth {
				return fs.SkipDir
			}
		case f.Commands && strings.EqualFold(path.Ext(name), ".md") || strings.EqualFold(base, "SKILL.md") && name != base:
			if by := tree.Explain(name, false); by != "" {
				all = append(all, Excluded{filepath.Join(f.Path, filepath.FromSlash(name)), by})
			}
		}
		return nil
	})
	return all
}

// watched returns the directories of the last reading. For a folder that does not exist,
// it returns the nearest existing directory above it.
func (f *Folder) watched() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.dirs) > 0 {
		return f.dirs
	}
	for dir := filepath.Clean(f.Path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return []string{dir}
		}
	}
}

// A walk is one search of a folder. The directories of one level are read in parallel,
// and the results are then processed in order, so that which files are read never
// depends on timing.
type walk struct {
	ctx      context.Context
	fsys     filetree.Tree
	origin   Origin
	files    bool
	commands bool
	pack     bool
	top      string // real path of the folder
	root     string // real path; "" means no limit
	outside  func(string) Trust
	check    func(path string, data []byte, head bool) error
	replaces func(path, name string) bool

	last      map[string]readResult
	next      []priorResult
	links     map[string]bool // real paths of directories that links point to
	dirs      []string
	searched  int
	passed    int // directories that passOver looked into
	missing   int // files that missed read
	found     []outcome
	readers   []headReader            // one for each goroutine
	cache     func() *headcache.Cache // opens the cache at the first use; nil: there is none
	cacheUsed atomic.Bool
	versions  *fileVersions               // how the cache knows files; nil: by their content
	uncached  []headcache.Entry           // results that can be cached
	finish    func(s *Skill, name string) // sets how a skill reads the rest of its content; nil: as from a disk
	opened    atomic.Int64
}

// An outcome is the result of reading a file.
type outcome struct {
	path     string
	skill    *Skill
	problems []Problem
}

// A searchPath is a directory to search, or a file to read.
type searchPath struct {
	path, real string
	skill      string // path of the SKILL.md in a directory; "": not made yet
	rel        string // relative to the folder; "" is the folder itself
	depth      int
	linkBound  string // the directory that links must not leave
	trust      Trust
	scope      *ignore.Dir // ignore rules of the directory above; nil for the folder itself
	optional   bool        // a *.md file that need not be a skill
	file       bool
}

// A fileResult is what was found at a searchPath.
type fileResult struct {
	*outcome
	read     readResult
	uncached *headcache.Entry // new entry for the cache, if there is one
	scope    *ignore.Dir
	entries  []fs.DirEntry // of a directory that is not a skill
	isDir    bool
}

func (w *walk) problem(p Problem) {
	w.found = append(w.found, outcome{path: p.Path, problems: []Problem{p}})
}

func (w *walk) start(dir, root string) {
	dir = filepath.Clean(dir)
	info, err := w.fsys.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		w.problem(unreadable(dir, err))
		return
	}
	real, err := w.fsys.Real(dir)
	if err != nil {
		w.problem(unreadable(dir, err))
		return
	}
	w.top = real
	top := searchPath{path: dir, real: real, trust: w.origin.Trust, linkBound: real, file: !info.IsDir()}
	if root != "" {
		if w.root, err = w.fsys.Real(root); err != nil {
			w.problem(unreadable(root, err))
			return
		}
		if subpath.Contains(w.root, real) {
			top.linkBound = w.root
		} else if top.trust = w.outsideTrust(dir, real); top.trust == Untrusted {
			return
		}
	}
	for level := []searchPath{top}; len(level) > 0 && w.ctx.Err() == nil; {
		level = w.level(level)
	}
	order.Stable(w.found, func(a, b outcome) int {
		if a.skill != nil && b.skill != nil && a.skill.Name != b.skill.Name {
			return strings.Compare(a.skill.Name, b.skill.Name)
		}
		if (a.skill == nil) != (b.skill == nil) { // makes the order total
			if a.skill != nil {
				return -1
			}
			return 1
		}
		return strings.Compare(a.path, b.path)
	})
}

// level reads the paths of one depth and returns the paths below them.
func (w *walk) level(paths []searchPath) (below []searchPath) {
	const chunk = 2048 // paths read before the limits are checked again
	all := make([]fileResult, min(chunk, len(paths)))
	if w.readers == nil {
		w.readers = make([]headReader, maxWorkers())
	}
	w.found, w.dirs, w.next = slices.Grow(w.found, len(paths)), slices.Grow(w.dirs, len(paths)),
		slices.Grow(w.next, len(paths))
	for len(paths) > 0 && w.ctx.Err() == nil {
		n := min(chunk, len(paths))
		results := all[:n]
		var next atomic.Int32
		parallel(n, func() func(int) {
			h := &w.readers[next.Add(1)-1]
			return func(i int) { results[i] = w.examine(paths[i], h) }
		})
		for i := range results {
			l, s := &results[i], &paths[i]
			if l.outcome != nil {
				w.found = append(w.found, *l.outcome)
				w.inside(s, l.outcome)
				if !l.read.mod.IsZero() {
					w.next = append(w.next, priorResult{l.path, l.read})
				}
			}
			if l.uncached != nil {
				w.uncached = append(w.uncached, *l.uncached)
			}
			if !s.file {
				w.dirs = append(w.dirs, s.path)
			}
			if !l.isDir {
				continue
			}
			if w.searched++; w.searched > maxSearched {
				w.problem(Problem{Code: CodeLimitReached, Severity: Warn, Path: s.path,
					Message: fmt.Sprintf(
						"more than %d directories without a skill in them: this one and what follows are not searched", maxSearched),
					Hint: "exclude directories without skills with an .ignore file"})
				return nil
			}
			if more := w.below(s, l); below == nil {
				below = more // the usual case, without a copy
			} else {
				below = append(below, more...)
			}
		}
		paths = paths[n:]
	}
	return below
}

// below returns the paths in a directory.
func (w *walk) below(s *searchPath, l *fileResult) (below []searchPath) {
	scope := l.scope
	below = make([]searchPath, 0, len(l.entries))
	for _, e := range l.entries {
		name := e.Name()
		if name[0] == '.' && e.IsDir() && !scope.Match(name, true) {
			dir := w.fsys.Join(s.path, name)
			w.passOver(dir, "the name "+plain.Line(name)+" begins with a dot")
		}
		if name[0] == '.' || name == "node_modules" || s.rel == "" && strings.EqualFold(name, "SKILL.md") && !e.IsDir() {
			continue
		}
		next := searchPath{rel: name,
			depth: s.depth + 1, linkBound: s.linkBound, trust: s.trust, scope: scope}
		if s.rel != "" {
			next.rel = s.rel + "/" + name
		}
		if e.IsDir() {
			next.path, next.skill = w.fsys.JoinFile(s.path, name, "SKILL.md")
		} else {
			next.path = w.fsys.Join(s.path, name)
		}
		if next.real = next.path; s.real != s.path { // share one string
			next.real = w.fsys.Join(s.real, name)
		}
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := w.fsys.Stat(next.path)
			if err == nil {
				next.real, err = w.fsys.Real(next.path)
			}
			if err != nil {
				w.problem(Problem{Code: CodeUnreadable, Severity: Warn, Path: next.path, Message: "the link leads nowhere: " +
					reason(err)})
				continue
			}
			isDir = info.IsDir()
			if isDir && !scope.Match(name, true) {
				if w.links[next.real] || subpath.Contains(next.real, s.real) {
					w.problem(Problem{Code: CodeDuplicateFile, Severity: Info, Path: next.path,
						Message: "the link leads to " + next.real + ", which is searched already"})
					continue
				}
				w.links[next.real] = true
				if !w.resolveLink(&next) {
					continue
				}
			}
		}
		if scope.Match(name, isDir) {
			continue
		}
		if isDir {
			if next.depth > maxDepth {
				w.passOver(next.path, fmt.Sprintf("it is deeper than %d directories", maxDepth))
				continue
			}
			below = append(below, next)
		} else if (w.commands || w.files && s.rel == "") && strings.EqualFold(filepath.Ext(name), ".md") {
			next.file, next.optional = true, true
			below = append(below, next)
		} else if e.Type().IsRegular() {
			w.missed(s, name)
		}
	}
	return below
}

// maxInside is how many skills a search examines for further skills inside them.
const maxInside = 200

// inside reports skills in the folder of another skill, as some packs have them: they are not found, because such files
// belong to the outer skill.
func (w *walk) inside(s *searchPath, o *outcome) {
	if s.file || o.skill == nil || len(w.found) > maxInside {
		return
	}
	dir := w.fsys.Join(s.path, "skills")
	if info, err := w.fsys.Stat(dir); err == nil && info.IsDir() {
		w.passOver(dir, "it is inside of a skill")
	}
}

// passOver reports a directory that is not searched if there are skills in it. It follows no links.
func (w *walk) passOver(dir, why string) {
	if w.commands || filepath.Base(dir) == ".git" {
		return
	}
	found := 0
	level := []string{dir}
	for depth := 0; depth <= maxDepth && len(level) > 0; depth++ {
		var below []string
		for _, d := range level {
			if w.passed++; w.passed > maxPassed || w.ctx.Err() != nil {
				break
			}
			entries, _ := w.fsys.ReadDir(d) // what cannot be read has no skills to name
			if slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
				return !e.IsDir() && strings.EqualFold(e.Name(), "SKILL.md")
			}) {
				found++
				continue
			}
			for _, e := range entries {
				if e.IsDir() && e.Name() != "node_modules" && e.Name() != ".git" {
					below = append(below, w.fsys.Join(d, e.Name()))
				}
			}
		}
		level = below
	}
	if found > 0 {
		w.problem(Problem{Code: CodeNotSearched, Severity: Warn, Path: dir, Message: fmt.Sprintf(
			"not searched, because %s: %s in it", why, plain.Count(found, "skill")),
			Hint: "to use them: --skill " + plain.Line(dir)})
	}
}

// resolveLink sets the trust of a path that a link points to. It returns false if the path
// must not be read: it could be any file that the user can read.
func (w *walk) resolveLink(s *searchPath) bool {
	switch {
	case w.root == "":
	case subpath.Contains(w.root, s.real):
		s.trust, s.linkBound = w.origin.Trust, w.root
	case !subpath.Contains(s.linkBound, s.real):
		dir := s.real
		if s.file {
			dir = filepath.Dir(dir)
		}
		s.trust, s.linkBound = w.outsideTrust(s.path, dir), dir
		return s.trust != Untrusted
	}
	return true
}

// outsideTrust returns the trust of the target of a link that points out of the project, and adds
// a problem if it is Untrusted.
func (w *walk) outsideTrust(link, real string) Trust {
	if w.outside != nil {
		if t := w.outside(real); t != Untrusted {
			return t
		}
	}
	w.problem(Problem{Code: CodeSymlinkOutside, Severity: Warn, Path: link,
		Message: "the link leads out of the project, to " + real + ", which needs trust of its own"})
	return Untrusted
}

// examine reads the skill at a path, or lists a directory that is not a skill.
func (w *walk) examine(s searchPath, h *headReader) fileResult {
	if s.file {
		if s.scope == nil && !strings.EqualFold(filepath.Base(s.path), "SKILL.md") {
			s.optional = true // the user named this file
		}
		return w.read(s, s.path, h)
	}
	pack := w.pack && s.rel == ""
	if s.skill == "" {
		s.skill = w.fsys.Join(s.path, "SKILL.md")
	}
	l := w.read(s, s.skill, h)
	if l.outcome != nil && !pack {
		return l
	}
	entries, err := w.fsys.ReadDir(s.path)
	if err != nil {
		if l.outcome == nil {
			l.outcome = &outcome{path: s.path, problems: []Problem{unreadable(s.path, err)}}
		}
		return l
	}
	for _, e := range entries {
		if l.outcome == nil && !e.IsDir() && strings.EqualFold(e.Name(), "SKILL.md") {
			l = w.read(s, w.fsys.Join(s.path, e.Name()), h)
		}
	}
	if l.outcome != nil && !pack {
		return l
	}
	l.entries, l.isDir = entries, true
	if s.scope == nil {
		l.scope = ignore.New(w.fsys.Sub(s.path)).Root()
	} else {
		l.scope = s.scope.Enter(filepath.Base(s.path), entries)
	}
	return l
}

// read reads the head of a file. The result has no outcome if the file does not exist or
// is excluded.
func (w *walk) read(s searchPath, name string, h *headReader) (l fileResult) {
	real := s.real
	switch {
	case s.file:
	case s.real == s.path:
		real = name // share one string
	default:
		real = w.fsys.Join(s.real, filepath.Base(name))
	}
	fail := func(err error) fileResult {
		return fileResult{outcome: &outcome{path: name, problems: []Problem{unreadable(name, err)}}}
	}
	excluded := func() bool {
		return s.scope != nil && !s.file && !s.scope.Empty() && s.scope.Enter(filepath.Base(filepath.Dir(name)),
			[]fs.DirEntry{}).Match(filepath.Base(name), false)
	}
	var version headcache.Key // taken before the file is read, so that it never describes newer bytes
	keep := false
	if w.versions != nil && s.trust == Trusted {
		var id filetree.ID
		if version, id, keep = w.versions.key(name); keep {
			if text, ok := w.cache().Find(name, version); ok {
				if excluded() {
					return fileResult{}
				}
				if l, ok := w.cached(s, text, name, real); ok {
					if l.outcome != nil {
						l.read.mod, l.read.size, l.read.trust = time.Unix(0, id.MTime), id.Size, s.trust
					}
					return l
				}
			}
		}
	}
	f, err := w.fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fileResult{}
	}
	w.opened.Add(1)
	var linkProblems []Problem
	at := name // path of the file that contains the bytes
	if errors.Is(err, filetree.ErrLink) {
		if real, err = w.fsys.Real(name); err == nil {
			// Several files are examined in parallel, so problems are added to the
			// outcome, not to w.
			inner := walk{root: w.root, outside: w.outside, origin: w.origin}
			link := searchPath{path: name, real: real, file: true, trust: s.trust, linkBound: s.linkBound}
			open := inner.resolveLink(&link)
			s.trust = link.trust
			for _, o := range inner.found {
				linkProblems = append(linkProblems, o.problems...)
			}
			if !open {
				return fileResult{outcome: &outcome{path: name, problems: linkProblems}}
			}
			if w.root != "" && subpath.Contains(w.root, real) {
				at = real
			}
			f, err = w.fsys.Open(real)
		}
	}
	if err != nil {
		l := fail(err)
		if _, closed := w.fsys.Stat(name); errors.Is(closed, fs.ErrPermission) { // it is the directory that is inaccessible
			l.problems[0].Hint = "chmod u+rX " + s.path
		}
		return l
	}
	defer f.Close()
	if excluded() {
		return fileResult{}
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return fail(err)
	case !info.Mode().IsRegular():
		return fail(errors.New("not a regular file"))
	case info.Size() > maxFile:
		return fileResult{outcome: &outcome{path: name, problems: []Problem{{Code: CodeTooLarge, Severity: Error, Path: name,
			Message: fmt.Sprintf("%d bytes: a skill's file has at most %d", info.Size(), maxFile),
			Hint:    "move what is not needed at once into other files"}}}}
	}
	l.read = readResult{mod: info.ModTime(), size: info.Size(), trust: s.trust}
	if old, ok := w.last[name]; ok && w.check == nil && old.mod.Equal(l.read.mod) && old.size == l.read.size &&
		old.trust == s.trust &&
		(old.skill == nil || old.skill.ID == real) {
		l.read = old
	} else {
		head, err := h.read(f, info.Size())
		if err != nil {
			return fail(err)
		}
		if to := textLink(head, info.Size()); to != "" && !s.optional {
			return w.followTextLink(s, name, at, to, bytes.Clone(head), h)
		}
		if w.check == nil {
			l.read.skill, l.read.problems = w.parse(s, name, real, head, info.Size(), h)
		} else if err := w.parseChecked(&l, s, f, name, at, real, head, info.Size(), h); err != nil {
			return fail(err)
		}
	}
	if k := l.read.skill; k != nil && k.stamp == 0 {
		k.stamp = hashNumber(hashNumber(hashSeed, uint64(info.ModTime().UnixNano())), uint64(info.Size()))
	}
	if keep {
		l.uncached = &headcache.Entry{Path: name, Key: version, Text: encodeOutcome(l.read.skill, l.read.problems)}
	}
	if l.read.skill == nil && l.read.problems == nil {
		return fileResult{uncached: l.uncached} // a loose file that is not a skill
	}
	l.outcome = &outcome{path: name, skill: l.read.skill, problems: append(linkProblems, l.read.problems...)}
	if time.Since(l.read.mod) < recentWrite {
		l.read.mod = time.Time{}
	}
	return l
}

// cached returns what reading a file would return, from its text in the cache.
func (w *walk) cached(s searchPath, text, name, real string) (fileResult, bool) {
	skill, problems, ok := decodeOutcome(text, name)
	if !ok {
		return fileResult{}, false
	}
	if skill == nil && problems == nil {
		return fileResult{}, true
	}
	if skill != nil {
		skill.ID, skill.Path, skill.Origin = real, name, w.origin
		w.setReaders(skill, s, name)
	}
	return fileResult{outcome: &outcome{path: name, skill: skill, problems: problems},
		read: readResult{skill: skill, problems: problems}}, true
}

// textLink returns the target of a symbolic link that was checked out as a text file, as
// git does where links are not supported. Such a file contains only a path. It returns
// "" for other files.
func textLink(data []byte, size int64) string {
	whole := int64(len(data)) == size
	if data = bytes.TrimRight(data, "\r\n"); !whole || bytes.IndexByte(data, '\n') >= 0 {
		return "" // almost all files
	}
	text := string(data)
	if text == "" || !utf8.ValidString(text) || path.IsAbs(text) ||
		!strings.Contains(text, "/") && !strings.EqualFold(path.Ext(text), ".md") ||
		strings.ContainsFunc(text, func(r rune) bool {
			return r <= ' ' || strings.ContainsRune("\\:*?\"<>|`#", r) ||
				!unicode.IsPrint(r)
		}) {
		return ""
	}
	return text
}

// followTextLink reads the skill that a link checked out as text points to. at is the path of
// the file with that text, and to is the text.
func (w *walk) followTextLink(s searchPath, name, at, to string, text []byte, h *headReader) fileResult {
	refuse := func(problem Problem) fileResult {
		return fileResult{outcome: &outcome{path: name, problems: []Problem{problem}}}
	}
	broken := func(why string) fileResult {
		return refuse(Problem{Code: CodeLinkAsText, Severity: Warn, Path: name,
			Message: "the file contains only " + plain.Line(to) + ", a symbolic link that was checked out as text: " + why,
			Hint:    "git config core.symlinks true, then check the file out again"})
	}
	target := w.fsys.Join(filepath.Dir(at), filepath.FromSlash(to))
	real, err := w.fsys.Real(target)
	if err != nil {
		return broken("it leads nowhere")
	}
	bound := w.root
	if bound == "" {
		bound = w.top
	}
	if !subpath.Contains(bound, real) {
		return broken("it leads out of " + bound)
	}
	if w.check != nil {
		if err := w.check(at, text, false); err != nil {
			return refuse(asProblem(name, err))
		}
	}
	data, err := w.fsys.Read(real, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return broken("it leads nowhere")
	case err != nil:
		return broken("its target cannot be read: " + reason(err))
	case textLink(data, int64(len(data))) != "":
		return broken("it links to another one")
	}
	var l fileResult
	if w.check == nil {
		l.read.skill, l.read.problems = w.parse(s, name, real, data, int64(len(data)), h)
		if l.read.skill != nil {
			l.read.skill.Read = func(context.Context) ([]byte, error) { return w.fsys.Read(real, maxFile) }
		}
	} else if err := w.parseChecked(&l, s, nil, name, real, real, data, int64(len(data)), h); err != nil {
		return refuse(unreadable(name, err))
	}
	l.outcome = &outcome{path: name, skill: l.read.skill, problems: l.read.problems}
	return l // not cached: a change of the target would go unnoticed
}

// parseChecked is parse for a folder with a Check. at is the file that contains the bytes. If
// at differs from name, name is a link in the project, and its text is checked too.
func (w *walk) parseChecked(l *fileResult, s searchPath, f io.Reader, name, at, real string, head []byte,
	size int64, h *headReader) error {
	data, part := head, false
	switch {
	case int64(len(head)) >= size: // head is the whole file
	case at == name && len(head) >= headSize && isComplete(head[:headSize]):
		head = head[:headSize]
		data, part = head, true
	default:
		rest, err := io.ReadAll(io.LimitReader(f, maxFile))
		if err != nil {
			return err
		}
		data = slices.Concat(head, rest)
	}
	refused := w.check(at, data, part)
	if target, err := w.fsys.Readlink(name); refused == nil && at != name && err == nil {
		refused = w.check(name, []byte(target), false)
	}
	s.trust = Trusted
	if refused != nil {
		s.trust = Untrusted
	}
	w.parseAccepted(l, s, name, at, real, head, data, size, h)
	if l.read.skill == nil {
		return nil
	}
	check := w.check
	l.read.skill.Read = func(context.Context) ([]byte, error) {
		data, err := regular.Read(at, maxFile)
		if err == nil {
			err = check(at, data, false)
		}
		return data, err
	}
	if refused != nil {
		l.read.problems = append(l.read.problems, asProblem(name, refused))
	}
	return nil
}

// parseAccepted parses a file of a folder with a Check, or takes what was stored for the same bytes in data if the
// Check accepted them.
func (w *walk) parseAccepted(l *fileResult, s searchPath, name, at, real string, head, data []byte, size int64,
	h *headReader) {
	if w.cache == nil || at != name || s.trust != Trusted {
		l.read.skill, l.read.problems = w.parse(s, name, real, head, size, h)
		return
	}
	key := headcache.Content(data, size)
	if text, ok := w.cache().Find(name, key); ok {
		if stored, ok := w.cached(s, text, name, real); ok {
			l.read.skill, l.read.problems = stored.read.skill, stored.read.problems
			if k := l.read.skill; k != nil {
				k.Origin = w.originOf(s)
				k.Origin.Replaces = w.mayReplace(k)
			}
			return
		}
	}
	l.read.skill, l.read.problems = w.parse(s, name, real, head, size, h)
	l.uncached = &headcache.Entry{Path: name, Key: key, Text: encodeOutcome(l.read.skill, l.read.problems)}
}

// asProblem returns the Problem that a Check returned, or makes one from its error.
func asProblem(name string, err error) Problem {
	var p Problem
	if !errors.As(err, &p) {
		p = unreadable(name, err)
	}
	return p
}

// parse makes a skill from the head of a file.
func (w *walk) parse(s searchPath, name, real string, head []byte, size int64, h *headReader) (*Skill, []Problem) {
	skill, problems := h.parse(name, head, size, w.originOf(s))
	if skill == nil {
		return nil, problems
	}
	skill.ID, skill.Path = real, name
	if real == name {
		skill.ID = name // share one string
	}
	switch {
	case w.commands && s.rel != "":
		rel := s.rel
		skill.command = true
		if s.optional {
			rel, skill.Dir = strings.TrimSuffix(rel, path.Ext(rel)), "" // a command is a single file
		} else {
			skill.Dir = filepath.Dir(name)
		}
		parts := strings.Split(rel, "/")
		for i := range parts {
			parts[i] = slug(parts[i])
		}
		skill.Name = strings.Join(parts, ":")
	case s.optional && s.rel != "" && !hasOwnDescription(problems):
		return nil, nil // a README, not a skill
	}
	skill.Origin.Replaces = w.mayReplace(skill)
	w.setReaders(skill, s, name)
	return skill, problems
}

// originOf returns the origin of a skill: that of the folder, with the trust of this file.
func (w *walk) originOf(s searchPath) Origin {
	o := w.origin
	o.Trust = s.trust
	return o
}

// mayReplace reports whether the user agreed that a skill replaces the bundled one of its name.
func (w *walk) mayReplace(k *Skill) bool {
	return w.replaces != nil && k.Origin.Trust == Trusted && w.replaces(k.Path, k.Name)
}

// setReaders sets the funcs with which a skill reads the rest of its content.
func (w *walk) setReaders(skill *Skill, s searchPath, name string) {
	if w.pack && s.rel == "" && !s.file {
		skill.List = func(ctx context.Context) ([]string, error) { return resources(ctx, skill, true) }
	}
	if w.finish != nil {
		w.finish(skill, name)
	}
}

// hasOwnDescription reports whether the frontmatter itself has a description.
func hasOwnDescription(problems []Problem) bool {
	return !slices.ContainsFunc(problems, func(p Problem) bool { return p.Code == CodeDescriptionMissing })
}

// A headReader reads and parses the heads of one file after the other. It reuses memory, so only
// one goroutine may use it.
type headReader struct {
	buf    []byte
	parser reader
}

// read reads 4 KiB, and then more until the frontmatter ends. How much it reads does not depend on
// how large the buffer has become for other files. The result is valid until the next call.
func (h *headReader) read(f io.Reader, size int64) ([]byte, error) {
	if h.buf == nil {
		h.buf = make([]byte, headSize)
	}
	for n, unused := 0, headSize; ; {
		m, err := f.Read(h.buf[n:unused])
		n += m
		switch {
		case err == io.EOF || err == nil && int64(n) == size: // the usual case needs no further read
			return h.buf[:n], nil
		case err != nil:
			return nil, err
		case n < unused:
		case isComplete(h.buf[:n]):
			return h.buf[:n], nil
		default:
			if unused *= 2; unused > len(h.buf) {
				h.buf = append(h.buf, make([]byte, unused-len(h.buf))...)
			}
		}
	}
}

func (w *walk) yield(yield func(*Skill, error) bool) {
	for _, o := range w.found {
		if o.skill != nil && !yield(o.skill, nil) {
			return
		}
		for _, p := range o.problems {
			if !yield(nil, p) {
				return
			}
		}
	}
	if err := w.ctx.Err(); err != nil {
		yield(nil, err)
	}
}

// maxWorkers is how many goroutines parallel uses at most.
func maxWorkers() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

// parallel calls worker once in each goroutine, and the returned funcs with the numbers
// from 0 to n-1.
func parallel(n int, worker func() func(int)) {
	workers := min(n, maxWorkers())
	if n < 4 {
		workers = 1
	}
	if workers == 1 {
		f := worker()
		for i := range n {
			f(i)
		}
		return
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range workers {
		wg.Go(func() {
			f := worker()
			for {
				mu.Lock()
				from := next
				next = min(n, next+8)
				to := next
				mu.Unlock()
				if from == to {
					return
				}
				for i := from; i < to; i++ {
					f(i)
				}
			}
		})
	}
	wg.Wait()
}

// spread is parallel for work that takes about a microsecond: only many numbers are worth goroutines.
func spread(n int, worker func() func(int)) {
	if n >= 512 {
		parallel(n, worker)
		return
	}
	f := worker()
	for i := range n {
		f(i)
	}
}

func unreadable(path string, err error) Problem {
	p := Problem{Code: CodeUnreadable, Severity: Error, Path: path, Message: "cannot be read: " + reason(err)}
	if errors.Is(err, fs.ErrPermission) {
		p.Hint = "chmod u+rX " + path
	}
	return p
}

// reason returns the text of an error without the path, which the Problem has already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
