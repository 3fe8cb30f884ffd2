// Package layout defines what a project can provide: which files and directories are read, how
// deep, and which of them need trust.
//
// All readers of project resources take their paths from here (skills, commands, templates,
// agents, system prompts, settings, hooks), and so does `knack trust`. So what is shown, what
// is approved and what is loaded are always the same.
package layout

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A Kind is the kind of resource that a file or directory provides.
type Kind string

const (
	Skill    Kind = "skill"
	Command  Kind = "command"  // legacy commands
	Template Kind = "template" // prompt templates
	Agent    Kind = "agent"
	System   Kind = "system" // replaces or extends the system prompt
	Style    Kind = "style"  // adds to the system prompt if the setting outputStyle names it
	Settings Kind = "settings"
	Hooks    Kind = "hooks"   // scripts that hooks in settings may run
	Tool     Kind = "tool"    // programs that are tools of the model, see package own
	Program  Kind = "program" // programs that are commands of the user, and all other files beside commands
	MCP      Kind = "mcp"     // servers
	Context  Kind = "context"
	Kit      Kind = "kit"  // a set of skills and servers that the user chooses by its name
	Rule     Kind = "rule" // a context file that may wait for a file that matches its paths
)

// A Row is one path in a project that can contain resources.
type Row struct {
	Kind Kind
	Path string // relative to the project directory, with slashes
	// Depth is 0 for a file. For a directory it is the number of directory levels to search,
	// including the directory itself.
	Depth  int
	Suffix string // required file name suffix, in lower case; "": any
	Loose  bool   // a file directly in a directory of skills is also a skill
	Trust  bool   // not used until the user approves it
}

// Limits of a search.
const (
	Depth      = 6    // directory levels
	MaxEntries = 2000 // files and directories per row, see [Files]
)

// rows is the table. Within a kind, earlier rows take precedence.
var rows = []Row{
	{Kind: Skill, Path: ".knack/skills", Depth: Depth, Trust: true},
	{Kind: Skill, Path: ".agents/skills", Depth: Depth, Trust: true},
	{Kind: Skill, Path: ".claude/skills", Depth: Depth, Trust: true},
	{Kind: Skill, Path: ".pi/skills", Depth: Depth, Loose: true, Trust: true},
	{Kind: Command, Path: ".claude/commands", Depth: Depth, Suffix: ".md", Trust: true},
	{Kind: Command, Path: ".knack/commands", Depth: Depth, Suffix: ".md", Trust: true},
	{Kind: Template, Path: ".knack/prompts", Depth: 1, Suffix: ".md", Trust: true},
	{Kind: Template, Path: ".pi/prompts", Depth: 1, Suffix: ".md", Trust: true},
	{Kind: Agent, Path: ".knack/agents", Depth: Depth, Suffix: ".md", Trust: true},
	{Kind: Agent, Path: ".claude/agents", Depth: Depth, Suffix: ".md", Trust: true},
	{Kind: Style, Path: ".knack/output-styles", Depth: 1, Suffix: ".md", Trust: true},
	{Kind: Style, Path: ".claude/output-styles", Depth: 1, Suffix: ".md", Trust: true},
	{Kind: System, Path: ".knack/SYSTEM.md", Trust: true},
	{Kind: System, Path: ".pi/SYSTEM.md", Trust: true},
	{Kind: System, Path: ".knack/APPEND_SYSTEM.md", Trust: true},
	{Kind: System, Path: ".pi/APPEND_SYSTEM.md", Trust: true},
	{Kind: Settings, Path: ".knack/settings.local.json", Trust: true},
	{Kind: Settings, Path: ".claude/settings.local.json", Trust: true},
	{Kind: Settings, Path: ".knack/settings.json", Trust: true},
	{Kind: Settings, Path: ".claude/settings.json", Trust: true},
	{Kind: Settings, Path: ".pi/settings.json", Trust: true},
	{Kind: Hooks, Path: ".knack/hooks", Depth: Depth, Trust: true},
	{Kind: Hooks, Path: ".agents/hooks", Depth: Depth, Trust: true},
	{Kind: Hooks, Path: ".claude/hooks", Depth: Depth, Trust: true},
	{Kind: Hooks, Path: ".pi/hooks", Depth: Depth, Trust: true},
	{Kind: Tool, Path: ".knack/tools", Depth: Depth, Trust: true},
	{Kind: Program, Path: ".knack/commands", Depth: Depth, Trust: true},
	{Kind: Kit, Path: ".knack/kits", Depth: 1, Suffix: ".json", Trust: true},
	{Kind: MCP, Path: ".mcp.json", Trust: true},
	{Kind: MCP, Path: ".knack/mcp.json", Trust: true},
	{Kind: MCP, Path: ".pi/mcp.json", Trust: true},
	{Kind: Context, Path: "AGENTS.override.md"},
	{Kind: Context, Path: "AGENTS.md"},
	{Kind: Context, Path: ".claude/AGENTS.md"},
	{Kind: Context, Path: "CLAUDE.md"},
	{Kind: Context, Path: ".claude/CLAUDE.md"},
	{Kind: Rule, Path: ".claude/rules", Depth: Depth, Suffix: ".md"},
}

// SettingCounts reports whether a key at the top of a project's settings file has an effect. path, with slashes, may be
// absolute. Knack's own files have no other keys; an unknown one is reported.
func SettingCounts(path, key string) bool {
	switch {
	case strings.HasSuffix(path, ".pi/settings.json"):
		return slices.Contains([]string{"defaultModel", "defaultProvider", "defaultThinkingLevel", "compaction",
			"defaultTools"}, key)
	case strings.HasSuffix(path, ".claude/settings.json"), strings.HasSuffix(path, ".claude/settings.local.json"):
		switch key {
		case "permissions", "hooks", "enabledPlugins", "extraKnownMarketplaces", "model", "outputStyle", "language", "agent",
			"effortLevel", "fallbackModel", "autoCompactEnabled", "skillListingBudgetFraction", "skillListingMaxDescChars":
			return true
		}
		return false
	}
	return true
}

// Rows returns the rows of the given kinds in table order, or all rows if no kind is given.
func Rows(kinds ...Kind) []Row {
	var out []Row
	for _, r := range rows {
		if len(kinds) == 0 || slices.Contains(kinds, r.Kind) {
			out = append(out, r)
		}
	}
	return out
}

// Folders returns the names of the directories that contain project resources, such as
// .claude.
func Folders() []string { return []string{".knack", ".agents", ".claude", ".pi"} }

// Foreign returns the directories in which other programs keep a project's skills, and which are not searched.
func Foreign() []string { return []string{".github/skills", ".github/plugins"} }

// InFolder reports whether a relative path leads through one of Folders, ignoring letter case
// because file systems may ignore it.
func InFolder(rel string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(rel), "/"), func(name string) bool {
		return slices.Contains(Folders(), strings.ToLower(name))
	})
}

// IsSkillsRoot reports whether a path, with slashes, names a directory of skills.
func IsSkillsRoot(rel string) bool {
	return slices.ContainsFunc(rows, func(r Row) bool {
		return r.Kind == Skill && strings.HasSuffix("/"+rel, "/"+r.Path)
	})
}

// Dirs returns the project directories whose rows apply when the working directory is dir: dir
// and its parents up to root, the nearest first. If dir is not in root, only dir.
func Dirs(dir, root string) []string {
	dirs := []string{dir}
	if !subpath.Contains(root, dir) {
		return dirs
	}
	for root = filepath.Clean(root); filepath.Clean(dir) != root; {
		dir = filepath.Dir(dir)
		dirs = append(dirs, dir)
	}
	return dirs
}

// Files lists the files of a row whose Path is a directory, sorted by name. dir is that
// directory in fsys; the names are relative to it. Names that begin with a dot are skipped.
// Links are followed if fsys follows them. A directory that does not exist has no files. If
// there is an error, the list is incomplete.
func Files(fsys fs.FS, dir string, row Row) ([]string, error) {
	var found []string
	entries := 0
	var walk func(rel string, depth int) error
	walk = func(rel string, depth int) error {
		list, err := fs.ReadDir(fsys, path.Join(dir, rel))
		if err != nil {
			return err
		}
		for _, e := range list {
			if entries++; entries > MaxEntries {
				return fmt.Errorf("more than %d files and directories", MaxEntries)
			}
			name := path.Join(rel, e.Name())
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			isDir := e.IsDir()
			if e.Type()&fs.ModeSymlink != 0 {
				info, err := fs.Stat(fsys, path.Join(dir, name))
				isDir = err == nil && info.IsDir()
			}
			switch {
			case isDir && depth < row.Depth:
				if err := walk(name, depth+1); err != nil {
					return err
				}
			case !isDir && strings.HasSuffix(strings.ToLower(e.Name()), row.Suffix):
				found = append(found, name)
			}
		}
		return nil
	}
	if info, err := fs.Stat(fsys, dir); err != nil || !info.IsDir() {
		return nil, nil
	}
	err := walk("", 1)
	slices.Sort(found)
	return found, err
}

// EachFile calls visit with each file below a folder whose files are approved together, as Files lists them. max is the
// size in bytes up to which a file is read. err is why it cannot be read; data is nil then. The error is the first of
// visit, or that the folder cannot be listed; one that does not exist has no files.
func EachFile(dir string, max int64, visit func(path string, data []byte, err error) error) error {
	names, err := Files(os.DirFS(dir), ".", Row{Depth: Depth})
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		data, err := regular.Read(path, max)
		if err != nil {
			data = nil
		}
		if err := visit(path, data, err); err != nil {
			return err
		}
	}
	return err
}
