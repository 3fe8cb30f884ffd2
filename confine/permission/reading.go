package permission

import (
	"context"
	"strings"
)

// Reading says how a rule that denies or asks is read, if its author probably means something else, and what to write:
// with [SeverityWarn] it guards nothing, with [SeverityInfo] something else than it seems to. text is the rule as it was
// written.
func (r Rule) Reading(text string) (Problem, bool) {
	note := func(s Severity, message string) (Problem, bool) {
		return Problem{strings.TrimSpace(text), s, message}, true
	}
	kind, _ := kindOf(r.Tool)
	files := kind == KindRead || kind == KindEdit
	switch {
	case files && r.Any && strings.HasSuffix(strings.TrimSpace(text), ")"):
		return note(SeverityInfo, "is about the tool alone, as "+r.Tool+" is: commands still reach files; "+r.Tool+
			"(**) is about files, whatever reaches them")
	case r.Any:
		return Problem{}, false
	case kind == KindBash:
		switch {
		case !strings.ContainsAny(r.Pattern, "|&;<>()$`\"'\\^{}!#~"): // most rules, about which no decision is made here
			if !strings.ContainsAny(r.Pattern, " *") {
				return note(SeverityInfo, "is about "+r.Pattern+" without arguments; write Bash("+r.Pattern+" *) for all uses")
			}
		case !r.guards() && strings.ContainsAny(r.Pattern, "|&;"):
			return note(SeverityWarn, "guards nothing: each command of a line is judged by itself; write one rule for each")
		case !r.guards():
			return note(SeverityWarn, "guards nothing: no command is written like that")
		}
	case files:
		if why := noPath(r.Pattern); why != "" {
			return note(SeverityWarn, "guards nothing: "+why)
		}
	}
	return Problem{}, false
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

// noPath returns why no file can have a path of a pattern; "": one can.
func noPath(pattern string) string {
	if strings.Contains(pattern, "://") && !strings.HasPrefix(pattern, "file://") {
		return "an address is no path; WebFetch(domain:HOST) is about the web"
	}
	for _, s := range readings(pattern, reading) {
		user, _, _ := strings.Cut(s, "/")
		switch {
		case strings.HasPrefix(user, "~") && user != "~":
			pattern = "~/ is your home directory; write //PATH for that of somebody else"
		case strings.HasPrefix(s, "$") || strings.HasPrefix(s, "%"):
			pattern = "variables are not filled in; write ~/, ./ or //PATH"
		case strings.HasPrefix(s, "^") || strings.HasSuffix(s, "$") || strings.Contains(s, ".+"):
			pattern = "patterns are those of .gitignore, no regular expressions"
		default:
			return ""
		}
	}
	return pattern
}
