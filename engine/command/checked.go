package command

import (
	"context"
	"errors"
	"iter"

	"github.com/knack-agent/knack"
)

// A checkedSource is a source whose skills are compared, as a call compares them, with what the user approved: all files
// of a skill, where a conversation that only lists skills compares the text alone.
type checkedSource struct {
	knack.Source
	verify func(*knack.Skill) error
}

// checked returns the sources as checkedSources.
func checked(sources []knack.Source, verify func(*knack.Skill) error) []knack.Source {
	all := make([]knack.Source, len(sources))
	for i, src := range sources {
		if all[i] = src; src != nil {
			all[i] = checkedSource{src, verify}
		}
	}
	return all
}

// Location returns the location of the source, if it has one.
func (c checkedSource) Location() knack.Location {
	if at, ok := c.Source.(interface{ Location() knack.Location }); ok {
		return at.Location()
	}
	return knack.Location{}
}

// Prefixes returns the prefixes of the source, if it has any.
func (c checkedSource) Prefixes() []string {
	if p, ok := c.Source.(interface{ Prefixes() []string }); ok {
		return p.Prefixes()
	}
	return nil
}

// Skills yields a skill whose files changed as one that is not trusted, with the reason.
func (c checkedSource) Skills(ctx context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) {
		for s, err := range c.Source.Skills(ctx) {
			if refused := (*knack.Refusal)(nil); s != nil && s.Origin.Trust == knack.Trusted && s.FeatureOff == "" &&
				errors.As(c.verify(s), &refused) {
				changed := *s
				changed.Origin.Trust, s = knack.Untrusted, &changed
				if !yield(nil, knack.Problem{Code: knack.CodeChanged, Severity: knack.Warn, Path: s.Path,
					Message: "a call would be refused: " + refused.Message, Hint: refused.Hint}) {
					return
				}
			}
			if !yield(s, err) {
				return
			}
		}
	}
}
