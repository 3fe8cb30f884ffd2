package permission

import (
	"context"
	"strings"
)

// Covers reports whether the allow rules permit everything that another allow rule would permit in
// addition: a skill that grants it then changes nothing. It is conservative: false also means unknown.
// The rules must not be bound to the content of files, as answers are.
func (rs Rules) Covers(ctx context.Context, grant Rule) bool {
	for i := range rs.Allow {
		if rs.covers(ctx, &rs.Allow[i], &grant) {
			return true
		}
	}
	return false
}

func (rs Rules) covers(ctx context.Context, r, grant *Rule) bool {
	kind, one := kindOf(r.Tool)
	ofGrant, oneOfGrant := kindOf(grant.Tool)
	switch {
	case strings.HasPrefix(grant.Tool, "mcp__") && r.Origin != Flag:
		return false // it may apply to other servers, see sameServerOrigin
	case kind == "*":
	case kind != ofGrant || one != "" && one != oneOfGrant:
		return false
	}
	switch ofGrant {
	case "*":
		return kind == "*" && r.Origin == Flag && !rs.patterns(KindBash)
	case KindPowerShell: // only exact lines are allowed
		return !r.Any && r.Pattern == grant.Pattern
	case KindBash:
		if r.Any { // a rule with a pattern also allows what cannot be analysed, where others deny patterns
			return !rs.patterns(KindBash)
		}
		return !grant.Any && (r.Pattern == grant.Pattern || rs.coversCommand(ctx, r, grant.Pattern))
	}
	return r.Any || !grant.Any && r.Pattern == grant.Pattern &&
		(r.Base == grant.Base || !strings.HasPrefix(r.Pattern, "/") || strings.HasPrefix(r.Pattern, "//"))
}

// patterns reports whether deny or ask rules for a kind of subject have patterns.
func (rs Rules) patterns(kind Kind) bool {
	for _, list := range [][]Rule{rs.Deny, rs.Ask} {
		for i := range list {
			if r := &list[i]; !r.Any && r.coversTool(&Subject{Kind: kind}, true) {
				return true
			}
		}
	}
	return false
}

// coversCommand reports whether a rule that ends in :* or " *" covers a longer pattern for commands: the rule's own
// words allow the words that the pattern spells out, and nothing in them runs another command.
func (rs Rules) coversCommand(ctx context.Context, r *Rule, text string) bool {
	p, q := compile(r.Pattern), compile(text)
	if !p.prefix || p.starred || q.starred || len(q.text) <= len(p.text) || q.text[len(p.text)] != wordEnd ||
		string(q.text[:len(p.text)]) != string(p.text) {
		return false
	}
	if q.prefix {
		text = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(text), ":*"), " *")
	}
	d := Rules{Allow: []Rule{*r}}.Decide(ctx, Default, PathContext{}, Subject{Kind: KindBash, Text: text})
	return d.Verdict == Allow && len(d.Subjects) == 1 && d.Subjects[0].Rule == r.String()
}
