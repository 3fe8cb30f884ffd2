// Package ignore decides which paths the ignore files of a tree exclude: the .gitignore,
// .ignore and .fdignore files of every directory, and the repository's .git/info/exclude.
//
// A walker keeps the [Dir] of its current directory; [Tree.Match] checks a single path. The
// rules are git's: the last pattern that matches wins, a file in a deeper directory takes
// precedence over one above it, and nothing below an excluded directory can be included again.
// In the same directory .ignore takes precedence over .gitignore, and .fdignore over both.
// Patterns match bytes and are case-sensitive.
//
// Paths are relative to the tree's root, with slashes. All types are safe for concurrent use.
package ignore

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// files are the names of ignore files; later ones take precedence.
var files = [...]string{".gitignore", ".ignore", ".fdignore"}

// maxSize is the maximum size of an ignore file in bytes; see read.
const maxSize = 1 << 20

// A Tree is a directory tree with its ignore files. They are read when they are first needed
// and then cached: use a Tree as a snapshot for one search, not for the life of a program.
type Tree struct {
	fsys fs.FS
	root *Dir

	mu     sync.Mutex
	scopes map[string]*Dir // by path; only directories entered by Match
}

// New returns a Tree for a file system, such as os.DirFS of a directory. If the root is the
// root of a repository, .git/info/exclude is used too.
func New(fsys fs.FS) *Tree {
	t := &Tree{fsys: fsys, scopes: map[string]*Dir{}}
	t.root = &Dir{tree: t}
	if text := read(fsys, ".git/info/exclude"); text != nil {
		// A separate scope above the root's, because the root's files take precedence.
		t.root = &Dir{tree: t, up: &Dir{tree: t, rules: Parse(text)}}
	}
	t.root.rules = t.load("", nil)
	return t
}

// Match reports whether a path or a directory above it is excluded.
func (t *Tree) Match(rel string, isDir bool) bool {
	rel = path.Clean(rel)
	if rel == "." || rel == ".." || strings.HasPrefix(rel, "../") || strings.HasPrefix(rel, "/") {
		return false // the root itself, or a path outside the tree
	}
	s := t.root
	for start := 0; ; {
		i := strings.IndexByte(rel[start:], '/')
		if i < 0 {
			return s.Match(rel[start:], isDir)
		}
		name := rel[start : start+i]
		if s.Match(name, true) {
			return true
		}
		start += i + 1
		t.mu.Lock()
		next := t.scopes[rel[:start-1]]
		t.mu.Unlock()
		if next == nil { // two callers may both read it, with the same result
			next = s.Enter(name, nil)
			t.mu.Lock()
			t.scopes[rel[:start-1]] = next
			t.mu.Unlock()
		}
		s = next
	}
}

// Explain returns the line that excludes a path or a directory above it, such as
// ".gitignore:3: drafts/", or "" if the path is not excluded.
func (t *Tree) Explain(rel string, isDir bool) string {
	rel = path.Clean(rel)
	if !t.Match(rel, isDir) {
		return ""
	}
	for i := 0; i < len(rel); i++ {
		if rel[i] == '/' && t.Match(rel[:i], true) {
			rel, isDir = rel[:i], true
		}
	}
	line := func(file, below string) string {
		number, found := 0, ""
		for text := range bytes.Lines(read(t.fsys, file)) {
			number++
			text = bytes.TrimRight(text, "\r\n")
			if rules := Parse(text); len(rules) > 0 && rules[0].match(below, isDir) {
				found = fmt.Sprintf("%s:%d: %s", file, number, text)
			}
		}
		return found
	}
	for dir := path.Dir(rel); ; dir = path.Dir(dir) {
		at, below := dir+"/", strings.TrimPrefix(rel, dir+"/")
		if dir == "." {
			at, below = "", rel
		}
		for _, name := range slices.Backward(files[:]) {
			if found := line(at+name, below); found != "" {
				return found
			}
		}
		if dir == "." {
			return line(".git/info/exclude", rel)
		}
	}
}

// Root returns the scope of the tree's root directory.
func (t *Tree) Root() *Dir { return t.root }

// A Dir contains the rules that apply in one directory. It is immutable.
type Dir struct {
	tree  *Tree
	up    *Dir   // the next directory above that has rules
	rel   string // path of the directory; "" for the root
	rules Rules
}

// Empty reports whether no rules apply in the directory. Ignore files below it may have some.
func (s *Dir) Empty() bool { return len(s.rules) == 0 && s.up == nil }

// Match reports whether an entry of the directory is excluded. It does not check whether the
// directory itself is excluded; the walker does that before it enters the directory.
func (s *Dir) Match(name string, isDir bool) bool {
	if s.Empty() {
		return false
	}
	full := join(s.rel, name)
	for a := s; a != nil; a = a.up {
		if len(a.rules) == 0 {
			continue
		}
		rel := full
		if a.rel != "" {
			rel = full[len(a.rel)+1:]
		}
		if excluded, found := a.rules.last(rel, isDir); found {
			return excluded
		}
	}
	return false
}

// Enter returns the scope of a subdirectory. entries, if the walker has already read them,
// save three attempts to open files; nil means that they are not known.
func (s *Dir) Enter(name string, entries []fs.DirEntry) *Dir {
	child := &Dir{tree: s.tree, up: s, rel: join(s.rel, name)}
	if len(s.rules) == 0 {
		child.up = s.up
	}
	child.rules = s.tree.load(child.rel, entries)
	return child
}

func (t *Tree) load(rel string, entries []fs.DirEntry) Rules {
	var rules Rules
	for _, name := range files {
		if entries != nil && !has(entries, name) {
			continue
		}
		rules = append(rules, Parse(read(t.fsys, join(rel, name)))...)
	}
	return rules
}

func has(entries []fs.DirEntry, name string) bool {
	for _, e := range entries {
		if e.Name() == name {
			return !e.IsDir()
		}
	}
	return false
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// read returns nil for a file that is missing, unreadable or too large: as with git, a broken
// ignore file excludes nothing.
func read(fsys fs.FS, name string) []byte {
	info, err := fs.Stat(fsys, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSize {
		return nil
	}
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil
	}
	return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
}

// Rules are the patterns of one ignore file, in order.
type Rules []rule

// Parse parses an ignore file. There are no invalid lines: a pattern that cannot match matches
// nothing.
func Parse(text []byte) Rules {
	var rules Rules
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if r, ok := compile(trimBlanks(string(line))); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// Compile returns Rules for a list of patterns. a{b,c}d means abd and acd.
func Compile(patterns ...string) Rules {
	var rules Rules
	for _, p := range patterns {
		for _, alternative := range braces(p) {
			if r, ok := compile(strings.TrimSpace(alternative)); ok {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// Covers reports whether the last pattern that matches the file rel, or a directory above it,
// is not a negation. Unlike in an ignore file, "!docs/gen" after "docs/" therefore includes
// docs/gen/x.md again.
func (rs Rules) Covers(rel string) bool {
	for i := len(rs) - 1; i >= 0; i-- {
		r := &rs[i]
		if r.match(rel, false) {
			return !r.negated
		}
		for j := 0; j < len(rel); j++ {
			if rel[j] == '/' && r.match(rel[:j], true) {
				return !r.negated
			}
		}
	}
	return false
}

func (rs Rules) last(rel string, isDir bool) (excluded, found bool) {
	for i := len(rs) - 1; i >= 0; i-- {
		if rs[i].match(rel, isDir) {
			return !rs[i].negated, true
		}
	}
	return false, false
}

// trimBlanks removes trailing blanks, except those escaped by a backslash.
func trimBlanks(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(s))
	}
	return s[:end]
}

// maxAlternatives is the maximum number of patterns that braces may expand to.
const maxAlternatives = 256

func braces(p string) []string {
	out := []string{p}
	for i := 0; i < len(out); {
		pre, parts, post, ok := brace(out[i])
		if !ok || len(out)+len(parts) > maxAlternatives {
			i++
			continue
		}
		next := make([]string, 0, len(out)+len(parts))
		next = append(next, out[:i]...)
		for _, part := range parts {
			next = append(next, pre+part+post)
		}
		out = append(next, out[i+1:]...)
	}
	return out
}

// brace finds the first {a,b} in a pattern.
func brace(p string) (pre string, parts []string, post string, ok bool) {
	open, depth, from := -1, 0, 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
		case c == '{':
			if depth == 0 {
				open, from, parts = i, i+1, nil
			}
			depth++
		case c == ',' && depth == 1:
			parts = append(parts, p[from:i])
			from = i + 1
		case c == '}' && depth > 0:
			depth--
			if depth == 0 && parts != nil {
				return p[:open], append(parts, p[from:i]), p[i+1:], true
			}
		}
	}
	return "", nil, "", false
}

// Bad explains why a pattern can never match; "": it may.
func Bad(g string) string {
	braces := 0
	for i := 0; i < len(g); i++ {
		switch g[i] {
		case '\\':
			if i++; i == len(g) {
				return "it ends with a backslash"
			}
		case '[':
			end := strings.IndexByte(g[i+1:], ']')
			if end == 0 || end == 1 && g[i+1] == '!' { // []a] and [!]a]: the first ] is a member
				if end = strings.IndexByte(g[i+2+end:], ']'); end >= 0 {
					end += 1 + strings.IndexByte(g[i+1:], ']')
				}
			}
			if end < 0 {
				return "[ is not closed"
			}
			i += 1 + end
		case '{':
			braces++
		case '}':
			braces--
		}
	}
	if braces > 0 {
		return "{ is not closed"
	}
	return ""
}
