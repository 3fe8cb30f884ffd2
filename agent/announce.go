package agent

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/session"
)

// view is how the model sees the catalogue now.
func (r *run) view(state session.State) knack.View {
	v := r.Skills.View
	v.For = knack.ByModel
	if r.Model != nil { // Context is asked for without one
		v.Window = r.Model.Info().Window
	}
	v.Touched = slices.Sorted(maps.Keys(state.Touched))
	return v
}

// showListing fixes the catalogue text for the session.
func (r *run) showListing() error {
	state := r.log.State()
	if !r.lists() || state.Listing != nil {
		return nil
	}
	cat := r.Skills.Catalog()
	l := cat.Listing(r.view(state))
	for _, p := range l.Problems {
		if p.Severity == knack.Error { // a required skill
			return p
		}
	}
	r.catalog, r.touched = cat, len(state.Touched) // nothing of it is to be announced
	_, err := r.record(session.Entry{Type: session.TypeListing,
		Listing: &session.Listing{Text: l.Text, Announced: l.Fingerprints(),
			Cut: l.Cut()}})
	return err
}

const (
	few  = 20
	wide = 1e9 // characters: no budget but that of one entry
)

// announce tells the model, in a message of its own, which skills came,
// changed or went since the last announcement: the prefix is never rewritten. It
// does nothing unless files were touched or the catalogue was swapped.
func (r *run) announce(ctx context.Context) error {
	if !r.lists() {
		return nil
	}
	state := r.log.State()
	if r.Skills.Touched != nil && len(state.Touched) != r.touched {
		problems := r.Skills.Touched(ctx, slices.Sorted(maps.Keys(state.Touched)))
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if len(problems) > 0 {
			if _, err := r.record(session.Entry{Type: session.TypeNote, Note: &session.Note{People: problemLines(problems),
				Problems: problems}}); err != nil {
				return err
			}
		}
	}
	cat := r.Skills.Catalog()
	if r.catalog == cat && r.touched == len(state.Touched) {
		return nil
	}
	r.catalog, r.touched = cat, len(state.Touched)

	view := r.view(state)
	l := cat.Listing(view)
	ch := l.Since(state.Announced)
	if ch.Empty() {
		return nil
	}
	if n := len(ch.Added) + len(ch.Changed); n > 0 && n <= few {
		// The listing has used up its budget; a few new skills are announced in full.
		view.Budget = wide
		for _, e := range cat.Listing(view).Entries {
			for _, lines := range [][]knack.Line{ch.Added, ch.Changed} {
				for i := range lines {
					if lines[i].Skill == e.Skill {
						lines[i] = e
					}
				}
			}
		}
	}
	news, now := map[string]string{}, l.Fingerprints()
	for _, line := range slices.Concat(ch.Added, ch.Changed) {
		news[line.Skill.Name] = now[line.Skill.Name]
	}
	for _, name := range ch.Removed {
		news[name] = ""
	}
	_, err := r.record(session.Entry{Type: session.TypeNote, Note: &session.Note{
		Model: ch.Text(), People: people(ch), Announced: news, Skills: changes(ch),
	}})
	return err
}

// problemLines shows problems for people, a line each.
func problemLines(problems []knack.Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
		if p.Hint != "" {
			lines[i] += " (" + p.Hint + ")"
		}
	}
	return strings.Join(lines, "\n")
}

// changes are those of an announcement, by name.
func changes(ch knack.Changes) *session.SkillChanges {
	names := func(lines []knack.Line) (all []string) {
		for _, l := range lines {
			all = append(all, l.Skill.Name)
		}
		return all
	}
	return &session.SkillChanges{Added: names(ch.Added), Changed: names(ch.Changed), Removed: ch.Removed}
}

// people is one line of an announcement.
func people(ch knack.Changes) string {
	s := ""
	for _, l := range ch.Added {
		s += " +" + l.Skill.Name
	}
	for _, l := range ch.Changed {
		s += " ~" + l.Skill.Name
	}
	for _, name := range ch.Removed {
		s += " -" + name
	}
	return "skills:" + s
}

// listed returns the skill whose SKILL.md a path is, if the model has seen
// that skill in the listing.
func (r *run) listed(path string) (name string, ok bool) {
	state := r.log.State()
	names := []string{path, filepath.Join(r.Skills.View.Dir, path)}
	if filepath.IsAbs(path) {
		names = names[:1]
	} else if abs, err := filepath.Abs(path); err == nil {
		names = append(names, abs)
	}
	for _, s := range r.Skills.Catalog().Skills() {
		if (slices.Contains(names, s.Path) || slices.Contains(names, s.ID)) && state.Announced[s.Name] != "" {
			return s.Name, true
		}
	}
	return "", false
}
