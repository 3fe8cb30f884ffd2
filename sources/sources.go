// Package sources knows where people keep skills.
//
// Most people want [Default]: all places for skills that
// count for a working directory, in the order of their precedence, ready for
// knack.Load or knack.NewLibrary. [Nested] finds further ones below the working
// directory while files there are touched.
//
// Nothing here reads the environment: it comes in through [Options], and
// [FromEnv] fills those from the process's own.
package sources

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/layout"
	"github.com/knack-agent/knack/internal/userdirs"
)

// Options say who looks, and what for. With the zero Options only what is
// below the working directory is found, and it is not trusted.
type Options struct {
	// Home, ConfigHome and ClaudeConfig are absolute; a relative path counts as
	// "", since it would name a directory below the working directory.
	Home         string
	ConfigHome   string // $XDG_CONFIG_HOME; "": .config in Home
	ClaudeConfig string // $CLAUDE_CONFIG_DIR; "": .claude in Home
	// Managed are the directories of the machine's administrator; nil: those
	// of the operating system, see [ManagedDirs].
	Managed []string

	Skills   []string // --skill: files, skills or directories of skills, trusted
	AddDirs  []string // --add-dir
	Bare     bool     // only explicit, additional, managed and bundled
	NoSkills bool     // only managed

	NoUser    bool // nothing of the user
	NoProject bool // nothing of the project, nested directories included

	// Order lists the kinds to use, the first of a name winning; nil: all, in
	// their order of precedence. Managed cannot be left out: it comes first
	// where it is not named.
	Order []knack.SourceKind

	// Trust is asked for project folders, the commands among them (Legacy),
	// additional folders, and the directories that links out of these lead to.
	// nil: additional ones are trusted, since a person named them, others not.
	Trust func(kind knack.SourceKind, dir string) knack.Trust

	// Check, if not nil, decides instead of Trust on what is in project folders,
	// file by file: see [knack.Folder]. Links that lead out of them stay a
	// question for Trust.
	Check func(path string, data []byte, head bool) error

	// Cache is a directory where the heads of the user's and the administrator's
	// skills are kept between starts, see [knack.Folder]; "": nowhere.
	Cache string

	// Replaces, if not nil, reports whether the user agreed that the project's skill
	// at a path replaces a bundled one of the same name.
	Replaces func(path string) bool

	// Sources that are not directories, each with the precedence of its kind.
	Bundled, BuiltinPlugins, Plugins, MCP []knack.Source
}

// FromEnv fills in the user's directories from an environment.
func FromEnv(getenv func(string) string) Options {
	d := userdirs.From(getenv)
	return Options{Home: d.Home, ConfigHome: d.ConfigHome, ClaudeConfig: d.Claude}
}

// ManagedDirs are the directories of administrators on an operating system, as
// runtime.GOOS names it.
func ManagedDirs(goos string) []string {
	switch goos {
	case "windows":
		return []string{`C:\Program Files\Knack`, `C:\Program Files\ClaudeCode`}
	case "darwin":
		return []string{"/Library/Application Support/Knack", "/Library/Application Support/ClaudeCode"}
	}
	return []string{"/etc/knack", "/etc/claude-code"}
}

// order is the precedence of kinds.
func order() []knack.SourceKind {
	return []knack.SourceKind{knack.Managed, knack.Explicit, knack.User, knack.Project, knack.Additional, knack.Legacy,
		knack.Bundled, knack.BuiltinPlugin, knack.Plugin, knack.MCP}
}

// Default returns the sources of a working directory, in their precedence.
// Directories that do not exist are among them: they may come to be.
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

// A table is Options for one working directory.
type table struct {
	Options
	dir  string
	root string   // of the project: the repository's, else dir
	ups  []string // dir and the directories above that belong to the project
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
		t.ups = nil // what lies in a home directory is the user's
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

// Root returns the root of the project that a directory belongs to: that of
// its repository, or, outside of one, the directory itself. It bounds what is
// trusted, what context files import and where project settings are read.
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

// user returns the person's directories of skills or commands.
func (t table) user(what string) []string {
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

// folders returns the folders of skills of a directory.
func (t table) folders(kind knack.SourceKind, dir, root string) []*knack.Folder {
	var all []*knack.Folder
	for _, row := range layout.Rows(layout.Skill) {
		all = append(all, t.folder(kind, dir, row, root))
	}
	return all
}

// Folder is what a directory of a project has in one of the places for skills and
// commands, such as .claude/skills, before anybody trusts it: what [Default] reads,
// with nothing approved. nil: there is no such place.
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
	check := t.Check
	if kind == knack.Additional {
		check = nil // a person named the directory
	}
	replaces := t.Replaces
	if kind == knack.Additional {
		replaces = nil
	}
	return &knack.Folder{
		Check: check, Replaces: replaces,
		Path: path, Root: root, Files: row.Loose, Commands: row.Kind == layout.Command, Pack: row.Kind == layout.Skill,
		Origin:  knack.Origin{Kind: kind, Trust: t.trust(kind, path), Dir: dir},
		Outside: func(dir string) knack.Trust { return t.outside(kind, dir) },
	}
}

func (t table) trust(kind knack.SourceKind, dir string) knack.Trust {
	switch {
	case t.Trust != nil:
		return t.Trust(kind, dir)
	case kind == knack.Additional:
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

// base is the directory that contains the .claude, .knack, .agents or .pi that a
// path is in; else other.
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
