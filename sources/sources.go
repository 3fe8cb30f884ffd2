// Package sources knows the places where skills are installed.
//
// Start with [Default]: all sources for a working directory in order of
// precedence, ready for knack.Load or knack.NewLibrary. [Nested] finds further ones
// below the working directory when files there are touched.
//
// Nothing here reads the environment: it is passed in [Options], and [FromEnv] fills
// them from an environment.
//
// Most programs start with package engine.
package sources

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// Options determine which places are searched. The zero Options find only what is below
// the working directory, and do not trust it.
type Options struct {
	// Home, ConfigHome and ClaudeConfig are absolute. A relative path is treated as "",
	// since it would mean a directory below the working directory.
	Home         string
	ConfigHome   string // $XDG_CONFIG_HOME; "": .config in Home
	ClaudeConfig string // $CLAUDE_CONFIG_DIR; "": .claude in Home
	// Managed contains the directories of the machine's administrator; nil means those
	// of the operating system, see [ManagedDirs].
	Managed []string

	Skills   []string // --skill: files, skills or directories of skills, trusted
	AddDirs  []string // --add-dir
	Bare     bool     // only explicit, additional, managed and bundled skills
	NoSkills bool     // only managed skills

	NoUser    bool // exclude the user's skills
	NoProject bool // exclude the project's skills, also in nested directories

	// Order lists the kinds to use in order of precedence; nil means all kinds in the
	// default order. Managed cannot be left out: if it is not listed, it comes first.
	Order []knack.SourceKind

	// Trust is called for project folders including those of commands (Legacy), for
	// additional folders, and for directories outside of these that links point to. nil
	// trusts additional folders, since a person named them, and no others.
	Trust func(kind knack.SourceKind, dir string) knack.Trust

	// Check, if not nil, is used instead of Trust for the content of project folders,
	// file by file; see [knack.Folder]. Trust still decides on links that point out of
	// them.
	Check func(path string, data []byte, head bool) error

	// Cache is a directory that stores the heads of the user's, the administrator's and
	// trusted projects' skills between starts, see [knack.Folder]; "" means no cache.
	Cache string

	// Replaces, if not nil, reports whether the user agreed that the project's skill at
	// a path replaces a bundled one of the same name.
	Replaces func(path, name string) bool

	// Sources that are not directories, each with the precedence of its kind.
	Bundled, BuiltinPlugins, Plugins, MCP []knack.Source
}

// FromEnv returns Options with the user's directories from an environment.
func FromEnv(getenv func(string) string) Options {
	d := userdirs.From(getenv)
	return Options{Home: d.Home, ConfigHome: d.ConfigHome, ClaudeConfig: d.Claude}
}

// OfUser reports whether a directory is one in which the user's skills are found anyway. The directories of o must be
// set, as by FromEnv.
func (o Options) OfUser(dir string) bool {
	return slices.Contains(o.user("skills"), filepath.Clean(dir))
}

// ManagedDirs returns the directories of administrators for an operating system, named
// as in runtime.GOOS.
func ManagedDirs(goos string) []string {
	switch goos {
	case "windows":
		return []string{`C:\Program Files\Knack`, `C:\Program Files\ClaudeCode`}
	case "darwin":
		return []string{"/Library/Application Support/Knack", "/Library/Application Support/ClaudeCode"}
	}
	return []string{"/etc/knack", "/etc/claude-code"}
}

// order returns the default precedence of kinds.
func order() []knack.SourceKind {
	return []knack.SourceKind{knack.Managed, knack.Explicit, knack.User, knack.Project, knack.Additional, knack.Legacy,
		knack.Bundled, knack.BuiltinPlugin, knack.Plugin, knack.MCP}
}

// Default returns the sources of a working directory in order of precedence. It includes
// directories that do not exist, because they may be created later.
func Default(_ context.Context, dir string, o Options) []knack.Source {
	dir = absolute(dir, "")
	kinds := o.Order
	if kinds == nil {
		kinds = order()
	}
	if !slices.Contains(kinds, knack.Managed) {
		kinds = slices.Concat([]knack.SourceKind{knack.Managed}, kinds)
	}
	t := newTable(dir, o)
	var all []knack.Source
	for i, kind := range kinds {
		switch {
		case slices.Contains(kinds[:i], kind),
			o.NoSkills && kind != knack.Managed,
			o.Bare && kind != knack.Explicit && kind != knack.Additional && kind != knack.Managed && kind != knack.Bundled:
			continue
		}
		all = append(all, t.kind(kind)...)
	}
	return all
}

// A table combines Options with one working directory.
type table struct {
	Options
	dir  string
	root string   // of the project: the repository's root, otherwise dir
	ups  []string // dir and its parents that belong to the project
}

func newTable(dir string, o Options) table {
	t := table{Options: o, dir: dir}
	for _, path := range []*string{&t.Home, &t.ConfigHome, &t.ClaudeConfig} {
		if !filepath.IsAbs(*path) {
			*path = ""
		}
	}
	t.ups = layout.Dirs(dir, Root(dir))
	t.root = t.ups[len(t.ups)-1]
	if len(t.ups) == 1 && dir == filepath.Clean(t.Home) {
		t.ups = nil // skills in the home directory belong to the user
	}
	if o.NoProject {
		t.ups = nil
	}
	if o.NoUser {
		t.Home, t.ConfigHome, t.ClaudeConfig = "", "", ""
	}
	if t.ConfigHome == "" && t.Home != "" {
		t.ConfigHome = filepath.Join(t.Home, ".config")
	}
	if t.ClaudeConfig == "" && t.Home != "" {
		t.ClaudeConfig = filepath.Join(t.Home, ".claude")
	}
	if t.Managed == nil {
		t.Managed = ManagedDirs(runtime.GOOS)
	}
	return t
}

// Root returns the root of a directory's project: the root of its repository, or,
// outside of a repository, the directory itself. It is the limit of what is trusted,
// what context files import, and where project settings are read.
func Root(dir string) string {
	dir = absolute(dir, "")
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

func (t table) kind(kind knack.SourceKind) (all []knack.Source) {
	add := func(f *knack.Folder) {
		f.Origin.Kind = kind
		all = append(all, f)
	}
	switch kind {
	case knack.Bundled:
		return t.Bundled
	case knack.BuiltinPlugin:
		return t.BuiltinPlugins
	case knack.Plugin:
		return t.Plugins
	case knack.MCP:
		return t.MCP
	case knack.Managed:
		for _, dir := range t.Managed {
			for _, sub := range []string{"skills", ".claude/skills"} {
				add(&knack.Folder{Path: filepath.Join(dir, sub), Cache: t.Cache, Pack: true,
					Origin: knack.Origin{Trust: knack.Trusted}})
			}
		}
	case knack.Explicit:
		for _, path := range t.Skills {
			path = absolute(path, t.dir)
			add(&knack.Folder{Path: path, Origin: knack.Origin{Trust: knack.Trusted, Dir: base(path, t.root)}})
		}
	case knack.User:
		for _, path := range t.user("skills") {
			add(&knack.Folder{Path: path, Cache: t.Cache, Pack: true,
				Files:  strings.HasSuffix(filepath.ToSlash(path), "/.pi/agent/skills"),
				Origin: knack.Origin{Trust: knack.Trusted, Dir: t.root}})
		}
	case knack.Project:
		for _, dir := range t.ups {
			for _, f := range t.folders(kind, dir, t.root) {
				add(f)
			}
		}
	case knack.Additional:
		for _, dir := range t.AddDirs {
			dir = absolute(dir, t.dir)
			for _, f := range t.folders(kind, dir, dir) {
				add(f)
			}
			if isHidden(dir) { // a search from above would pass it over; its skills are named, as by Options.Skills
				all = append(all, &knack.Folder{Path: dir, Pack: true,
					Origin: knack.Origin{Kind: knack.Explicit, Trust: knack.Trusted, Dir: base(dir, t.root)}})
			}
		}
	case knack.Legacy:
		for _, path := range t.user("commands") {
			add(&knack.Folder{Path: path, Commands: true, Origin: knack.Origin{Trust: knack.Trusted, Dir: t.root}})
		}
		for _, dir := range t.ups {
			for _, row := range layout.Rows(layout.Command) {
				add(t.folder(kind, dir, row, t.root))
			}
		}
	}
	return all
}

// user returns the user's directories of skills or commands.
func (t Options) user(what string) []string {
	var dirs []string
	in := func(dir string, sub ...string) {
		if dir != "" {
			dirs = append(dirs, filepath.Join(append([]string{dir}, sub...)...))
		}
	}
	if what == "commands" {
		in(t.ClaudeConfig, what)
		in(t.ConfigHome, "knack", what)
		in(t.Home, ".knack", what)
		return dirs
	}
	in(t.ConfigHome, "knack", what)
	in(t.Home, ".knack", what)
	in(t.Home, ".agents", what)
	in(t.ClaudeConfig, what)
	in(t.Home, ".config", "claude", what)
	in(t.Home, ".pi", "agent", what)
	return dirs
}

// folders returns the skill folders of a directory.
func (t table) folders(kind knack.SourceKind, dir, root string) []*knack.Folder {
	var all []*knack.Folder
	for _, row := range layout.Rows(layout.Skill) {
		all = append(all, t.folder(kind, dir, row, root))
	}
	return all
}

// Folder returns the contents of a directory's place for skills or commands, such as
// .claude/skills, before it is trusted: it reads what [Default] reads, with nothing
// approved. It returns nil if place is unknown.
func Folder(dir, place, root string) *knack.Folder {
	for _, row := range layout.Rows(layout.Skill, layout.Command) {
		if row.Path == place {
			return table{}.folder(knack.Project, dir, row, root)
		}
	}
	return nil
}

func (t table) folder(kind knack.SourceKind, dir string, row layout.Row, root string) *knack.Folder {
	path := filepath.Join(dir, filepath.FromSlash(row.Path))
	return &knack.Folder{
		Check: t.Check, Replaces: t.Replaces, Cache: t.Cache,
		Path: path, Root: root, Files: row.Loose, Commands: row.Kind == layout.Command, Pack: row.Kind == layout.Skill,
		Origin:  knack.Origin{Kind: kind, Trust: t.trust(kind, path), Dir: dir},
		Outside: func(dir string) knack.Trust { return t.outside(kind, dir) },
	}
}

func (t table) trust(kind knack.SourceKind, dir string) knack.Trust {
	switch {
	case t.Trust != nil:
		return t.Trust(kind, dir)
	case kind == knack.Additional && t.Check == nil:
		return knack.Trusted
	}
	return knack.Untrusted
}

func (t table) outside(kind knack.SourceKind, dir string) knack.Trust {
	if t.Trust == nil {
		return knack.Untrusted
	}
	return t.Trust(kind, dir)
}

// isHidden reports whether a directory or the one above it has a name that begins with a dot, as in .github/skills.
func isHidden(dir string) bool {
	return strings.HasPrefix(filepath.Base(dir), ".") || strings.HasPrefix(filepath.Base(filepath.Dir(dir)), ".")
}

// base returns the directory that contains the .claude, .knack, .agents or .pi of a
// path; otherwise other.
func base(path, other string) string {
	for d := path; d != filepath.Dir(d); d = filepath.Dir(d) {
		if slices.Contains(layout.Folders(), filepath.Base(d)) {
			return filepath.Dir(d)
		}
	}
	return other
}

func absolute(path, dir string) string {
	if !filepath.IsAbs(path) && dir != "" {
		return filepath.Join(dir, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}
