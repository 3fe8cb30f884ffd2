package coding

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/search"
	"github.com/knack-agent/knack/permission"
)

// A secretList is permission.Secrets made ready to be held against every entry
// of a walk: [permission.PathContext.Secret], which says the same, takes twenty times
// as long for one.
type secretList struct {
	names []namePattern
	paths []string // absolute, with slashes, lower case; what lies in one is meant, too
	deep  []deep
}

// A namePattern matches lower-case names at any depth.
type namePattern struct {
	prefix, suffix string
	exact          bool
}

// A deep is a name at any depth below a directory, such as /proc/**/environ.
type deep struct{ dir, name string } // dir ends in a slash

// newSecretList takes the names that the home directory goes by; with none,
// patterns below it are left out.
func newSecretList(homes ...string) *secretList {
	s := &secretList{}
	for _, p := range permission.Secrets() {
		p = strings.ToLower(p)
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			for _, home := range homes {
				s.paths = append(s.paths, strings.ToLower(filepath.ToSlash(home))+"/"+rest)
			}
		} else if rest, ok := strings.CutPrefix(p, "//"); ok {
			if dir, name, ok := strings.Cut("/"+rest, "**/"); ok {
				s.deep = append(s.deep, deep{dir, name})
			} else {
				s.paths = append(s.paths, "/"+rest)
			}
		} else {
			prefix, suffix, star := strings.Cut(p, "*")
			s.names = append(s.names, namePattern{prefix, suffix, !star})
		}
	}
	return s
}

// name reports whether a file of that name is a secret wherever it lies.
func (s *secretList) name(name string) bool {
	name = strings.ToLower(name)
	for _, p := range s.names {
		if p.exact && name == p.prefix || !p.exact && len(name) >= len(p.prefix)+len(p.suffix) &&
			strings.HasPrefix(name, p.prefix) && strings.HasSuffix(name, p.suffix) {
			return true
		}
	}
	return false
}

// below returns the secret places below a directory, relative to it.
func (s *secretList) below(dir string) []string {
	dir = strings.TrimSuffix(strings.ToLower(filepath.ToSlash(dir)), "/") + "/"
	var out []string
	for _, p := range s.paths {
		if rest, ok := strings.CutPrefix(p, dir); ok {
			out = append(out, rest)
		}
	}
	return out
}

// file reports whether a file is a secret, by its name, that of a directory it
// lies in, or its place.
func (s *secretList) file(abs string) bool {
	abs = strings.ToLower(filepath.ToSlash(abs))
	for _, p := range s.paths {
		if abs == p || strings.HasPrefix(abs, p+"/") {
			return true
		}
	}
	for _, d := range s.deep {
		if rest, ok := strings.CutPrefix(abs, d.dir); ok && slices.Contains(strings.Split(rest, "/"), d.name) {
			return true
		}
	}
	return slices.ContainsFunc(strings.Split(abs, "/"), s.name)
}

// homes are the names of a workspace's home directory, as it is spelled and
// where its links lead; none if it is not known.
func homes(ws pathFS) []string {
	local, ok := ws.(homeFS)
	if !ok {
		return nil
	}
	dir := local.Home()
	if dir == "" {
		return nil
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		return []string{dir, real}
	}
	return []string{dir}
}

// secret reports whether reading a file would be asked about.
func (o FileOptions) secret(ws pathFS, abs string) bool {
	if o.Secret != nil {
		return o.Secret(abs)
	}
	return newSecretList(homes(ws)...).file(abs)
}

// secretEntry is secret for the entries of a walk below root that were met by
// way of directories which are none.
func (o FileOptions) secretEntry(ws pathFS, root string) func(*search.Found) bool {
	if o.Secret != nil {
		return func(e *search.Found) bool { return o.Secret(filepath.Join(root, filepath.FromSlash(e.Path()))) }
	}
	list := newSecretList(homes(ws)...)
	if list.file(root) {
		return func(*search.Found) bool { return true }
	}
	below := list.below(root)
	return func(e *search.Found) bool {
		if list.name(e.Name) {
			return true
		}
		for _, d := range list.deep {
			if strings.EqualFold(e.Name, d.name) && list.file(filepath.Join(root, filepath.FromSlash(e.Path()))) {
				return true
			}
		}
		for _, p := range below {
			// Most entries differ in their last letter.
			if p[len(p)-1] == lower(e.Name[len(e.Name)-1]) && strings.EqualFold(p, e.Path()) {
				return true
			}
		}
		return false
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c - 'A' + 'a'
	}
	return c
}
