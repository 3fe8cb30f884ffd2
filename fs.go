package knack

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"
)

// FS returns the skills of a directory in a file system, such as an embed.FS or an
// fstest.MapFS. It finds the same skills as [Dir] does on disk. The skills have no base
// directory; their Path is KIND:PATH.
func FS(fsys fs.FS, o Origin) Source { return fsSource{fsys, o} }

type fsSource struct {
	fsys   fs.FS
	origin Origin
}

func (s fsSource) Location() Location {
	return Location{Kind: s.origin.Kind, Label: s.origin.Label, Trust: s.origin.Trust}
}

func (s fsSource) Skills(ctx context.Context) iter.Seq2[*Skill, error] {
	return func(yield func(*Skill, error) bool) {
		t := fsTree{s.fsys, string(s.origin.Kind) + ":"}
		if s.origin.Label != "" {
			t.prefix += s.origin.Label + ":"
		}
		w := &walk{ctx: ctx, links: map[string]bool{}, fsys: t, origin: s.origin}
		w.start(".", "")
		for i := range w.found {
			for j := range w.found[i].problems {
				w.found[i].problems[j].Path = t.prefix + w.found[i].problems[j].Path
			}
		}
		w.yield(yield)
	}
}

type fsTree struct {
	fs.FS
	prefix string
}

func (t fsTree) readDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(t.FS, name) }
func (t fsTree) open(name string) (fs.File, error)          { return t.Open(name) }
func (t fsTree) stat(name string) (fs.FileInfo, error)      { return fs.Stat(t.FS, name) }
func (t fsTree) real(name string) (string, error)           { return name, nil }
func (t fsTree) join(dir, name string) string               { return path.Join(dir, name) }
func (t fsTree) joinSkill(dir, name string) (at, file string) {
	at = path.Join(dir, name)
	return at, path.Join(at, "SKILL.md")
}

func (t fsTree) file(name string) ([]byte, error) {
	info, err := fs.Stat(t.FS, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: %d bytes: a skill's file has at most %d", t.prefix+name, info.Size(), maxFile)
	}
	return fs.ReadFile(t.FS, name)
}

func (t fsTree) readlink(name string) (string, error) { return fs.ReadLink(t.FS, name) }

func (t fsTree) sub(name string) fs.FS {
	sub, err := fs.Sub(t.FS, name)
	if err != nil { // not a path of this file system, so that nothing was found there
		return t.FS
	}
	return sub
}

func (t fsTree) finish(s *Skill, name string) {
	s.ID, s.Path, s.Dir = t.prefix+name, t.prefix+name, ""
	if s.Name == "." { // SKILL.md at the root
		s.Name = s.Label
	}
	s.Read = func(context.Context) ([]byte, error) { return t.file(name) }
	dir := path.Dir(name)
	s.List = func(ctx context.Context) ([]string, error) {
		var files []string
		err := fs.WalkDir(t.FS, dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return cmp.Or(err, ctx.Err())
			}
			if !d.IsDir() && p != name {
				files = append(files, strings.TrimPrefix(p, dir+"/"))
			}
			return nil
		})
		return files, err
	}
	s.ReadFile = func(_ context.Context, beside string) ([]byte, error) {
		return fs.ReadFile(t.FS, path.Join(dir, beside))
	}
}

// Prefix returns a Source that renames the skills of src to PREFIX:NAME, as plugins and
// servers do.
func Prefix(prefix string, src Source) Source { return prefixed{src, prefix} }

type prefixed struct {
	Source
	prefix string
}

func (p prefixed) Skills(ctx context.Context) iter.Seq2[*Skill, error] {
	return func(yield func(*Skill, error) bool) {
		for s, err := range p.Source.Skills(ctx) {
			if s != nil {
				renamed := *s
				renamed.Name = p.prefix + ":" + renamed.Name
				s = &renamed
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func (p prefixed) Location() Location { return locationOf(p.Source) }
func (p prefixed) watched() []string  { return watched(p.Source) }
