package permission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/knack-agent/knack/permission/internal/bash"
)

// Queries of the file system at the time of a decision.

// expand returns the files that the word v of a command names at this moment. For a glob these are
// the matches and the directory that is searched; too many matches, or a pattern with ** or (, are
// returned together with the pattern itself.
func (j *judge) expand(a *bash.File, v, dir string) []string {
	if a.Word == nil || !a.Word.Glob || a.Text != "" {
		return []string{v}
	}
	list := j.paths.Glob
	if list == nil {
		list = filepath.Glob
	}
	pat := v
	if strings.HasPrefix(pat, "~/") && j.paths.Home != "" {
		pat = j.paths.Home + pat[1:]
	} else if !bash.IsAbs(pat) {
		pat = dir + "/" + pat
	}
	found, err := list(filepath.FromSlash(pat))
	if err != nil || strings.Contains(v, "**") || strings.Contains(v, "(") || len(found) > 2000 {
		return append([]string{v}, found...)
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
	return out
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

// links lists the symbolic links below a directory. It reads at most *left entries, counting left
// down, and reports whether the list is complete.
func (p *PathContext) links(dir string, left *int) (links []string, all bool) {
	if p.Below != nil { // each of them may be a link
		return p.Below(filepath.FromSlash(dir), *left)
	}
	all = true
	filepath.WalkDir(filepath.FromSlash(dir), func(name string, d fs.DirEntry, err error) error {
		if *left--; *left < 0 {
			all = false
			return filepath.SkipAll
		}
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			links = append(links, name)
		}
		return nil
	})
	return links, all
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

func walk(dir string, n int) (files []string, all bool) {
	all = true
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if len(files) >= n {
			all = false
			return filepath.SkipAll
		}
		files = append(files, p)
		return nil
	})
	return files, all
}
