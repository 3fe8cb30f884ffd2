// Package skilldir decides which files of a directory belong to a skill.
package skilldir

import (
	"io/fs"
	"path"
	"strings"
)

// Walk calls fn, as fs.WalkDir does, for everything in fsys that belongs to the skill there.
// root means that the directory is a skills root that also has its own SKILL.md: then the
// other skills in it (directories with a SKILL.md) and a repository's .git do not belong to
// the skill.
func Walk(fsys fs.FS, root bool, fn fs.WalkDirFunc) error {
	if !root {
		return fs.WalkDir(fsys, ".", fn)
	}
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if name != "." && err == nil {
			switch {
			case d.IsDir() && Beside(fsys, name):
				return fs.SkipDir
			case path.Base(name) == ".git":
				return nil
			}
		}
		return fn(name, d, err)
	})
}

// Beside reports whether a directory below a skills root does not belong to the skill in that
// root, because it is a repository's .git or contains a SKILL.md (in any letter case).
func Beside(fsys fs.FS, dir string) bool {
	if path.Base(dir) == ".git" {
		return true
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.IsDir() && strings.EqualFold(e.Name(), "SKILL.md") {
			return true
		}
	}
	return false
}
