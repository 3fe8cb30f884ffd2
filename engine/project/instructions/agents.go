package instructions

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/run/agent"
)

// Agents finds agent definitions and returns them in order of precedence: managed, given, the
// user's, the project's with the nearest directory first. A definition whose name is already
// taken is still in the list, after the one that takes precedence, and causes a Problem. A
// project's definition is used only if [Options.Check] approves its bytes, and no file is read
// through a link that leaves the repository.
func Agents(o Options, given []agent.Definition) ([]agent.Definition, []knack.Problem) {
	l := loader{Options: o}
	var defs []agent.Definition
	for _, dir := range o.Managed {
		defs = l.agents(defs, knack.Managed, filepath.Join(dir, "agents"), filepath.Join(dir, ".claude", "agents"))
	}
	defs = append(defs, given...)
	defs = l.agents(defs, knack.User, join(l.ConfigHome, "agents"), join(l.Home, ".knack/agents"),
		join(l.ClaudeHome, "agents"))
	for _, dir := range l.projectDirs() {
		for _, row := range layout.Rows(layout.Agent) {
			defs = l.agents(defs, knack.Project, join(dir, row.Path))
		}
	}
	byName := map[string]agent.Definition{}
	for _, d := range defs {
		if first, ok := byName[d.Name]; ok {
			l.problem(knack.CodeNameCollision, d.Path, "the agent %s is not used: the one of %s has that name", d.Name,
				agentPlace(first))
			continue
		}
		byName[d.Name] = d
	}
	return defs, l.found.Problems
}

func agentPlace(d agent.Definition) string {
	if d.Path == "" {
		return string(d.Origin)
	}
	return d.Path
}

// agents reads the *.md files of directories.
func (l *loader) agents(defs []agent.Definition, from knack.SourceKind, dirs ...string) []agent.Definition {
	project := from == knack.Project
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		for _, path := range l.files(dir, layout.Rows(layout.Agent)[0], l.bound(project)) {
			data, err := l.approved(path, project)
			if err != nil {
				l.refused(knack.CodeUnreadable, path, err)
				continue
			}
			d, problems, ok := agent.ParseDefinition(path, data, from, l.toolNames()...)
			l.found.Problems = append(l.found.Problems, problems...)
			if ok {
				defs = append(defs, d)
			}
		}
	}
	return defs
}

// files returns the files of a row in a directory, sorted. Links must not lead out of bound; "" means no restriction.
func (l *loader) files(dir string, row layout.Row, bound string) []string {
	real, _, err := inside(bound, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var names []string
	if err == nil {
		names, err = layout.Files(os.DirFS(real), ".", row)
	}
	if err != nil {
		l.problem(knack.CodeUnreadable, dir, "%ss are left out: %v", row.Kind, err)
	}
	for i, name := range names {
		names[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return names
}
