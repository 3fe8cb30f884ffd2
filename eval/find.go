package eval

import (
	"context"
	"slices"

	"github.com/knack-agent/knack"
)

// ModelFind is the name of the program's own search in the place of a model.
const ModelFind = "find"

// Searching returns the Runner for queries that asks no model: the skill that the program's search finds to fit clearly,
// or that the query names, counts as called first. ok says which skills are searched; nil: all.
func Searching(finder *knack.Finder, cat *knack.Catalog, ok func(*knack.Skill) bool) Runner {
	return func(ctx context.Context, t Task) (Outcome, error) {
		fit, err := finder.Suggest(ctx, cat, t.Prompt, 1, ok)
		if err != nil {
			return Outcome{}, err
		}
		if len(fit) == 0 { // Suggest leaves a message alone that names a skill
			found, err := finder.Find(ctx, cat, t.Prompt, 1, ok)
			if err != nil {
				return Outcome{}, err
			}
			for _, m := range found {
				if m.Named {
					fit = append(fit, m.Skill)
				}
			}
		}
		if len(fit) == 0 {
			return Outcome{}, nil
		}
		return Outcome{Called: []string{fit[0].Name}, First: true}, nil
	}
}

// Describe says how a skill stands in the listing of a catalogue.
func Describe(ctx context.Context, cat *knack.Catalog, view knack.View, skill string) Listing {
	view.For = knack.ByModel
	listing := cat.Listing(view)
	l := Listing{Pool: len(listing.Entries), Tokens: listing.Tokens, Hidden: true}
	if i := slices.IndexFunc(listing.Entries, func(e knack.Line) bool { return e.Skill.Name == skill }); i >= 0 {
		e := listing.Entries[i]
		l.Cut = string(e.Cut)
		l.Hidden = slices.Contains([]knack.Cut{knack.CutText, knack.CutOverride, knack.CutOmitted}, e.Cut)
		l.Entry = knack.EstimateTokens(e.Text)
	}
	if why := cat.Why(skill, view); l.Hidden && len(why.Found) > 0 {
		l.Why = why.Found[0].Reason
	}
	if s := cat.Skill(skill); s != nil {
		l.Content = s.Name + "\n" + s.Description + "\n" + s.WhenToUse + "\n"
		if body, err := s.Body(ctx); err == nil {
			l.Body = knack.EstimateTokens(body)
			l.Content += body
		}
	}
	return l
}
