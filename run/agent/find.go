package agent

import (
	"context"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

const (
	maxFound     = 10 // skills found by one call
	maxSuggested = 5  // skills suggested after one message
)

// finder returns the agent's Finder, or the catalogue's own.
func (r *run) finder(cat *knack.Catalog) *knack.Finder {
	if r.Skills.Finder != nil {
		return r.Skills.Finder
	}
	return cat.Finder()
}

// find answers the model's search for skills.
func (r *run) find(ctx context.Context, words string) (tool.SkillAnswer, error) {
	cat, view := r.Skills.Catalog(), r.listing.view(r.log.State())
	found, err := r.finder(cat).Find(ctx, cat, words, maxFound, func(s *knack.Skill) bool { return cat.Offers(s, view) })
	if err != nil {
		return tool.SkillAnswer{}, err
	}
	if len(found) == 0 {
		return tool.SkillAnswer{Text: "No skill matches these words."}, nil
	}
	a := tool.SkillAnswer{}
	var b strings.Builder
	b.WriteString("Skills that match these words, the best first. Call Skill with a name to load one.\n")
	for _, m := range found {
		a.Found = append(a.Found, m.Skill.Name)
		b.WriteString("- " + plain.Fold(m.Skill.Name) + ": " + plain.Fold(m.Skill.Summary()) + "\n")
	}
	a.Text = b.String()
	return a, nil
}

// suggests reports whether skills are suggested: the listing had to cut descriptions.
func (r *run) suggests(state session.State) bool {
	return r.Skills.Suggest >= 0 && r.parent == nil && r.showsListing() && state.Listing != nil && state.Listing.Cut
}

// suggest records a note with the skills that clearly fit the user's message. Each skill is suggested once.
func (r *run) suggest(ctx context.Context, in Input) error {
	state := r.log.State()
	if !r.suggests(state) {
		return nil
	}
	if _, _, command := Slash(in.Text); command || strings.TrimSpace(in.Text) == "" {
		return nil
	}
	cat := r.Skills.Catalog()
	if !r.finder(cat).Ready(ctx, cat) {
		return nil // the index is built during the first request
	}
	limit := r.Skills.Suggest
	if limit == 0 {
		limit = maxSuggested
	}
	view := r.listing.view(state)
	found, err := r.finder(cat).Suggest(ctx, cat, in.Text, limit, func(s *knack.Skill) bool {
		return !state.Suggested[s.Name] && cat.Offers(s, view)
	})
	if err != nil || len(found) == 0 {
		return err
	}
	note := session.Note{People: "skills that may fit:"}
	for _, s := range found {
		note.Suggested = append(note.Suggested, s.Name)
		note.People += " " + s.Name
	}
	note.Model = knack.SuggestionText(found)
	_, err = r.record(session.Entry{Type: session.TypeNote, Note: &note})
	return err
}

// startIndexing builds the index for suggestions while the model works, once per turn. It begins when
// underway is closed, so that it does not delay the request.
func (r *run) startIndexing(ctx context.Context, underway <-chan struct{}) {
	if r.indexing != nil || !r.suggests(r.log.State()) {
		return
	}
	ctx, r.indexing = context.WithCancel(ctx)
	cat := r.Skills.Catalog()
	r.indexed.Go(func() {
		select {
		case <-underway:
		case <-ctx.Done():
			return
		}
		if err := r.finder(cat).Prepare(ctx, cat); err != nil && ctx.Err() == nil {
			r.debug("skill", "the index of skills is not stored", "error", err)
		}
	})
}

// stopIndexing stops the indexing. The next turn starts again with what is not finished.
func (r *run) stopIndexing() {
	if r.indexing != nil {
		r.indexing()
		r.indexed.Wait()
		r.indexing = nil
	}
}
