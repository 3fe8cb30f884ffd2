package plugin

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
)

// A Location says where a plugin's tree is on disk, and what its texts may refer to.
type Location struct {
	Dir    string // the tree, absolute
	Data   string // the directory that its hooks and servers may write, absolute; "": none
	Origin knack.Origin
	// Check decides on each file of a skill, see [knack.Folder]; nil: all are used.
	Check func(path string, data []byte, head bool) error
	// Config has values of the plugin's userConfig that are no secrets, by key: ${user_config.KEY} in texts.
	Config map[string]string
	// Cache is a directory that stores what was read for lists, see [knack.Folder]; "": none.
	Cache string
}

// Vars returns the variables of a plugin's files, by name. project is the root of the project.
func (l Location) Vars(project string) map[string]string {
	vars := map[string]string{
		"CLAUDE_PLUGIN_ROOT": l.Dir, "PLUGIN_ROOT": l.Dir, "extensionPath": l.Dir,
		"CLAUDE_PROJECT_DIR": project, "workspacePath": project,
	}
	if l.Data != "" {
		vars["CLAUDE_PLUGIN_DATA"], vars["PLUGIN_DATA"] = l.Data, l.Data
	}
	return vars
}

// Sources returns the plugin's commands and skills, which are named PLUGIN:NAME. A command comes before a
// skill of the same name. Links that lead out of the tree are not followed.
func (p *Plugin) Sources(l Location) []knack.Source {
	l.Origin.Label = p.Name
	vars := map[string]string{"CLAUDE_PLUGIN_ROOT": l.Dir}
	if l.Data != "" {
		vars["CLAUDE_PLUGIN_DATA"] = l.Data
	}
	for key, value := range l.Config {
		vars["user_config."+key] = value
	}
	var all []knack.Source
	add := func(place Place, commands bool) {
		all = append(all, source{&knack.Folder{Path: filepath.Join(l.Dir, filepath.FromSlash(place.Path)), Root: l.Dir,
			Origin: l.Origin, Check: l.Check, Cache: l.Cache, Commands: commands}, p.Name, place, vars, commands})
	}
	for _, c := range p.Commands {
		if c.Text != "" || strings.HasSuffix(c.Path, ".toml") {
			all = append(all, textSource{plugin: p.Name, place: c, vars: vars, at: l})
			continue
		}
		add(c, true)
	}
	for _, s := range p.Skills {
		add(s, false)
	}
	return all
}

// A source is one Place of a plugin.
type source struct {
	*knack.Folder
	plugin   string
	place    Place
	vars     map[string]string
	commands bool
}

func (s source) Skills(ctx context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) {
		for k, err := range s.Folder.Skills(ctx) {
			if k != nil {
				k = s.renamed(k)
			} else if s.commands && isHeadless(err) {
				continue
			}
			if !yield(k, err) {
				return
			}
		}
	}
}

// isHeadless reports whether an error is about a missing frontmatter or field, which a command does not need.
func isHeadless(err error) bool {
	var p knack.Problem
	return errors.As(err, &p) && slices.Contains([]knack.Code{knack.CodeFrontmatterMissing, knack.CodeNameMissing,
		knack.CodeDescriptionMissing}, p.Code)
}

func (s source) renamed(found *knack.Skill) *knack.Skill {
	k := *found
	name := k.Name
	if s.place.Name != "" && (s.place.Fixed || k.Label == "") {
		name = s.place.Name
	}
	prefix := s.plugin + ":"
	if s.plugin == "" { // a single skill
		prefix = ""
	}
	k.Name, k.Vars = prefix+name, s.vars
	switch dir := filepath.Base(k.Dir); {
	case s.commands:
		k.Label = "" // a command has no bare name
	case k.Label == "":
		k.Label = name // the bare name, if it is unambiguous
	case s.place.Path != "." && dir != name:
		k.Aliases = append([]string{prefix + dir}, k.Aliases...)
	}
	return &k
}
