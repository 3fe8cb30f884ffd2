package permission

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Queries of the file system at the time of a decision.

var (
	errTooMany     = errors.New("finding out which files it names takes too long: there are too many")
	errSystem      = errors.New("its pattern leads into /proc or /sys")
	errInterrupted = errors.New("the decision was interrupted or took too long")
)

// expand returns the files that the word v of a command names at this moment. For a glob these are
// the matches and the directory that is searched; too many matches, or a pattern with ** or (, are
// returned together with the pattern itself. An error means that some may be missing.
func (j *judge) expand(a *bash.File, v, dir string) ([]string, error) {
	if a.Word == nil || !a.Word.Glob || a.Text != "" {
		return []string{v}, nil
	}
	pat := v
	if strings.HasPrefix(pat, "~/") && j.paths.Home != "" {
		pat = j.paths.Home + pat[1:]
	} else if !bash.IsAbs(pat) {
		pat = dir + "/" + pat
	}
	unsure := strings.Contains(v, "**") || strings.Contains(v, "(")
	list := j.paths.Glob
	if list == nil {
		list = func(pat string) ([]string, error) { return j.glob(filepath.ToSlash(pat), unsure || j.hasDots) }
	}
	found, err := list(filepath.FromSlash(goPattern(pat)))
	switch {
	case errors.Is(err, errTooMany), errors.Is(err, errSystem), errors.Is(err, errInterrupted),
		errors.Is(err, path.ErrBadPattern):
		return nil, err
	case err != nil || unsure || len(found) > 2000:
		return append([]string{v}, found...), nil
	}
	out := []string{v[:strings.IndexAny(v+"*", "*?[")] + "*"} // the directory it searches
	if i := strings.LastIndexByte(out[0], '/'); i >= 0 {
		out[0] = out[0][:i+1]
	} else {
		out[0] = "."
	}
	for _, f := range found {
		if j.hasDots || !hiddenByGlob(pat, f) {
			out = append(out, f)
		}
	}
	return out, nil
}

// goPattern returns a pattern for [path.Match] that matches at least the names that a pattern of bash does. They agree
// on classes of letters, digits, ranges and some signs. A name from any other class on, such as [[:alpha:]] or []a],
// may be anything. Quotes are not known here: in ['!'a] and [a'-'z] these signs are members.
func goPattern(pattern string) string {
	elems := strings.Split(pattern, "/")
	for k, elem := range elems {
		var b strings.Builder
	chars:
		for i := 0; i < len(elem); i++ {
			switch {
			case elem[i] == '\\' && i+1 < len(elem):
				b.WriteString(elem[i : i+2])
				i++
			case elem[i] == '[':
				class := plainClass(elem[i:])
				if class == "" {
					b.WriteByte('*')
					break chars
				}
				i += len(class) - 1
				switch {
				case class[1] == '!' || class[1] == '^': // quoted, it is a member
					class = "?"
				case strings.Contains(class, "-"): // quoted, it is one, too
					class = class[:len(class)-1] + `\-]`
				}
				b.WriteString(class)
			default:
				b.WriteByte(elem[i])
			}
		}
		elems[k] = b.String()
	}
	return strings.Join(elems, "/")
}

// plainClass returns the class with which a pattern begins; "": bash may read it otherwise than [path.Match].
func plainClass(pattern string) string {
	end := strings.IndexByte(pattern, ']')
	if end < 0 {
		return ""
	}
	set := strings.TrimLeft(pattern[1:min(2, end)], "!^") + pattern[min(2, end):end]
	plain := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.,+@%", c) >= 0
	}
	for i := 0; i < len(set); i++ {
		if set[i] == '-' && i > 0 && i+1 < len(set) && plain(set[i-1]) && plain(set[i+1]) && set[i-1] <= set[i+1] &&
			(i < 2 || set[i-2] != '-') {
			continue
		}
		if !plain(set[i]) {
			return ""
		}
	}
	if set == "" {
		return ""
	}
	return pattern[:end+1]
}

// hiddenByGlob reports whether bash omits a matching name because one of its elements begins with a
// dot and the same element of the pattern does not.
func hiddenByGlob(pattern, name string) bool {
	p, n := strings.Split(filepath.ToSlash(pattern), "/"), strings.Split(filepath.ToSlash(name), "/")
	for i := range n {
		if i < len(p) && strings.HasPrefix(n[i], ".") && !strings.HasPrefix(p[i], ".") {
			return true
		}
	}
	return false
}

// readDir reads a directory, whose links are resolved, within the limits of the decision.
func (j *judge) readDir(dir string) (entries []fs.DirEntry, err error) {
	if isSystem(dir) {
		return nil, errSystem
	}
	j.entriesLeft--
	f, err := regular.Dir(filepath.FromSlash(dir))
	if err != nil {
		return nil, nil // a command will not find more
	}
	defer f.Close()
	for err == nil {
		if j.paths.ctx.Err() != nil {
			return nil, errInterrupted
		}
		if j.entriesLeft <= 0 {
			return nil, errTooMany
		}
		var some []fs.DirEntry
		some, err = f.ReadDir(min(1000, j.entriesLeft))
		j.entriesLeft -= len(some)
		entries = append(entries, some...)
	}
	order.Stable(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// isSystem reports whether a directory, with links resolved, is one in which the kernel makes up the entries.
func isSystem(dir string) bool {
	return subpath.Contains("/proc", dir) || subpath.Contains("/sys", dir)
}

// A match is a path that matches the first elements of a pattern.
type match struct {
	name string // as the pattern spells it
	real string // with links resolved, for a directory
}

// linkEntries is how many entries could be read in the time that finding the target of a link takes.
const linkEntries = 10

// glob returns the files that match an absolute pattern, like [filepath.Glob] but within the limits of
// the decision. With dots, it also returns names that bash omits.
func (j *judge) glob(pattern string, dots bool) (found []string, err error) {
	first, rest, _ := strings.Cut(pattern, "/") // first is "" or the volume
	matches := []match{{first, first + "/"}}
	elems := strings.FieldsFunc(rest, func(r rune) bool { return r == '/' })
	for i, elem := range elems {
		if _, err := path.Match(elem, ""); err != nil {
			return nil, err
		}
		var next []match
		add := func(m match, name, real string, mode fs.FileMode) {
			at := match{m.name + "/" + name, real}
			if i < len(elems)-1 { // only a directory leads on
				switch {
				case mode&fs.ModeSymlink != 0:
					if j.entriesLeft -= linkEntries; j.entriesLeft <= 0 {
						return
					}
					info, err := os.Stat(filepath.FromSlash(at.real))
					if err != nil || !info.IsDir() {
						return
					}
					target, err := resolveIn(path.Dir(real), path.Base(real))
					if err != nil {
						return
					}
					at.real = filepath.ToSlash(target)
				case !mode.IsDir():
					return
				}
			}
			next = append(next, at)
		}
		for _, m := range matches {
			if !strings.ContainsAny(elem, `*?[\`) {
				if j.entriesLeft--; j.entriesLeft <= 0 {
					return nil, errTooMany
				}
				real := path.Join(m.real, elem)
				if own := j.paths.inTemp(m.name + "/" + elem); j.paths.Temp != "" && subpath.Contains(j.paths.Temp, own) {
					real = own // a pattern means the files that the command finds
				}
				if info, err := os.Lstat(filepath.FromSlash(real)); err == nil {
					add(m, elem, real, info.Mode())
				}
				continue
			}
			for _, name := range openInTemp(j.paths, m) {
				if ok, _ := path.Match(elem, name); ok && (dots || !hiddenByGlob(elem, name)) {
					add(m, name, m.name+"/"+name, fs.ModeDir)
				}
			}
			entries, err := j.readDir(m.real)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				if ok, _ := path.Match(elem, e.Name()); ok && (dots || !hiddenByGlob(elem, e.Name())) {
					add(m, e.Name(), path.Join(m.real, e.Name()), e.Type())
				}
			}
		}
		if j.entriesLeft <= 0 {
			return nil, errTooMany
		}
		matches = next
	}
	for _, m := range matches {
		found = append(found, filepath.FromSlash(m.name))
	}
	return found, nil
}

// openInTemp returns the names in the machine's /tmp and /var/tmp that commands see although they have private
// directories there, because the workspace, say, is below.
func openInTemp(p *PathContext, m match) (names []string) {
	if m.name == m.real || m.name != "/tmp" && m.name != "/var/tmp" {
		return nil
	}
	for _, dir := range slices.Concat([]string{p.Dir, p.Home}, p.Roots) {
		rel, ok := subpath.Rel(m.name, filepath.ToSlash(dir))
		if first, _, _ := strings.Cut(rel, "/"); ok && rel != "." && !slices.Contains(names, first) {
			names = append(names, first)
		}
	}
	return names
}

// walk calls visit for what is below a directory, whose links are resolved; visit may return
// [fs.SkipDir] and [fs.SkipAll]. It reports whether everything was visited.
func (j *judge) walk(dir string, visit func(name string, e fs.DirEntry) error) (all bool) {
	all = true
	todo := []string{dir}
	for len(todo) > 0 {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		entries, err := j.readDir(dir)
		if all = all && err == nil; err != nil && err != errSystem {
			return false
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			switch err := visit(name, e); {
			case err == fs.SkipAll:
				return false
			case err == nil && e.IsDir():
				todo = append(todo, name)
			}
		}
	}
	return all
}

// protectedBelow returns a protected name below a directory of the workspace; "" if there is none. It looks where the
// sandbox looks, which closes the file to the command. With secrets, a file that has some counts, too.
func (j *judge) protectedBelow(n pathNames, secrets bool) (found string) {
	const maxFiles = 5000
	if !j.confined() || !j.paths.inside(n) {
		return ""
	}
	for _, root := range j.paths.roots() {
		rel, ok := subpath.Rel(root, n.target())
		if ok && slices.ContainsFunc(strings.Split(filepath.ToSlash(rel), "/"), Unwatched) {
			return ""
		}
	}
	left := maxFiles
	j.walk(n.target(), func(name string, e fs.DirEntry) error {
		switch left--; {
		case left == 0 || found != "":
			return fs.SkipAll
		case e.IsDir() && Unwatched(e.Name()):
			return fs.SkipDir
		}
		pat, at := j.paths.protectedName(name)
		if pat != "" && len(at) == len(name) || secrets && !e.IsDir() && KeyFile(e.Name()) {
			found = strings.TrimPrefix(name, n.target()+"/")
		}
		return nil
	})
	return found
}

// links lists the symbolic links below a directory, and reports whether the list is complete.
func (j *judge) links(dir string) (links []string, all bool) {
	if j.paths.Below != nil { // each of them may be a link
		return j.paths.Below(filepath.FromSlash(dir), maxEntries)
	}
	all = j.walk(dir, func(name string, e fs.DirEntry) error {
		if e.Type()&fs.ModeSymlink != 0 {
			links = append(links, filepath.FromSlash(name))
		}
		return nil
	})
	return links, all
}

// filesBelow lists at most n files below a directory, without those in .git, and reports whether the
// list is complete.
func (j *judge) filesBelow(dir string, n int) (files []string, all bool) {
	all = j.walk(filepath.ToSlash(dir), func(name string, e fs.DirEntry) error {
		switch {
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir():
			return nil
		case len(files) >= n:
			return fs.SkipAll
		}
		files = append(files, filepath.FromSlash(name))
		return nil
	})
	return files, all
}

// exists reports whether the file exists. A file that cannot be checked counts as existing.
func (p *PathContext) exists(file string) bool {
	if p.Glob != nil {
		found, err := p.Glob(filepath.FromSlash(escapeGlob(file)))
		return err != nil || len(found) > 0
	}
	_, err := os.Lstat(filepath.FromSlash(file))
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) && !isNotDir(err)
}
