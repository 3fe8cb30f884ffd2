package instructions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/subpath"
)

// Bounds of a search for agents, as of one for skills.
const (
	agentDepth = 6
	agentFiles = 2000
)

// Agents finds the definitions of agents (spec agent §6) in the order of their
// precedence: managed, given, the person's, the project's with the nearest
// directory first. Those whose name is taken are among them, behind the one
// that took it, and a Problem each. A project's definition counts only where
// [Options.Check] approves its very bytes, and none is read through a link
// that leaves the repository.
func Agents(o Options, given []agent.Definition) ([]agent.Definition, []knack.Problem) {
	l := loader{Options: o}
	var defs []agent.Definition
	for _, dir := range o.Managed {
		defs = l.agents(defs, knack.Managed, filepath.Join(dir, "agents"), filepath.Join(dir, ".claude", "agents"))
	}
	defs = append(defs, given...)
	defs = l.agents(defs, knack.User, join(l.ConfigHome, "agents"), join(l.Home, ".knack/agents"), join(l.ClaudeHome, "agents"))
	for d := l.Dir; d != "" && d != l.Home; d = filepath.Dir(d) {
		defs = l.agents(defs, knack.Project, join(d, ".knack/agents"), join(d, ".claude/agents"))
		if l.Root == "" || d == l.Root || !subpath.Contains(l.Root, d) {
			break
		}
	}
	taken := map[string]agent.Definition{}
	for _, d := range defs {
		if first, ok := taken[d.Name]; ok {
			l.problem("name-collision", d.Path, "the agent %s is not used: the one of %s has that name", d.Name, agentPlace(first))
			continue
		}
		taken[d.Name] = d
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
func (l *loader) agents(defs []agent.Definition, from knack.Kind, dirs ...string) []agent.Definition {
	project := from == knack.Project
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		for _, path := range l.agentFiles(dir, project) {
			data, err := l.approved(path, project)
			if err != nil {
				l.refused("unreadable", path, err)
				continue
			}
			d, problems, ok := agent.ParseDefinition(path, data, from, l.Tools...)
			l.found.Problems = append(l.found.Problems, problems...)
			if ok {
				defs = append(defs, d)
			}
		}
	}
	return defs
}

// agentFiles lists the *.md files below a directory, in order. Links to
// directories are not followed.
func (l *loader) agentFiles(dir string, project bool) []string {
	real, _, err := inside(l.bound(project), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var paths []string
	if err == nil {
		seen := 0
		err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(real, path)
			if err != nil {
				return err
			}
			if seen++; seen > agentFiles {
				return fmt.Errorf("more than %d files and directories", agentFiles)
			}
			switch {
			case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || strings.Count(rel, string(os.PathSeparator)) >= agentDepth-1):
				return fs.SkipDir
			case !d.IsDir() && strings.EqualFold(filepath.Ext(path), ".md"):
				paths = append(paths, filepath.Join(dir, rel))
			}
			return nil
		})
	}
	if err != nil {
		l.problem("unreadable", dir, "agents are left out: %v", err)
	}
	slices.Sort(paths)
	return paths
}
