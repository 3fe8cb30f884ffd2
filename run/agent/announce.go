package agent

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
)

// announcements are the steps that tell the model about skills: the listing, and what changes after it.
type announcements struct {
	*turn
	catalog *knack.Catalog // the catalogue at the last check for changes; nil: it is checked anew
	touched int            // the number of touched files at that check
}

// forget makes the next announcement compare the whole catalogue with what the conversation still says.
func (r *announcements) forget() { r.catalog = nil }

// view returns how the model sees the catalogue now.
func (r *announcements) view(state session.State) knack.View {
	v := r.Skills.View
	v.For = knack.ByModel
	if r.Model != nil { // the method Context does not need a model
		v.Window = r.Model.Info().Window
	}
	v.Touched = slices.Sorted(maps.Keys(state.Touched))
	return v
}

// showListing records the catalogue text, which then stays the same for the session.
func (r *announcements) showListing() error {
	state := r.log.State()
	if !r.showsListing() || state.Listing != nil {
		return nil
	}
	cat := r.Skills.Catalog()
	l := cat.Listing(r.view(state))
	for _, p := range l.Problems {
		if p.Severity == knack.Error { // a required skill
			return p
		}
	}
	r.catalog, r.touched = cat, len(state.Touched) // nothing in it needs to be announced
	for _, e := range l.Entries {
		r.debug("skill", "listed", "skill", e.Skill.Name, "characters", e.Chars, "full", e.Full, "cut", e.Cut)
	}
	_, err := r.record(session.Entry{Type: session.TypeListing,
		Listing: &session.Listing{Text: l.Text, Announced: l.Fingerprints(),
			Cut: l.Cut()}})
	return err
}

const (
	few  = 20
	wide = 1e9 // characters: no limit on the whole listing, only on each entry
)

// announce sends the model a separate message that names the skills added, changed or removed since
// the last announcement, because rewriting the prompt's prefix would lose the cache. It does
// nothing unless files were touched or the catalogue was replaced.
func (r *announcements) announce(ctx context.Context) error {
	if !r.showsListing() {
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
	r.debug("skill", "announced", "changes", people(ch))
	_, err := r.record(session.Entry{Type: session.TypeNote, Note: &session.Note{
		Model: ch.Text(), People: people(ch), Announced: news, Skills: changes(ch),
	}})
	return err
}

// addRules sends the context files that apply since files were touched, and that the model does not see yet.
func (t *turn) addRules(context.Context) error {
	state := t.log.State()
	if t.Rules == nil || len(state.Touched) == 0 {
		return nil
	}
	var note session.Note
	var texts []string
	for _, d := range t.Rules(slices.Sorted(maps.Keys(state.Touched))) {
		if !slices.Contains(state.Rules, d.Path) {
			note.Rules, texts = append(note.Rules, d.Path), append(texts, d.element())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	note.Model = "These instructions apply to files that you have touched.\n\n" + strings.Join(texts, "\n\n")
	note.People = "Instructions that apply from now on: " + plain.List(note.Rules, few)
	_, err := t.record(session.Entry{Type: session.TypeNote, Note: &note})
	return err
}

// addNotice sends what the host has to say before the request, see [Agent.Notice].
func (t *turn) addNotice(context.Context) error {
	if t.Notice == nil {
		return nil
	}
	note := t.Notice(t.log.State())
	if note == nil {
		return nil
	}
	_, err := t.record(session.Entry{Type: session.TypeNote, Note: note})
	return err
}

// problemLines formats problems for the user, one per line.
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

// changes returns the names of the skills in an announcement.
func changes(ch knack.Changes) *session.SkillChanges {
	names := func(lines []knack.Line) (all []string) {
		for _, l := range lines {
			all = append(all, l.Skill.Name)
		}
		return all
	}
	return &session.SkillChanges{Added: names(ch.Added), Changed: names(ch.Changed), Removed: ch.Removed}
}

// people formats an announcement as one line for the user.
func people(ch knack.Changes) string {
	s := ""
	for _, l := range ch.Added {
		s += " +" + l.Announced()
	}
	for _, l := range ch.Changed {
		s += " ~" + l.Announced()
	}
	for _, name := range ch.Removed {
		s += " -" + name
	}
	return "skills:" + s
}

// listed returns the name of the skill whose SKILL.md is at path, if the model has seen that skill
// in the listing.
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
