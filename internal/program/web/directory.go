package web

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A directory is the project that the pages are about. It keeps what was read of it until that changes.
type directory struct {
	engine *engine.Engine

	mu      sync.Mutex
	files   string // see filesOf; as they were when the project was read
	usage   string
	catalog *knack.Catalog
	current *command.Skills
	texts   []string // of current, for the search
}

// name returns the directory's path, short.
func (d *directory) name() string {
	p := d.engine.Project()
	return subpath.Short(p.Dir(), p.Env().Home())
}

// stamp describes files such that it differs when one of them has changed.
func stamp(paths ...string) string {
	var b strings.Builder
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// read returns the project as its settings are now.
func (d *directory) read(ctx context.Context) (*engine.Project, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.project(ctx)
}

// project is read for callers that hold mu.
func (d *directory) project(ctx context.Context) (*engine.Project, error) {
	if now := filesOf(d.engine.Project()); d.files != now {
		if _, err := d.engine.Reload(ctx); err != nil {
			return nil, err
		}
		d.files = now
	}
	return d.engine.Project(), nil
}

// filesOf describes the files of settings, approvals and locks of a project, as stamp does.
func filesOf(p *engine.Project) string {
	paths := append(engine.TrustFiles(p.Env(), p.Dir()), install.SharedLock(p.Root()))
	for _, f := range p.SettingsFiles() {
		paths = append(paths, f.Path)
	}
	if s, err := installer.Store(p.Env()); err == nil { // otherwise nothing can be installed
		paths = append(paths, s.Lock)
	}
	return stamp(paths...)
}

// skills returns the skills as they are now, with the text by which each is found. Nobody changes them.
func (d *directory) skills(ctx context.Context) (*command.Skills, []string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.project(ctx)
	if err != nil {
		return nil, nil, err
	}
	used := stamp(p.Env().StateFile("usage.json"))
	switch catalog := d.engine.Catalog(); {
	case d.current == nil || d.catalog != catalog || d.current.Project != p:
		d.catalog, d.usage, d.current = catalog, used, command.ReadSkills(ctx, p)
		d.texts = searchTexts(d.current)
	case d.usage != used:
		d.usage = used
		d.current = &command.Skills{Catalog: d.current.Catalog, Project: p, View: p.View(), All: d.current.All,
			Used: p.Usage()}
	}
	return d.current, d.texts, nil
}

// searchTexts returns for each candidate what a search looks at.
func searchTexts(skills *command.Skills) []string {
	all := make([]string, len(skills.Candidates()))
	for i, e := range skills.Candidates() {
		text := e.Name() + "\n" + engine.SourceName(e.Origin)
		if e.Skill != nil {
			text += "\n" + e.Skill.Label + "\n" + e.Skill.Summary()
		}
		all[i] = strings.ToLower(text)
	}
	return all
}
