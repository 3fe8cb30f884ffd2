package permission

import (
	"context"
	"strings"
)

// Reading says how a rule that denies or asks is read, if its author probably means something else, and what to write:
// with [SeverityWarn] it guards nothing, with [SeverityInfo] something else than it seems to. text is the rule as
// written.
func (r Rule) Reading(text string) (Problem, bool) {
	kind, _ := kindOf(r.Tool)
	files := kind == KindRead || kind == KindEdit
	p := Problem{strings.TrimSpace(text), SeverityWarn, ""}
	switch {
	case files && r.Any && strings.HasSuffix(p.Rule, ")"):
		p.Severity = SeverityInfo
		p.Message = "is about the tool alone: commands still reach files; (**) is about files, whatever reaches them"
	case r.Any:
	case files:
		p.Message = noPath(r.Pattern)
	case kind != KindBash:
	case !strings.ContainsAny(r.Pattern, "|&;<>()$`\"'\\^{}!#~"): // most rules, about which no decision is made here
		if !strings.ContainsAny(r.Pattern, " *") {
			p.Severity, p.Message = SeverityInfo, "is about the command without arguments; with \" *\" it is about each use"
		}
	case !r.guards() && strings.ContainsAny(r.Pattern, "|&;"):
		p.Message = "guards nothing: each command of a line is judged by itself; write one rule for each"
	case !r.guards():
		p.Message = "guards nothing: no command is written like that"
	}
	return p, p.Message != ""
}

// guards reports whether the rule covers a command that it spells out, if it denies.
func (r Rule) guards() bool {
	line := r.Pattern
	if words, ok := strings.CutSuffix(line, ":*"); ok {
		line = words + " x"
	}
	line = strings.ReplaceAll(line, "*", "x")
	d := Rules{Deny: []Rule{r}}.Decide(context.Background(), Default, PathContext{}, Subject{Kind: KindBash, Text: line})
	return d.Verdict == Deny
}

// noPath says that no file can have a path of a pattern, and why; "": one can.
func noPath(pattern string) string {
	if strings.Contains(pattern, "://") && !strings.HasPrefix(pattern, "file://") {
		return "guards nothing: an address is not a path; WebFetch(domain:HOST) is about the web"
	}
	why := ""
	for _, s := range readings(pattern, reading) {
		user, _, _ := strings.Cut(s, "/")
		switch {
		case strings.HasPrefix(user, "~") && user != "~":
			why = "guards nothing: ~/ is your home directory; write //PATH for that of somebody else"
		case strings.HasPrefix(s, "$") || strings.HasPrefix(s, "%"):
			why = "guards nothing: variables are not filled in; write ~/, ./ or //PATH"
		case strings.HasPrefix(s, "^") || strings.HasSuffix(s, "$") || strings.Contains(s, ".+"):
			why = "guards nothing: patterns are those of .gitignore, not regular expressions"
		default:
			return ""
		}
	}
	return why
}
