package sources

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Nested finds skill folders between touched files and the working directory. It looks
// at each directory once. It is safe for concurrent use.
type Nested struct {
	table table

	mu      sync.Mutex
	visited map[string]bool // value false: ignored
}

// NewNested starts a search below a working directory. With the option Bare or NoSkills
// it finds nothing.
func NewNested(dir string, o Options) *Nested {
	return &Nested{table: newTable(absolute(dir, ""), o), visited: map[string]bool{}}
}

// A Below is a folder of skills below the working directory.
type Below struct {
	*knack.Folder
	Ignored string // the line of an ignore file that excludes its directory; "": none
}

// maxBelow limits how many directories All searches.
const maxBelow = 20_000

// FindAll returns every folder that Look could return for some path, and also those in
// ignored directories, sorted by path. It is used for explanations: a run looks only
// where files are touched.
func (n *Nested) FindAll(ctx context.Context) []Below {
	if n.table.Bare || n.table.NoSkills || n.table.NoProject {
		return nil
	}
	var all []Below
	tree, looked := ignore.New(os.DirFS(n.table.root)), 0
	// A directory that cannot be read contains no skills that could be loaded.
	_ = filepath.WalkDir(n.table.dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || !d.IsDir() || path == n.table.dir {
			return nil
		}
		if name := d.Name(); name == "node_modules" || strings.HasPrefix(name, ".") {
			return fs.SkipDir
		}
		if looked++; looked > maxBelow {
			return fs.SkipAll
		}
		ignored := ""
		if rel, err := filepath.Rel(n.table.root, path); err == nil {
			ignored = tree.Explain(filepath.ToSlash(rel), true)
		}
		for _, f := range n.nested(path) {
			all = append(all, Below{f, ignored})
		}
		return nil
	})
	return all
}

// nested returns the existing skill folders in a directory below the working directory.
func (n *Nested) nested(dir string) []*knack.Folder {
	rel, _ := subpath.Rel(n.table.dir, dir)
	return slices.DeleteFunc(n.table.folders(knack.Project, dir, n.table.root), func(f *knack.Folder) bool {
		f.Origin.Nested = filepath.ToSlash(rel)
		_, err := os.Stat(f.Path)
		return err != nil
	})
}

// Find returns the skill folders on the way to paths (absolute, or relative to the
// working directory) that it has not looked at before, the highest first. They have the
// lowest precedence: add them with knack.Library.Add. If a skill's name is taken, it
// becomes dir/sub:name. Paths outside the working directory, ignored ones, and those in
// node_modules or in a dot-directory are skipped.
func (n *Nested) Find(paths ...string) []knack.Source {
	if n.table.Bare || n.table.NoSkills {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []knack.Source
	var tree *ignore.Tree // loaded anew for each call
	for _, path := range paths {
		rel, ok := subpath.Rel(n.table.dir, absolute(path, n.table.dir))
		if !ok {
			continue
		}
		for rest, dir := filepath.ToSlash(rel), ""; rest != ""; {
			var name string
			name, rest, _ = strings.Cut(rest, "/")
			if name == "node_modules" || strings.HasPrefix(name, ".") {
				break
			}
			dir = strings.TrimPrefix(dir+"/"+name, "/")
			if wanted, looked := n.visited[dir]; wanted {
				continue
			} else if looked {
				break
			}
			full := filepath.Join(n.table.dir, filepath.FromSlash(dir))
			if info, err := os.Stat(full); err != nil || !info.IsDir() {
				break // a file, or a path that does not exist yet
			}
			if tree == nil {
				tree = ignore.New(os.DirFS(n.table.root))
			}
			if fromRoot, err := filepath.Rel(n.table.root, full); err == nil && tree.Match(filepath.ToSlash(fromRoot), true) {
				n.visited[dir] = false
				break
			}
			n.visited[dir] = true
			for _, f := range n.nested(full) {
				all = append(all, f)
			}
		}
	}
	return all
}
