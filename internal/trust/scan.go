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

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/ignore"
	"github.com/knack-agent/knack/internal/layout"
	"github.com/knack-agent/knack/internal/regular"
	"github.com/knack-agent/knack/sources"
)

// A Kind is what an item would be loaded as.
type Kind = layout.Kind

const (
	Skill    = layout.Skill
	Command  = layout.Command
	Template = layout.Template
	System   = layout.System
	Agent    = layout.Agent
	Hooks    = layout.Hooks
	MCP      = layout.MCP
	Settings = layout.Settings
)

// An ItemState is the state of approval of an item.
type ItemState string

const (
	New      ItemState = "new"
	Changed  ItemState = "changed"
	Approved ItemState = "approved"
)

// An Item is one thing that a project would load.
type Item struct {
	Kind   Kind      `json:"kind"`
	Path   string    `json:"path"` // relative to the root, with slashes
	State  ItemState `json:"state"`
	Hash   string    `json:"hash,omitempty"`
	Target string    `json:"target,omitempty"` // of a link that leaves the root: where it leads
	Files  int       `json:"files"`
	Loads  []string  `json:"loads,omitempty"` // what it would do, a line each; untrusted text
	// Commands are the inline commands that run when it is invoked, as they are
	// written; untrusted text.
	Commands []string `json:"commands,omitempty"`
	// Replaces is the bundled skill that it replaces once it is approved.
	Replaces string `json:"replaces,omitempty"`
	// Programs reports that it defines MCP servers that are programs. Network is what
	// these may reach: "" or none, all, or hosts separated by commas, as
	// [mcp.ParseNetwork] returns them. The user sets it when approving the item.
	Programs bool   `json:"programs,omitempty"`
	Network  string `json:"network,omitempty"`
	// Refused explains why the item cannot be approved as it is.
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

// Scan finds what the folder would load for someone who works in dir: in dir,
// its parents up to the root, and the directories below dir that nested resources
// are looked for in. Skills and commands are found by the same search that loads
// them. dir is absolute. Links that leave the root are not read, unless links is
// set; then only what they name as a skill or a Markdown file is. The error says
// that the scan is incomplete.
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
	s := scan{p: p, root: root, links: links, seen: map[string]bool{}}
	for _, d := range layout.Dirs(filepath.FromSlash(rel), ".")[1:] {
		s.dir(ctx, filepath.ToSlash(d))
	}
	err = errors.Join(s.below(ctx, rel), s.problem)
	slices.SortFunc(s.items, func(a, b Item) int { return strings.Compare(a.Path, b.Path) })
	return s.items, err
}

// ScanSkills finds the skills of directories, absolute ones, and of nothing above
// or below them.
func (p *Project) ScanSkills(ctx context.Context, dirs ...string) ([]Item, error) {
	root, err := os.OpenRoot(p.real)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := scan{p: p, root: root, seen: map[string]bool{}}
	for _, dir := range dirs {
		if rel, ok := p.rel(dir); ok {
			for _, row := range layout.Rows(Skill) {
				s.skills(ctx, rel, row)
			}
		}
	}
	slices.SortFunc(s.items, func(a, b Item) int { return strings.Compare(a.Path, b.Path) })
	return s.items, s.problem
}

type scan struct {
	p       *Project
	root    *os.Root
	links   bool
	entries int
	items   []Item
	seen    map[string]bool // paths of items
	problem error           // what the scan did not look at
}

var errTooMany = fmt.Errorf("more than %d files and directories: the scan is incomplete", maxEntries)

// below scans a directory and everything under it in which nested resources count.
func (s *scan) below(ctx context.Context, dir string) error {
	ignored := ignore.New(s.root.FS())
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
		if base := path.Base(name); name != dir && (strings.HasPrefix(base, ".") || base == "node_modules" ||
			ignored.Match(name, true)) {
			return fs.SkipDir
		}
		s.dir(ctx, name)
		return nil
	})
}

// dir takes what one directory of the project brings.
func (s *scan) dir(ctx context.Context, dir string) {
	there := map[string]bool{}
	for _, name := range layout.Folders() {
		info, err := s.root.Lstat(path.Join(dir, name))
		there[name] = err == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0)
	}
	for _, row := range layout.Rows() {
		folder, _, below := strings.Cut(row.Path, "/")
		if !row.Trust || below && !there[folder] || ctx.Err() != nil {
			continue
		}
		at := path.Join(dir, row.Path)
		switch {
		case row.Kind == Skill || row.Kind == Command:
			s.skills(ctx, dir, row)
		case row.Depth == 0:
			s.file(row.Kind, at)
		default:
			names, err := layout.Files(s.root.FS(), at, row)
			s.incomplete(at, err)
			for _, name := range names {
				s.file(row.Kind, path.Join(at, name))
			}
		}
	}
}

func (s *scan) incomplete(at string, err error) {
	if err != nil {
		s.problem = errors.Join(s.problem, fmt.Errorf("%s: the scan is incomplete: %w", at, err))
	}
}

// skills takes the skills or commands of a row.
func (s *scan) skills(ctx context.Context, dir string, row layout.Row) {
	folder := sources.Folder(filepath.Join(s.p.real, filepath.FromSlash(dir)), row.Path, s.p.real)
	folder.Outside = func(string) knack.Trust {
		if s.links {
			return knack.Trusted
		}
		return knack.Untrusted
	}
	var found []*knack.Skill
	var problems []knack.Problem
	for skill, err := range folder.Skills(ctx) {
		var p knack.Problem
		switch {
		case skill != nil:
			found = append(found, skill)
		case errors.As(err, &p):
			problems = append(problems, p)
		default:
			s.incomplete(path.Join(dir, row.Path), err)
		}
	}
	for _, k := range found {
		s.skill(row.Kind, k)
	}
	for _, p := range problems {
		rel, ok := s.p.rel(p.Path)
		switch {
		case !ok || s.seen[rel] || s.seen[path.Dir(rel)]:
		case p.Code == knack.CodeSymlinkOutside:
			s.add(Item{Kind: row.Kind, Path: rel, Target: s.leaves(rel), Refused: "a link that leads out of the project"})
		case p.Code == knack.CodeLinkAsText, p.Severity == knack.Error:
			s.add(Item{Kind: row.Kind, Path: rel, Refused: p.Message})
		case p.Code == knack.CodeLimitReached:
			s.incomplete(rel, errors.New(p.Message))
		}
	}
}

// skill takes one that the search found.
func (s *scan) skill(kind Kind, k *knack.Skill) {
	at, ok := s.p.rel(k.Path)
	if !ok {
		return
	}
	target, inside := below(s.p.real, k.ID) // where its bytes are
	if !strings.EqualFold(path.Base(at), "SKILL.md") || kind == Command {
		s.file(kind, at)
	} else {
		dir, out := k.Dir, ""
		if real, err := filepath.EvalSymlinks(k.Dir); err == nil {
			dir = real
			if _, in := below(s.p.real, real); !in {
				out = real
			}
		}
		s.folder(path.Dir(at), dir, path.Base(at), out)
	}
	if last := len(s.items) - 1; slices.Contains(s.p.Bundled, k.Name) &&
		(s.items[last].Path == at || s.items[last].Path == path.Dir(at)) {
		it := &s.items[last]
		if it.Replaces = k.Name; it.State == Approved && !s.p.Replaces(k.Path) {
			it.State = New // no one was shown that it replaces one
		}
	}
	if inside && target != at && !s.within(target) {
		s.file(kind, target) // what a link in the project leads to is approved by itself
	}
}

// within reports whether a file belongs to a folder that is an item.
func (s *scan) within(file string) bool {
	for _, it := range s.items {
		if it.entry != "" && slices.ContainsFunc(it.list, func(e entry) bool {
			return e.kind != 'l' &&
				it.Path+"/"+e.path == file
		}) {
			return true
		}
	}
	return false
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
			it.Refused = "a link that leads out of the project"
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
		it.Loads, it.Commands, it.Programs = loads(k, data), commands(k, data), programs(k, data)
		it.list = manifest{{kind: 'f', hash: it.Hash, size: int64(len(data)), path: path.Base(at)}}
		if it.Target != "" {
			it.dir = filepath.Dir(it.Target)
			it.list[0].path = filepath.Base(it.Target)
		}
	}
	s.add(it)
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
	m, err := readManifest(dir, layout.IsSkillsRoot(at))
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
			it.Refused = entry + " is not a file of the folder"
		}
		root, err := os.OpenRoot(dir)
		if err == nil {
			// The head is hashed of a second reading: only if that is the file which
			// was hashed above it says something of it.
			if data, err := readRegular(root, entry); err == nil && hash(data) == it.main {
				it.head = headOf(data)
				it.Loads, it.Commands = loads(Skill, data), commands(Skill, data)
			}
			it.Loads = append(it.Loads, m.summary()...)
			root.Close()
		}
	}
	s.add(it)
}

func headOf(data []byte) string { return hash(data[:min(len(data), HeadSize)]) }

func (s *scan) add(it Item) {
	if s.seen[it.Path] {
		return
	}
	s.seen[it.Path] = true
	it.State = New
	s.p.mu.RLock()
	r, ok := s.p.items[it.Path]
	s.p.mu.RUnlock()
	switch {
	case ok && r.Hash == it.Hash && it.Hash != "":
		it.State, it.Refused, it.Network = Approved, "", r.Network
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
