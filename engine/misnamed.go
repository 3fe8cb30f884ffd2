package engine

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/layout"
)

// misnamed names the files in folders of rules, commands, agents, templates and output styles that are not read because
// they are not called NAME.md. dirs are those of the project; home returns where the user has what a project has in a
// folder such as .claude; "": not searched.
func misnamed(dirs []string, home func(folder string) string) (all []UnusedSettings) {
	for _, row := range layout.Rows(layout.Rule, layout.Command, layout.Agent, layout.Template, layout.Style) {
		folder, name, _ := strings.Cut(row.Path, "/")
		var places []string
		if base := home(folder); base != "" {
			places = append(places, filepath.Join(base, name))
		}
		for _, dir := range dirs {
			if at := filepath.Join(dir, filepath.FromSlash(row.Path)); !slices.Contains(places, at) {
				places = append(places, at)
			}
		}
		for _, place := range places {
			u := UnusedSettings{Path: place, Advice: map[string]string{}}
			// The reader of the folder says what it cannot list.
			files, _ := layout.Files(os.DirFS(place), ".", layout.Row{Depth: row.Depth})
			for _, file := range files {
				if advice := readable(row.Kind, path.Base(file)); advice != "" {
					u.Keys, u.Advice[file] = append(u.Keys, file), advice
				}
			}
			if len(u.Keys) > 0 {
				all = append(all, u)
			}
		}
	}
	return all
}

// readable says how to call a file so that it is read; "": it is read, or nothing that somebody meant to be.
func readable(kind layout.Kind, name string) string {
	ext := strings.ToLower(path.Ext(name))
	stem := strings.TrimSuffix(name, path.Ext(name))
	if slices.Contains([]string{"README", "LICENSE", "NOTICE", "CHANGELOG"}, strings.ToUpper(stem)) {
		return ""
	}
	switch ext {
	case ".mdc", ".mdx", ".markdown", ".txt", ".text":
		return "rename it to " + stem + ".md"
	case "":
		if kind == layout.Rule {
			return "rename it to " + stem + ".md"
		}
	case ".toml":
		if kind != layout.Rule {
			return "write it as " + stem + ".md: Markdown with frontmatter"
		}
	case ".json", ".yaml", ".yml":
		if kind == layout.Agent {
			return "write it as " + stem + ".md: Markdown with frontmatter"
		}
	}
	return ""
}

// misspelt says what to do about a file or folder in a folder .claude that nobody reads, but that is called nearly like
// one that is read; "": it is something else.
func misspelt(dir, name string, ofUser bool) string {
	for _, row := range layout.Rows() {
		known, ok := strings.CutPrefix(row.Path, ".claude/")
		switch {
		case !ok || !strings.EqualFold(known, name):
		case ofUser && known == "AGENTS.md" && name != known:
			return "rename it to CLAUDE.md"
		case known != name && !sameFile(filepath.Join(dir, known), filepath.Join(dir, name)):
			return "rename it to " + known // on a file system that ignores the letter case it is that file
		default:
			return ""
		}
	}
	return rightPlace(name)
}

// rightPlace says where settings, hooks or servers belong, if the name of a file suggests that it contains them; "": it
// does not.
func rightPlace(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("._- ", r) })
	if len(words) < 2 || !slices.Contains([]string{"json", "jsonc", "json5", "toml", "yaml", "yml", "local"},
		words[len(words)-1]) || slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains([]string{"cache", "auth", "oauth", "remote", "backup", "bak", "old", "example", "sample",
			"template", "schema", "lock", "state", "log"}, w)
	}) {
		return "" // such as what the program stores
	}
	for _, w := range words {
		switch w {
		case "setting", "settings", "permission", "permissions":
			return "settings are in settings.json: knack help settings"
		case "hook", "hooks":
			return `hooks are in settings.json, under "hooks": knack help hooks`
		case "mcp":
			return "move its servers to .mcp.json in the project, or knack mcp add"
		}
	}
	return ""
}

// isEmpty reports whether a path is a directory with nothing that a person put there.
func isEmpty(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && !slices.ContainsFunc(entries,
		func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") })
}

func sameFile(a, b string) bool {
	x, err := os.Lstat(a)
	if err != nil {
		return false
	}
	y, err := os.Lstat(b)
	return err == nil && os.SameFile(x, y)
}
