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

// otherCase returns the name of a file or folder of Claude Code that one is called like in other letters; "": none. On
// a file system that ignores the letter case it is that file.
func otherCase(dir, name string) string {
	for _, row := range layout.Rows() {
		known, ok := strings.CutPrefix(row.Path, ".claude/")
		if ok && known != name && strings.EqualFold(known, name) &&
			!sameFile(filepath.Join(dir, known), filepath.Join(dir, name)) {
			return known
		}
	}
	return ""
}

func sameFile(a, b string) bool {
	x, err := os.Lstat(a)
	if err != nil {
		return false
	}
	y, err := os.Lstat(b)
	return err == nil && os.SameFile(x, y)
}
