package knack

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/skilldir"
)

// Body returns the text of a skill as written, without frontmatter.
func (s *Skill) Body(ctx context.Context) (string, error) {
	if s.Prompt != nil {
		parts, err := s.Prompt(ctx, Invocation{Name: s.Name, Preview: true})
		return textOf(parts), err
	}
	data, err := s.read(ctx)
	if err != nil {
		return "", err
	}
	p := reader{path: s.Path}
	text, ok := p.decode(data, true)
	if !ok {
		return "", p.problems[0]
	}
	return string(frontmatter.Split(text).Body), nil
}

// maxResources limits the number of files that Resources returns.
const maxResources = 1000

// Resources returns the files beside a skill's SKILL.md, sorted, slash-separated and
// relative to its directory; at most 1,000 of them. Names that begin with a dot and
// node_modules are skipped.
func (s *Skill) Resources(ctx context.Context) ([]string, error) {
	if s.List != nil {
		return s.List(ctx)
	}
	if !s.hasFolder() {
		return nil, nil
	}
	return resources(ctx, s, false)
}

// hasFolder reports whether the files beside the skill's file belong to it. A single-file skill has none.
func (s *Skill) hasFolder() bool {
	return s.Dir != "" && strings.EqualFold(filepath.Base(s.Path), "SKILL.md")
}

// notResource reports whether a file or directory below a skill's directory is skipped because of its name.
func notResource(p string) bool {
	name := path.Base(p)
	return p != "." && (strings.HasPrefix(name, ".") || name == "node_modules")
}

// forPeople reports whether a file is for people or other programs rather than for the model that uses the skill: a
// licence, a logo, the description of the skill for another agent's menu, or what it is evaluated with.
func forPeople(p string) bool {
	if strings.HasPrefix(p, "evals/") {
		return true
	}
	name := strings.ToLower(path.Base(p))
	stem := strings.TrimSuffix(name, path.Ext(name))
	switch stem {
	case "license", "licence", "copying", "notice", "license-mit", "license-apache":
		return path.Ext(name) == "" || path.Ext(name) == ".txt" || path.Ext(name) == ".md"
	}
	switch path.Ext(name) {
	case ".svg", ".png", ".ico", ".jpg", ".webp":
		return slices.ContainsFunc(strings.FieldsFunc(stem, func(r rune) bool { return r == '-' || r == '_' || r == '.' }),
			func(word string) bool { return word == "logo" || word == "icon" })
	}
	return strings.HasSuffix("/"+strings.ToLower(p), "/agents/openai.yaml") || name == "gemini-extension.json"
}

// directories returns the skill's directory and those below it that can have Resources.
func (s *Skill) directories(ctx context.Context) []string {
	if s.List != nil || !s.hasFolder() {
		return nil
	}
	var all []string
	skilldir.Walk(os.DirFS(s.Dir), false, func(p string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil || len(all) == maxResources:
			return fs.SkipAll
		case err != nil || !d.IsDir():
		case notResource(p):
			return fs.SkipDir
		default:
			all = append(all, filepath.Join(s.Dir, filepath.FromSlash(p)))
		}
		return nil
	})
	return all
}

// resources lists the files below a skill's directory. root says that the directory is a
// skills root, so that the skills beside this one are not part of it.
func resources(ctx context.Context, s *Skill, root bool) ([]string, error) {
	var files []string
	err := skilldir.Walk(os.DirFS(s.Dir), root, func(p string, d fs.DirEntry, err error) error {
		if err := cmp.Or(ctx.Err(), err); err != nil && (p == "." || ctx.Err() != nil) {
			return err // d is nil if the directory is gone
		}
		switch {
		case notResource(p):
			if d.IsDir() {
				return fs.SkipDir
			}
		case err == nil && !d.IsDir() && p != filepath.Base(s.Path):
			if files = append(files, p); len(files) == maxResources {
				return fs.SkipAll
			}
		}
		return nil
	})
	return files, err
}
