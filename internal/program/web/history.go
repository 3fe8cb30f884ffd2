package web

import (
	"maps"
	"slices"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// history writes how a skill came here, and how its files differ from those that the user agreed to: from those that
// were installed, or for a project's from those that were approved.
func (p *page) history(project *engine.Project, k *knack.Skill) error {
	var changed string
	switch k.Origin.Kind {
	case knack.Project, knack.Additional:
		var err error
		if changed, err = engine.SkillDiff(project.Env(), project.Dir(), k); err != nil {
			return err
		}
	case knack.User, knack.Plugin:
		s, err := installer.Store(project.Env())
		if err != nil {
			return nil // nothing can be installed here
		}
		lock, err := install.ReadLock(s.Lock)
		if err != nil {
			return err
		}
		it := installed(s, lock, k.Dir)
		if it == nil {
			return nil
		}
		d, err := s.Diff(it, "")
		if err != nil {
			return err
		}
		changed = d.Text
		p.versions(it)
	}
	if changed != "" {
		p.F("<details open><summary>What changed since you agreed to its files</summary>\n")
		p.diff(changed)
		p.F("</details>\n")
	}
	return nil
}

// installed returns the item of a lock whose directory contains another one; nil: none does.
func installed(s *install.Store, lock *install.Lock, dir string) *install.Item {
	for _, items := range []map[string]*install.Item{lock.Skills, lock.Plugins} {
		for _, id := range slices.Sorted(maps.Keys(items)) {
			if subpath.Contains(s.Path(items[id]), dir) {
				return items[id]
			}
		}
	}
	return nil
}

// versions writes a table of an installed item and of those that it replaced, the newest first.
func (p *page) versions(it *install.Item) {
	p.F("<h2 id=\"versions\">Versions</h2>\n<div class=\"table\" role=\"region\" aria-labelledby=\"versions\" " +
		"tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Installed</th><th scope=\"col\">Version</th>" +
		"<th scope=\"col\">Commit</th><th scope=\"col\">Files</th><th scope=\"col\">From</th></tr></thead>\n<tbody>\n")
	for ; it != nil; it = it.Previous {
		p.F("<tr><td>%s</td><td>%s</td><td class=\"path\">%s</td><td class=\"n\">%s</td><td class=\"path\">%s</td></tr>\n",
			day(it.Time), it.Version, it.Commit, plain.Number(len(it.Files)), it.Source.String())
	}
	p.F("</tbody></table></div>\n")
}
