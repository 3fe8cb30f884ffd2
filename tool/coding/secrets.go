package coding

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/internal/search"
	"github.com/knack-agent/knack/permission"
)

// A secretList is permission.Secrets made ready to be held against every entry
// of a walk: [permission.Rules.Decide], which also judges rules and links, takes
// a hundred times as long for one.
type secretList struct {
	names []namePattern
	paths []string // absolute, with slashes, lower case; what lies in one is meant, too
}

// A namePattern matches lower-case names at any depth.
type namePattern struct {
	prefix, suffix string
	exact          bool
}

// newSecretList leaves out patterns below a home that is not known ("").
func newSecretList(home string) *secretList {
	s := &secretList{}
	for _, p := range permission.Secrets {
		p = strings.ToLower(p)
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			if home != "" {
				s.paths = append(s.paths, strings.ToLower(filepath.ToSlash(home))+"/"+rest)
			}
		} else if rest, ok := strings.CutPrefix(p, "//"); ok {
			s.paths = append(s.paths, "/"+rest)
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

// file reports whether a file is a secret.
func (s *secretList) file(abs string) bool {
	abs = filepath.ToSlash(abs)
	if s.name(path.Base(abs)) {
		return true
	}
	abs = strings.ToLower(abs)
	for _, p := range s.paths {
		if abs == p || strings.HasPrefix(abs, p+"/") {
			return true
		}
	}
	return false
}

// home is the home directory of a workspace, "" if it is not known.
func home(ws pathFS) string {
	if _, ok := ws.(osFS); !ok {
		return ""
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return dir
}

// secret reports whether reading a file would be asked about.
func (o FileOptions) secret(ws pathFS, abs string) bool {
	if o.Secret != nil {
		return o.Secret(abs)
	}
	return newSecretList(home(ws)).file(abs)
}

// secretEntry is secret for the entries of a walk below root.
func (o FileOptions) secretEntry(ws pathFS, root string) func(*search.Entry) bool {
	if o.Secret != nil {
		return func(e *search.Entry) bool { return o.Secret(filepath.Join(root, filepath.FromSlash(e.Path()))) }
	}
	list := newSecretList(home(ws))
	below := list.below(root)
	return func(e *search.Entry) bool {
		if list.name(e.Name) {
			return true
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
