package own

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// ofSkill returns the tools that a skill brings, as they work in a place.
func (l *live) ofSkill(k *knack.Skill, in engine.Place, o coding.Options) tool.Set {
	l.mu.Lock()
	programs, known := l.skills[k]
	l.mu.Unlock()
	if !known {
		programs = l.programsOf(k)
		l.mu.Lock()
		if l.skills == nil {
			l.skills = map[*knack.Skill][]*Program{}
		}
		l.skills[k] = programs
		l.mu.Unlock()
	}
	return tools(l, programs, in, o)
}

// programsOf looks for the tools of a skill, and tells the user which of them cannot be used.
func (l *live) programsOf(k *knack.Skill) (programs []*Program) {
	if k.Dir == "" {
		return nil
	}
	dir := filepath.Join(k.Dir, toolMark.what()+"s")
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	check, err := l.conv.Project().Brought.CheckSkill(k)
	if err != nil { // whoever uses the skill is told so
		return nil
	}
	found, problems := findIn(dir, toolMark, check, false)
	for _, p := range problems {
		l.conv.Notice(p)
	}
	for _, p := range found {
		if p.definition.Type != "" {
			l.conv.Notice(knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Warn, Path: p.Path,
				Message: "the process is left out: a skill is in use for a turn, and a process stays", Hint: "knack help tools"})
			continue
		}
		if other := l.taken(p.Name); other != "" {
			l.conv.Notice(knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn, Path: p.Path,
				Message: fmt.Sprintf("the tool %s of the skill %s is not used: %s has that name", p.Name, k.Name, other),
				Hint:    "rename the file"})
			continue
		}
		p.owner, p.of, p.dir = k.Name, "skill", k.Dir
		p.verify = func() error {
			_, err := l.conv.Project().Brought.CheckSkill(k)
			return err
		}
		programs = append(programs, p)
	}
	return programs
}

// Check returns what is wrong with the tools in the directory of a skill, for its author. names are those of the
// program's tools.
func Check(dir string, names []string) (problems []knack.Problem) {
	found, problems := findIn(filepath.Join(dir, toolMark.what()+"s"), toolMark, nil, false)
	for _, p := range found {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, p.Name) }) {
			problems = append(problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn, Path: p.Path,
				Message: "the tool " + p.Name + " is not used: a tool of Knack has that name", Hint: "rename the file"})
		}
	}
	return problems
}

// taken says who has the name of a tool; "": nobody.
func (l *live) taken(name string) string {
	b := l.conv.Project().Brought
	for _, p := range find(b).tools {
		if strings.EqualFold(p.Name, name) {
			return "the one in " + filepath.Dir(p.Path)
		}
	}
	if b.Names != nil {
		for _, known := range b.Names() {
			if strings.EqualFold(known, name) {
				return "a tool of Knack"
			}
		}
	}
	return ""
}
