package trust

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/regular"
)

// A Kind is what an item would be loaded as.
type Kind string

const (
	Skill    Kind = "skill"
	Command  Kind = "command"  // a legacy command: commands/**/*.md
	Template Kind = "template" // a prompt template: prompts/*.md
	System   Kind = "system"   // SYSTEM.md, APPEND_SYSTEM.md
	Agent    Kind = "agent"
	Hooks    Kind = "hooks" // a file under hooks/, which settings may run
	MCP      Kind = "mcp"
	Settings Kind = "settings"
)

// A State says where an item stands.
type State string

const (
	New      State = "new"
	Changed  State = "changed"
	Approved State = "approved"
)

// An Item is one thing that a project would load.
type Item struct {
	Kind   Kind     `json:"kind"`
	Path   string   `json:"path"` // relative to the root, with slashes
	State  State    `json:"state"`
	Hash   string   `json:"hash,omitempty"`
	Target string   `json:"target,omitempty"` // of a link that leaves the root: where it leads
	Files  int      `json:"files"`
	Loads  []string `json:"loads,omitempty"` // what it would do, a line each; strangers' text
	// Refused says why the item cannot be approved as it is.
	Refused string `json:"refused,omitempty"`

	entry string // of a folder
	main  string
	head  string
	list  manifest
	dir   string // where its bytes are
}

// Bounds of what can be approved.
const (
	MaxFile        = 1 << 20 // of an item that is a file, and of a file kept for diffs
	maxFolderFiles = 10_000
	maxFolderBytes = 256 << 20
	maxEntries     = 200_000 // of a scan
)

// The directories that hold a project's resources.
var resourceDirs = []string{".knack", ".claude", ".pi", ".agents"}

// Scan finds what the folder would load for someone who works in dir: in dir,
// its parents up to the root, and the directories below dir (without .git and
// node_modules). dir is absolute. Links that leave the root are not read,
// unless links is set; then only what they name as a skill or a Markdown file
// is. The error tells that the scan is incomplete.
func (p *Project) Scan(ctx context.Context, dir string, links bool) ([]Item, error) {
	rel, ok := p.rel(dir)
	if !ok {
		return nil, fmt.Errorf("%s is not in %s", dir, p.root)
	}
	root, err := os.OpenRoot(p.real)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := scan{p: p, root: root, links: links}
	for d := path.Dir(rel); rel != "." && d != "."; d = path.Dir(d) {
		s.dir(ctx, d)
	}
	if rel != "." {
		s.dir(ctx, ".")
	}
	err = s.below(ctx, rel)
	slices.SortFunc(s.items, func(a, b Item) int { return strings.Compare(a.Path, b.Path) })
	return s.items, err
}

type scan struct {
	p       *Project
	root    *os.Root
	links   bool
	entries int
	items   []Item
}

var errTooMany = fmt.Errorf("more than %d files and directories: not all was looked at", maxEntries)

// below scans a directory and everything under it.
func (s *scan) below(ctx context.Context, dir string) error {
	return fs.WalkDir(s.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // a directory that cannot be read loads nothing either
		}
		if s.entries++; s.entries > maxEntries {
			return errTooMany
		}
		if !d.IsDir() {
			return nil
		}
		base := path.Base(name)
		if name != dir && (base == ".git" || base == "node_modules" || slices.Contains(resourceDirs, base)) {
			return fs.SkipDir
		}
		s.dir(ctx, name)
		return nil
	})
}

// dir takes what one directory of the project brings.
func (s *scan) dir(ctx context.Context, dir string) {
	for _, r := range resourceDirs {
		base := path.Join(dir, r)
		if info, err := s.root.Lstat(base); err != nil || !(info.IsDir() || info.Mode()&fs.ModeSymlink != 0) {
			continue
		}
		for _, f := range []struct {
			name string
			kind Kind
		}{
			{"settings.json", Settings}, {"settings.local.json", Settings},
			{"SYSTEM.md", System}, {"APPEND_SYSTEM.md", System}, {"mcp.json", MCP}, {".mcp.json", MCP},
		} {
			s.file(f.kind, path.Join(base, f.name))
		}
		s.tree(ctx, base, "agents", Agent, ".md", 6)
		s.tree(ctx, base, "commands", Command, ".md", 6)
		s.tree(ctx, base, "prompts", Template, ".md", 1)
		s.tree(ctx, base, "hooks", Hooks, "", 6)
		s.skills(ctx, path.Join(base, "skills"), r == ".pi", 0)
	}
	s.file(MCP, path.Join(dir, ".mcp.json"))
}

// tree takes the files below base/name.
func (s *scan) tree(ctx context.Context, base, name string, k Kind, suffix string, depth int) {
	for _, e := range s.list(ctx, path.Join(base, name)) {
		at := path.Join(base, name, e.Name())
		switch {
		case e.IsDir():
			if depth > 1 {
				s.tree(ctx, path.Join(base, name), e.Name(), k, suffix, depth-1)
			}
		case strings.HasSuffix(strings.ToLower(e.Name()), suffix):
			s.file(k, at)
		case e.Type()&fs.ModeSymlink != 0 && depth > 1:
			if info, err := s.root.Stat(at); err == nil && info.IsDir() {
				s.tree(ctx, path.Join(base, name), e.Name(), k, suffix, depth-1)
			}
		}
	}
}

// skills takes the skills below a directory of skills.
func (s *scan) skills(ctx context.Context, dir string, loose bool, depth int) {
	for _, e := range s.list(ctx, dir) {
		at := path.Join(dir, e.Name())
		info, err := s.root.Stat(at) // follows links that stay inside
		switch {
		case err != nil && e.Type()&fs.ModeSymlink != 0:
			s.outside(at)
		case err != nil || e.Name() == ".git" || e.Name() == "node_modules":
		case info.IsDir():
			if entry := skillFile(s.root.FS(), at); entry != "" {
				s.folder(at, filepath.Join(s.p.real, filepath.FromSlash(at)), entry, "")
			} else if depth < 6 {
				s.skills(ctx, at, loose, depth+1)
			}
		case loose && depth == 0 && strings.HasSuffix(e.Name(), ".md"):
			s.file(Skill, at)
		}
	}
}

// list is a directory's entries; none if it cannot be read or leaves the root.
func (s *scan) list(ctx context.Context, dir string) []fs.DirEntry {
	if ctx.Err() != nil || s.entries > maxEntries {
		return nil
	}
	entries, err := fs.ReadDir(s.root.FS(), dir)
	if err != nil {
		return nil
	}
	s.entries += len(entries)
	return entries
}

// skillFile is the name of the file that makes a directory a skill: SKILL.md
// in any letter case, the exact one first.
func skillFile(fsys fs.FS, dir string) string {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return ""
	}
	found := ""
	for _, e := range entries {
		if e.Name() == "SKILL.md" {
			return e.Name()
		}
		if found == "" && strings.EqualFold(e.Name(), "SKILL.md") {
			found = e.Name()
		}
	}
	return found
}

// file takes an item that is one file, if it is there.
func (s *scan) file(k Kind, at string) {
	it := Item{Kind: k, Path: at, Files: 1, dir: filepath.Join(s.p.real, filepath.FromSlash(path.Dir(at)))}
	data, err := readRegular(s.root, at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		if target := s.leaves(at); target != "" {
			it.Target = target
			it.Refused = "a link that leaves the project"
			if s.links && k != Settings && k != MCP && strings.HasSuffix(target, ".md") {
				data, err = readOutside(target)
			}
		} else {
			it.Refused = err.Error()
		}
	}
	if err == nil {
		it.Refused = ""
		it.Hash, it.head = hash(data), headOf(data)
		it.Loads = loads(k, data)
		it.list = manifest{{kind: 'f', hash: it.Hash, size: int64(len(data)), path: path.Base(at)}}
		if it.Target != "" {
			it.dir = filepath.Dir(it.Target)
			it.list[0].path = filepath.Base(it.Target)
		}
	}
	s.add(it)
}

// outside takes a link among the skills that leaves the root.
func (s *scan) outside(at string) {
	target := s.leaves(at)
	if target == "" {
		return // it leads nowhere
	}
	if s.links {
		if entry := skillFile(os.DirFS(target), "."); entry != "" {
			s.folder(at, target, entry, target)
			return
		}
	}
	s.add(Item{Kind: Skill, Path: at, Target: target, Refused: "a link that leaves the project"})
}

// leaves is where a path that cannot be opened inside the root leads outside
// of it; "" if it does not.
func (s *scan) leaves(at string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(s.p.real, filepath.FromSlash(at)))
	if err != nil {
		return ""
	}
	if _, inside := below(s.p.real, real); inside {
		return ""
	}
	return real
}

// folder takes a skill.
func (s *scan) folder(at, dir, entry, target string) {
	it := Item{Kind: Skill, Path: at, Target: target, entry: entry, dir: dir}
	m, err := readManifest(dir)
	if err != nil {
		it.Refused = err.Error()
	} else {
		it.list, it.Hash, it.Files = m, m.hash(), len(m)
		for _, e := range m {
			if e.path == entry {
				it.main = e.hash
			}
		}
		if it.main == "" {
			it.Refused = entry + " is not a regular file of the folder"
		}
		root, err := os.OpenRoot(dir)
		if err == nil {
			// The head is hashed of a second reading: only if that is the file which
			// was hashed above it says something of it.
			if data, err := readRegular(root, entry); err == nil && hash(data) == it.main {
				it.head = headOf(data)
				it.Loads = append(loads(Skill, data), m.summary()...)
			}
			root.Close()
		}
	}
	s.add(it)
}

func headOf(data []byte) string { return hash(data[:min(len(data), HeadSize)]) }

func (s *scan) add(it Item) {
	it.State = New
	s.p.mu.RLock()
	r, ok := s.p.items[it.Path]
	s.p.mu.RUnlock()
	switch {
	case ok && r.Hash == it.Hash && it.Hash != "":
		it.State, it.Refused = Approved, ""
	case ok:
		it.State = Changed
	}
	s.items = append(s.items, it)
}

// readRegular reads a regular file of at most MaxFile bytes.
func readRegular(root *os.Root, name string) ([]byte, error) {
	data, err := regular.ReadIn(root, name, MaxFile)
	var pe *fs.PathError
	if errors.As(err, &pe) && !errors.Is(err, fs.ErrNotExist) {
		return nil, pe.Err // the item has the path
	}
	return data, err
}

func readOutside(name string) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readRegular(root, filepath.Base(name))
}
