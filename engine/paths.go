package engine

import (
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// realPath resolves the links in the existing part of a path.
func realPath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if r, err := filepath.EvalSymlinks(abs); err == nil {
		return r
	}
	return abs
}

// Short returns a path relative to the working directory or to the home directory if it is below one
// of them.
func (p *Project) Short(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	if rel, ok := subpath.Rel(p.dir, path); ok {
		return rel
	}
	return subpath.Short(path, p.home)
}

// ShortIn shortens the paths in a sentence as Short does.
func (p *Project) ShortIn(text string) string {
	sep := string(filepath.Separator)
	if len(p.dir) > 1 {
		text = strings.ReplaceAll(text, p.dir+sep, "")
	}
	if len(p.home) > 1 {
		text = strings.ReplaceAll(text, p.home+sep, "~"+sep)
	}
	return text
}

// ShortProblem formats a problem with short paths, on one line that is safe to print on a terminal.
func (p *Project) ShortProblem(x knack.Problem) string {
	x.Path, x.Message = p.Short(x.Path), p.ShortIn(x.Message)
	return plain.Line(x.String())
}
