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
	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/parallel"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/sources"
)

// A Kind is the kind of resource that an item would be loaded as.
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

// An ItemState says whether an item is approved.
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
	Target string    `json:"target,omitempty"` // the target of a link that leaves the root
	Files  int       `json:"files"`
	Loads  []string  `json:"loads,omitempty"` // what it would do, one line each; untrusted text
	// Commands are the inline commands that run when the item is invoked, unchanged; untrusted text.
	Commands []string `json:"commands,omitempty"`
	// Replaces is the name of the bundled skill that the item replaces once it is approved.
	Replaces string `json:"replaces,omitempty"`
	// Programs means that the item defines MCP servers that are programs. Network is what they may reach:
	// "", none, all, or hosts separated by commas, as [mcp.ParseNetwork] returns them. The user sets it
	// when approving the item.
	Programs bool   `json:"programs,omitempty"`
	Network  string `json:"network,omitempty"`
	// Wants are the directories besides the project in which their definitions ask to write, and Write those in which
	// they may, which the user sets when approving the item.
	Wants []string `json:"wants,omitempty"`
	Write []string `json:"write,omitempty"`
	// Refused explains why the item cannot be approved as it is.
	Refused string `json:"refused,omitempty"`

	entry string // for a folder: the name of its SKILL.md
	main  string
	head  string
	list  manifest
	dir   string // the directory that contains its content
}

// Limits of what can be approved.
const (
	MaxFile        = 1 << 20 // for an item that is a file, and for a file kept for diffs
	maxFolderFiles = 10_000
	maxFolderBytes = 256 << 20
	maxEntries     = 200_000 // for one scan
	maxDepth       = 100     // of directories: opening one takes as many system calls as it is deep
)

// Scan finds what the project would load for a user who works in dir: from dir, its parents up to the
// root, and those directories below dir that are searched for nested resources. It finds skills and
// commands with the same search that loads them. dir is absolute. Links that leave the root are not
// read, unless links is set; then only skills and Markdown files are read through them. An error means
// that the scan is incomplete.
func (p *Project) Scan(ctx context.Context, dir string, links bool) ([]Item, error) {
	rel, ok := p.rel(dir)
	if !ok {
		return nil, fmt.Errorf("%s is not in %s", dir, p.root)
	}
	root, err := regular.Root(p.real)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := scan{p: p, root: root, links: links, seen: map[string]bool{}}
	for _, dir := range gitfile.MadeFrom(p.real) {
		if from, err := regular.Root(dir); err == nil {
			defer from.Close()
			s.origins = append(s.origins, from)
		}
	}
	for _, d := range layout.Dirs(filepath.FromSlash(rel), ".")[1:] {
		s.dir(ctx, filepath.ToSlash(d))
	}
	err = errors.Join(s.below(ctx, rel), s.problem)
	order.Stable(s.items, func(a, b Item) int { return strings.Compare(a.Path, b.Path) })
	return s.items, err
}

// ScanSkills finds the skills of the given absolute directories, but not of their parents or
// subdirectories.
func (p *Project) ScanSkills(ctx context.Context, dirs ...string) ([]Item, error) {
	root, err := regular.Root(p.real)
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
	order.Stable(s.items, func(a, b Item) int { return strings.Compare(a.Path, b.Path) })
	return s.items, s.problem
}

// SkillDiff returns what has changed in a skill of the project since it was approved, as Diff does. It reads nothing of
// other skills.
func (p *Project) SkillDiff(k *knack.Skill) (string, error) {
	root, err := regular.Root(p.real)
	if err != nil {
		return "", err
	}
	defer root.Close()
	s := scan{p: p, root: root, seen: map[string]bool{}}
	s.skill(Skill, k, s.folder(Skill, k))
	var text strings.Builder
	for _, it := range s.items {
		text.WriteString(p.Diff(it))
	}
	return text.String(), s.problem
}

type scan struct {
	p       *Project
	root    *os.Root
	links   bool
	origins []*os.Root // what this project was made from, such as the main work tree
	entries int
	items   []Item
	seen    map[string]bool // paths of items
	problem error           // what the scan could not read
}

var errTooMany = fmt.Errorf("more than %d files and directories: the scan is incomplete", maxEntries)

// below scans a directory and those below it that are searched for nested resources.
func (s *scan) below(ctx context.Context, dir string) error {
	ignored := ignore.New(s.root.FS())
	return fs.WalkDir(s.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // an unreadable directory loads nothing either
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
		if strings.Count(name, "/") >= maxDepth {
			s.incomplete(name, fmt.Errorf("directories are nested more than %d deep", maxDepth))
			return fs.SkipDir
		}
		s.dir(ctx, name)
		return nil
	})
}

// dir adds the items of one directory of the project.
func (s *scan) dir(ctx context.Context, dir string) {
	names := map[string]bool{}
	for _, name := range layout.Folders() {
		info, err := s.root.Lstat(path.Join(dir, name))
		names[name] = err == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0)
	}
	for _, row := range layout.Rows() {
		folder, _, below := strings.Cut(row.Path, "/")
		if !row.Trust || below && !names[folder] || ctx.Err() != nil {
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

// skills adds the skills or commands of one row of the layout.
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
	folders := make([]*Item, len(found)) // several are read at a time, with all of their files
	parallel.Each(len(found), func(i int) { folders[i] = s.folder(row.Kind, found[i]) })
	for i, k := range found {
		s.skill(row.Kind, k, folders[i])
	}
	for _, p := range problems {
		rel, ok := s.p.rel(p.Path)
		switch {
		case !ok || s.seen[rel] || s.seen[path.Dir(rel)]:
		case p.Code == knack.CodeSymlinkOutside:
			s.add(Item{Kind: row.Kind, Path: rel, Target: s.linkTarget(rel), Refused: "a link that leads out of the project"})
		case p.Code == knack.CodeLinkAsText, p.Severity == knack.Error:
			s.add(Item{Kind: row.Kind, Path: rel, Refused: p.Message})
		case p.Code == knack.CodeLimitReached:
			s.incomplete(rel, errors.New(p.Message))
		}
	}
}

// skill adds a skill that the search found, with what folder returned for it.
func (s *scan) skill(kind Kind, k *knack.Skill, folder *Item) {
	at, ok := s.p.rel(k.Path)
	if !ok {
		return
	}
	target, inside := below(s.p.real, k.ID) // where its content is
	if folder == nil {
		s.file(kind, at)
	} else {
		s.add(*folder)
	}
	if last := len(s.items) - 1; last >= 0 && slices.Contains(s.p.Bundled, k.Name) &&
		(s.items[last].Path == at || s.items[last].Path == path.Dir(at)) {
		it := &s.items[last]
		if it.Replaces = k.Name; it.State == Approved && !s.p.Replaces(k.Path, k.Name) {
			it.State = New // the user was not shown that it replaces a bundled skill
		}
	}
	if inside && target != at && !s.within(target) {
		s.file(kind, target) // the target of a link within the project is approved separately
	}
}

// within reports whether a file is in the folder of an item found so far.
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

// hooksOf adds a settings file that only the origin of the project has, such as the main work tree: its hooks apply
// here, too.
func (s *scan) hooksOf(it Item) {
	for _, from := range s.origins {
		data, err := readRegular(from, it.Path)
		if err != nil {
			continue
		}
		for _, line := range loads(Settings, it.Path, data) {
			if strings.HasPrefix(line, "hooks") {
				it.Loads = append(it.Loads, line)
			}
		}
		if it.Loads == nil {
			continue
		}
		it.Loads = append([]string{"only the hooks, from " + filepath.Join(from.Name(), it.Path)}, it.Loads...)
		it.Hash, it.head = hash(data), headOf(data)
		it.list = manifest{{kind: 'f', hash: it.Hash, size: int64(len(data)), path: path.Base(it.Path)}}
		it.dir = filepath.Join(from.Name(), filepath.Dir(filepath.FromSlash(it.Path)))
		s.add(it)
		return
	}
}

// file adds an item that is a single file, if the file exists.
func (s *scan) file(k Kind, at string) {
	it := Item{Kind: k, Path: at, Files: 1, dir: filepath.Join(s.p.real, filepath.FromSlash(path.Dir(at)))}
	data, err := readRegular(s.root, at)
	switch {
	case errors.Is(err, fs.ErrNotExist) && k == Settings:
		s.hooksOf(it)
		return
	case errors.Is(err, fs.ErrNotExist):
		return
	case err == nil && k == Settings && idle(at, data):
		return
	case err != nil:
		if target := s.linkTarget(at); target != "" {
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
		it.Loads, it.Commands = loads(k, at, data), commands(k, data)
		it.Programs, it.Wants = programs(k, data)
		it.list = manifest{{kind: 'f', hash: it.Hash, size: int64(len(data)), path: path.Base(at)}}
		if it.Target != "" {
			it.dir = filepath.Dir(it.Target)
			it.list[0].path = filepath.Base(it.Target)
		}
	}
	s.add(it)
}

// linkTarget returns the target of a path that leads out of the root through a link, or "" if it stays
// inside.
func (s *scan) linkTarget(at string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(s.p.real, filepath.FromSlash(at)))
	if err != nil {
		return ""
	}
	if _, inside := below(s.p.real, real); inside {
		return ""
	}
	return real
}

// folder reads a skill that is a folder; nil: it is a file.
func (s *scan) folder(kind Kind, k *knack.Skill) *Item {
	at, ok := s.p.rel(k.Path)
	entry := path.Base(at)
	if !ok || kind == Command || !strings.EqualFold(entry, "SKILL.md") {
		return nil
	}
	it := Item{Kind: Skill, Path: path.Dir(at), entry: entry, dir: k.Dir}
	if k.ID != k.Path { // there is a link somewhere
		if real, err := filepath.EvalSymlinks(k.Dir); err == nil {
			it.dir = real
			if _, in := below(s.p.real, real); !in {
				it.Target = real
			}
		}
	}
	m, err := readManifest(it.dir, layout.IsSkillsRoot(it.Path))
	if err != nil {
		it.Refused = err.Error()
		return &it
	}
	it.list, it.Hash, it.Files = m, m.hash(), len(m)
	for _, e := range m {
		if e.path == entry {
			it.main = e.hash
		}
	}
	if it.main == "" {
		it.Refused = entry + " is not a file of the folder"
	}
	if root, err := regular.Root(it.dir); err == nil {
		// The file is read a second time for the hash of its head. That hash is valid only if this is still
		// the file that was hashed above.
		if data, err := readRegular(root, entry); err == nil && hash(data) == it.main {
			it.head = headOf(data)
			it.Loads, it.Commands = loads(Skill, it.Path, data), commands(Skill, data)
		}
		it.Loads = append(it.Loads, m.summary()...)
		root.Close()
	}
	return &it
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
		it.State, it.Refused, it.Network, it.Write = Approved, "", r.Network, r.Write
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
		return nil, pe.Err // the item already has the path
	}
	return data, err
}

func readOutside(name string) ([]byte, error) {
	root, err := regular.Root(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readRegular(root, filepath.Base(name))
}
