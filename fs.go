package knack

import (
	"cmp"
	"context"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/filetree"
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
		prefix := string(s.origin.Kind) + ":"
		if s.origin.Label != "" {
			prefix += s.origin.Label + ":"
		}
		w := &walk{ctx: ctx, links: map[string]bool{}, fsys: filetree.FS{FS: s.fsys}, origin: s.origin,
			finish: s.finish(prefix)}
		w.start(".", "")
		for i := range w.found {
			for j := range w.found[i].problems {
				w.found[i].problems[j].Path = prefix + w.found[i].problems[j].Path
			}
		}
		w.yield(yield)
	}
}

// finish makes a skill that was found in a file system one without a directory.
func (s fsSource) finish(prefix string) func(k *Skill, name string) {
	t := filetree.FS{FS: s.fsys}
	return func(k *Skill, name string) {
		k.ID, k.Path, k.Dir = prefix+name, prefix+name, ""
		if k.Name == "." { // SKILL.md at the root
			k.Name = k.Label
		}
		k.Read = func(context.Context) ([]byte, error) { return t.Read(name, maxFile) }
		dir := path.Dir(name)
		k.List = func(ctx context.Context) ([]string, error) {
			var files []string
			err := fs.WalkDir(s.fsys, dir, func(p string, d fs.DirEntry, err error) error {
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
		k.ReadFile = func(_ context.Context, beside string) ([]byte, error) {
			return fs.ReadFile(s.fsys, path.Join(dir, beside))
		}
	}
}
