package permission

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Which files deny rules cover, so that a sandbox can keep commands from them: what a command opens is not known from
// its words.

// Limits of a search for denied files.
const (
	maxDenied  = 1000      // paths to close one by one
	maxOutside = 20_000    // directory entries outside the workspace
	maxSearch  = 2_000_000 // directory entries in all
	maxLinked  = 5000      // files in denied directories whose other names are looked for
)

// DeniedFiles are the files and directories that exist and that deny rules for particular files cover. All paths
// are absolute and without links, and sorted; a directory stands for all that is in it.
type DeniedFiles struct {
	Hidden   []string          // must be neither read nor changed
	ReadOnly []string          // must not be changed; none is in Hidden
	Rules    map[string]string // the rule that covers each path
}

// DeniedFiles returns what the deny rules for files cover now. A rule that begins with a name or with ** is searched for
// in the workspace and in what it was made from, and so are further hard links of what was found, the others wherever
// they lead. It fails if there are more than 1,000 paths, if there is too much to search, or if a rule covers the
// directory p.Dir.
func (rs Rules) DeniedFiles(ctx context.Context, p PathContext) (DeniedFiles, error) {
	p.ctx, p.resolved, p.rootNames, p.linkTargets, p.madeFrom = ctx, nil, nil, nil, nil
	s := deniedSearch{paths: &p, ctx: ctx, left: maxSearch, listings: new(listings),
		hidden: map[string]*Rule{}, readOnly: map[string]*Rule{}}
	if p.Git != nil {
		s.listings = &p.Git.listings
	}
	s.listings.mu.Lock()
	defer s.listings.mu.Unlock()
	return s.run(p.meant(rs.Deny))
}

// DenyFiles reports whether a rule denies particular files.
func (rs Rules) DenyFiles() bool {
	return slices.ContainsFunc(rs.Deny, func(r Rule) bool { read, edit := r.deniesFiles(); return read || edit })
}

// asksToRead reports whether a rule asks before commands read particular files.
func (rs Rules) asksToRead() bool {
	return slices.ContainsFunc(rs.Ask, func(r Rule) bool { read, _ := r.deniesFiles(); return read })
}

// deniesFiles reports whether a deny rule is about particular files, for commands. A rule without a pattern is about a
// tool: who denies Edit wants no edit tool, and may want go build.
func (r *Rule) deniesFiles() (read, edit bool) {
	if r.Any {
		return false, false
	}
	return r.coversTool(&Subject{Kind: KindRead, Tool: "bash"}, true), r.coversTool(&Subject{Kind: KindEdit, Tool: "bash"}, true)
}

// Covers returns the rule that keeps commands from reading a file (read) or from changing it; "" if none does. The path
// is absolute and without links.
func (d *DeniedFiles) Covers(name string, read bool) (rule string) {
	for _, list := range [][]string{d.Hidden, d.ReadOnly} {
		for _, dir := range list {
			if subpath.Contains(dir, name) {
				return d.Rules[dir]
			}
		}
		if read {
			break
		}
	}
	return ""
}

// A deniedSearch finds the files of deny rules.
type deniedSearch struct {
	paths            *PathContext
	ctx              context.Context
	left, outside    int // directory entries that may still be read; those that were read outside the workspace
	listings         *listings
	roots            []string
	hidden, readOnly map[string]*Rule
}

// A trail is how far a pattern matches a path: rest are the elements that must match below it.
type trail struct {
	rule  *Rule
	rest  []string
	read  bool
	float bool // the pattern began with **
}

func (s *deniedSearch) run(deny []Rule) (DeniedFiles, error) {
	var floating []trail
	roots := s.paths.roots()
	for _, o := range s.paths.origins() { // a command could read the same files there; a whole home is too much to search
		if !subpath.Contains(o.From, s.paths.Home) {
			roots = append(slices.Clip(roots), filepath.ToSlash(o.From))
		}
	}
	for _, root := range roots {
		if to, err := Resolve(filepath.FromSlash(root)); err == nil && !slices.Contains(s.roots, filepath.ToSlash(to)) {
			s.roots = append(s.roots, filepath.ToSlash(to))
		}
	}
	for i := range deny {
		r := &deny[i]
		read, edit := r.deniesFiles()
		if !read && !edit {
			continue
		}
		base, pattern := s.paths.anchor(r)
		t := trail{rule: r, rest: elements(pattern), read: read}
		if base == "" || base == "/" && t.rest[0] == "**" {
			t.rest, t.float = append([]string{"**"}, t.rest...), true
			floating = append(floating, t)
			continue
		}
		bases := []string{base}
		if base == s.paths.Dir {
			bases = append(bases, s.paths.mainDirs()...)
		}
		for _, base := range bases {
			if err := s.from(base, t); err != nil {
				return DeniedFiles{}, fmt.Errorf("%w (%s)", err, r)
			}
		}
	}
	if len(floating) > 0 {
		for _, root := range s.roots {
			if slices.ContainsFunc(s.roots, func(r string) bool { return r != root && subpath.Contains(r, root) }) {
				continue
			}
			if err := s.root(root, floating); err != nil {
				return DeniedFiles{}, err
			}
		}
	}
	if err := s.otherNames(); err != nil {
		return DeniedFiles{}, err
	}
	return s.result()
}

// anchor returns the directory to which the pattern of a deny rule is relative, and the pattern from there; "": any.
func (p *PathContext) anchor(r *Rule) (base, pattern string) {
	pattern = strings.TrimSuffix(r.Pattern, "/")
	switch {
	case strings.HasPrefix(r.Pattern, "//"):
		return "/", strings.TrimPrefix(pattern, "//")
	case pattern == "~":
		return p.Home, "**"
	case strings.HasPrefix(pattern, "~/"):
		return p.Home, pattern[2:]
	case strings.HasPrefix(pattern, "/"):
		if r.Base != "" {
			return r.Base, pattern[1:]
		}
		return p.Dir, pattern[1:]
	case pattern == "." || pattern == "":
		return p.Dir, "**"
	case strings.HasPrefix(pattern, "./"):
		return p.Dir, pattern[2:]
	}
	return "", pattern
}

func elements(pattern string) []string {
	var elems []string
	for elem := range strings.SplitSeq(strings.ToLower(pattern), "/") {
		if elem != "" && elem != "." {
			elems = append(elems, elem)
		}
	}
	if elems == nil {
		return []string{"**"}
	}
	return elems
}

// from searches below a directory for the files of one rule.
func (s *deniedSearch) from(base string, t trail) error {
	if base == "" {
		return nil
	}
	dir, err := Resolve(filepath.FromSlash(base))
	if err != nil {
		return nil
	}
	dir = filepath.ToSlash(dir)
	// Directories of which only the name is known need not be read, as long as they are spelled as the rule spells them.
	names := strings.FieldsFunc(t.rule.Pattern, func(r rune) bool { return r == '/' })
	for i := 0; len(t.rest) > 1; i++ {
		elem := t.rest[0]
		if strings.ContainsAny(elem, `*?[\`) {
			break
		}
		at := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, elem) })
		if at < 0 {
			break
		}
		to, err := Resolve(filepath.FromSlash(path.Join(dir, names[at])))
		if info, err2 := os.Stat(to); err != nil || err2 != nil || !info.IsDir() {
			break
		}
		dir, names, t.rest = filepath.ToSlash(to), names[at+1:], t.rest[1:]
	}
	return s.walk(dir, []trail{t})
}

// root searches a directory of the workspace for the files of rules that hold at any depth.
func (s *deniedSearch) root(root string, floating []trail) error {
	now := spread(floating)
	for elem := range strings.SplitSeq(strings.Trim(root, "/"), "/") {
		next, hits := advance(now, elem)
		if len(hits) > 0 {
			s.add(root, hits)
		}
		now = spread(next)
	}
	return s.walk(root, now)
}

// spread adds what ** matches without an element.
func spread(trails []trail) []trail {
	all := slices.Clone(trails)
	for i := 0; i < len(all); i++ {
		if t := all[i]; t.rest[0] == "**" && len(t.rest) > 1 {
			t.rest = t.rest[1:]
			all = append(all, t)
		}
	}
	return all
}

// advance returns how far patterns match one element more, and those that match with it.
func advance(trails []trail, name string) (next, hits []trail) {
	name = strings.ToLower(name)
	for _, t := range trails {
		switch {
		case t.rest[0] == "**":
			next = append(next, t)
		case !glob(t.rest[0], name):
		case len(t.rest) == 1:
			hits = append(hits, t)
		default:
			t.rest = t.rest[1:]
			next = append(next, t)
		}
	}
	return next, hits
}

// coversAll reports whether a pattern matches everything that is in a directory.
func (t *trail) coversAll() bool {
	return !slices.ContainsFunc(t.rest, func(elem string) bool { return elem != "**" && elem != "*" }) &&
		(len(t.rest) == 1 || t.rest[0] == "**" && !slices.Contains(t.rest[:len(t.rest)-1], "*"))
}

// walk searches a directory, without links on the way, and what is below it.
func (s *deniedSearch) walk(dir string, trails []trail) error {
	type place struct {
		dir    string
		trails []trail
		links  int
	}
	for todo := []place{{dir, spread(trails), 0}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		all := slices.IndexFunc(at.trails, func(t trail) bool { return t.coversAll() })
		for ; all >= 0; all = slices.IndexFunc(at.trails, func(t trail) bool { return t.coversAll() }) {
			s.add(at.dir, at.trails[all:all+1])
			read := at.trails[all].read
			at.trails = slices.DeleteFunc(slices.Clone(at.trails), func(t trail) bool { return read || !t.read })
		}
		if len(at.trails) == 0 || isSystem(at.dir) {
			continue
		}
		entries, err := s.list(at.dir)
		if err != nil {
			return err
		}
		inGit := path.Base(at.dir) == ".git"
		for _, e := range entries {
			trails := at.trails
			if inGit && (!e.mode.IsDir() || slices.Contains(gitOwn, e.name)) {
				trails = slices.DeleteFunc(slices.Clone(trails), func(t trail) bool { return t.float })
			}
			next, hits := advance(trails, e.name)
			to := path.Join(at.dir, e.name)
			if len(hits) > 0 {
				s.add(to, hits)
			}
			switch {
			case len(next) == 0:
			case e.mode.IsDir():
				todo = append(todo, place{to, spread(next), at.links})
			case e.mode&fs.ModeSymlink != 0 && at.links < 8:
				// Below ** only what the tree itself contains counts, as for all programs that read a tree.
				next = slices.DeleteFunc(next, func(t trail) bool { return t.rest[0] == "**" })
				target, err := Resolve(filepath.FromSlash(to))
				if info, err2 := os.Stat(target); len(next) > 0 && err == nil && err2 == nil && info.IsDir() {
					todo = append(todo, place{filepath.ToSlash(target), spread(next), at.links + 1})
				}
			}
		}
	}
	return nil
}

// gitOwn are the directories of a repository in which git chooses the names: a branch "notes.key" is no file that a rule
// for a name means, and without its own files git would not work.
var gitOwn = []string{"hooks", "info", "logs", "objects", "refs"}

// list returns the entries of a directory. One that cannot be read has none for a command, either.
func (s *deniedSearch) list(dir string) ([]listed, error) {
	if s.ctx.Err() != nil {
		return nil, errInterrupted
	}
	entries := s.listings.read(dir)
	s.left -= len(entries) + 1
	if !slices.ContainsFunc(s.roots, func(root string) bool { return subpath.Contains(root, dir) }) {
		s.outside += len(entries) + 1
	}
	if s.left < 0 || s.outside > maxOutside {
		return nil, errors.New("finding the files that deny rules cover takes too long: there is too much to search")
	}
	return entries, nil
}

// add adds a path that rules cover, and where it leads if it is a link.
func (s *deniedSearch) add(name string, by []trail) {
	to, err := Resolve(filepath.FromSlash(name))
	if err != nil {
		return
	}
	if _, err := os.Lstat(to); err != nil {
		return
	}
	for _, t := range by {
		found := s.readOnly
		if t.read {
			found = s.hidden
		}
		if found[to] == nil {
			found[to] = t.rule
		}
	}
}

// otherNames adds the other hard links of denied files.
func (s *deniedSearch) otherNames() error {
	type file struct{ dev, ino uint64 }
	wanted := map[file][]trail{}
	files := 0
	want := func(name string, t trail) {
		info, err := os.Lstat(filepath.FromSlash(name))
		if err != nil || !info.Mode().IsRegular() {
			return
		}
		if dev, ino, links := fileNumbers(info); links > 1 {
			wanted[file{dev, ino}] = append(wanted[file{dev, ino}], t)
		}
	}
	for _, found := range []map[string]*Rule{s.hidden, s.readOnly} {
		for name, r := range found {
			read, _ := r.deniesFiles()
			t := trail{rule: r, read: read}
			want(name, t)
			if err := s.each(name, func(name string, _ listed) bool {
				files++
				want(name, t)
				return files < maxLinked
			}); err != nil {
				return err
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	for _, root := range s.roots {
		err := s.each(root, func(name string, e listed) bool {
			if !e.mode.IsRegular() {
				return true
			}
			if info, err := os.Lstat(filepath.FromSlash(name)); err == nil {
				dev, ino, _ := fileNumbers(info)
				s.add(name, wanted[file{dev, ino}])
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls f for what is below a directory, until f returns false.
func (s *deniedSearch) each(dir string, f func(name string, e listed) bool) error {
	for todo := []string{dir}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		entries, err := s.list(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(dir, e.name)
			if !f(name, e) {
				return nil
			}
			if e.mode.IsDir() {
				todo = append(todo, name)
			}
		}
	}
	return nil
}

// result returns what was found, without what is in a directory that was found, too.
func (s *deniedSearch) result() (DeniedFiles, error) {
	d := DeniedFiles{Rules: map[string]string{}}
	inside := func(name string, found map[string]*Rule) bool {
		for dir := name; ; dir = filepath.Dir(dir) {
			if found[dir] != nil && dir != name {
				return true
			}
			if filepath.Dir(dir) == dir {
				return false
			}
		}
	}
	for name, r := range s.hidden {
		if !inside(name, s.hidden) {
			d.Hidden, d.Rules[name] = append(d.Hidden, name), r.String()
		}
	}
	for name, r := range s.readOnly {
		if s.hidden[name] == nil && !inside(name, s.hidden) && !inside(name, s.readOnly) {
			d.ReadOnly, d.Rules[name] = append(d.ReadOnly, name), r.String()
		}
	}
	slices.Sort(d.Hidden)
	slices.Sort(d.ReadOnly)
	dir, _ := Resolve(s.paths.Dir)
	for _, name := range d.Hidden {
		if subpath.Contains(name, dir) {
			return d, fmt.Errorf("the rule %s denies reading the whole working directory, so no command can run there",
				d.Rules[name])
		}
	}
	if n := len(d.Hidden) + len(d.ReadOnly); n > maxDenied {
		by := most(append(slices.Clone(d.Hidden), d.ReadOnly...), d.Rules)
		return d, fmt.Errorf("deny rules such as %s cover %d files, and the sandbox closes at most %d one by one: deny their "+
			"directories (%s(DIRECTORY/**))", by, n, maxDenied, by[:strings.IndexByte(by, '(')])
	}
	return d, nil
}

// most returns the rule that covers most of some paths.
func most(names []string, rules map[string]string) (most string) {
	count := map[string]int{}
	for _, name := range names {
		r := rules[name]
		if count[r]++; count[r] > count[most] {
			most = r
		}
	}
	return most
}
