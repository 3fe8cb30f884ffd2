package coding

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/search"
)

// A secretList is permission.Secrets prepared for checking every entry of a walk. It
// gives the same results as [permission.PathContext.Secret], which takes twenty times as
// long for one entry.
type secretList struct {
	names  []namePattern
	paths  []string // absolute, slash-separated, lower case; includes everything below
	nested []nestedSecret
}

// A namePattern matches lower-case names at any depth.
type namePattern struct {
	prefix, suffix string
	exact          bool
}

// A nestedSecret is a name at any depth below a directory, such as /proc/**/environ.
type nestedSecret struct{ dir, name string } // dir ends in a slash

// newSecretList returns the list for a home directory, given by all its paths. Without
// any, patterns below the home directory are left out.
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
				s.nested = append(s.nested, nestedSecret{dir, name})
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

// name reports whether a file with that name is a secret in any directory.
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

// below returns the secret paths below a directory, relative to it.
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

// file reports whether a file is a secret because of its name, its path, or the name of
// a directory above it.
func (s *secretList) file(abs string) bool {
	abs = strings.ToLower(filepath.ToSlash(abs))
	for _, p := range s.paths {
		if abs == p || strings.HasPrefix(abs, p+"/") {
			return true
		}
	}
	for _, d := range s.nested {
		if rest, ok := strings.CutPrefix(abs, d.dir); ok && slices.Contains(strings.Split(rest, "/"), d.name) {
			return true
		}
	}
	return slices.ContainsFunc(strings.Split(abs, "/"), s.name)
}

// homes returns the paths of a workspace's home directory: as configured, and with links
// resolved. It returns none if the home directory is not known.
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

// secret reports whether reading a file requires asking the user.
func (o FileOptions) secret(ws pathFS, abs string) bool {
	if o.Secret != nil {
		return o.Secret(abs)
	}
	return newSecretList(homes(ws)...).file(abs)
}

// secretEntry is like secret, for the entries of a walk below root. It checks only the
// entry itself, since the walk does not enter secret directories.
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
		for _, d := range list.nested {
			if strings.EqualFold(e.Name, d.name) && list.file(filepath.Join(root, filepath.FromSlash(e.Path()))) {
				return true
			}
		}
		for _, p := range below {
			// Comparing the last letter first rejects most entries.
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
