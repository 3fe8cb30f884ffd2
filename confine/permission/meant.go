package permission

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
)

// A rule that denies or asks is read as broadly as its author may have meant it. People write patterns as other programs
// do: with braces, as an absolute path with one slash, with $HOME. Such a rule would guard nothing, and nobody would
// notice.

// maxChoices limits the patterns that braces stand for: beyond it, "*" stands for some. maxReadings limits all readings.
const (
	maxChoices  = 64
	maxReadings = 8 * maxChoices
)

// meant returns rules that deny or ask, with what else they may mean: what their patterns say in another syntax, and in
// a linked work tree or a copy of a batch what they say about the same files in the directory that it was made from.
func (p *PathContext) meant(rules []Rule) []Rule {
	all := slices.Clip(rules)
	for i := range rules {
		if kind, _ := kindOf(rules[i].Tool); rules[i].Any || kind != KindRead && kind != KindEdit {
			continue
		}
		for _, pattern := range readings(rules[i].Pattern) {
			r := rules[i]
			r.text, r.Pattern = r.String(), pattern
			base, rest := p.anchor(&r)
			for base != "" && strings.HasPrefix(rest, "../") {
				base, rest = path.Dir(filepath.ToSlash(base)), rest[3:]
				r.Base, r.Pattern = base, "/"+rest
			}
			all = with(all, &r)
			if p.here(&r) {
				all = with(all, &r)
			}
		}
	}
	return all
}

// with appends a rule, unless it is there.
func with(all []Rule, r *Rule) []Rule {
	for i := range all {
		if o := &all[i]; o.Pattern == r.Pattern && o.Base == r.Base && o.Tool == r.Tool {
			return all
		}
	}
	return append(all, *r)
}

// readings returns what a pattern may mean, itself first: each other one differs by one rule of syntax from one before.
func readings(pattern string) []string {
	all := []string{pattern}
	if broad := fewer(pattern); broad != pattern {
		all = append(all, broad)
	}
	for i := 0; i < len(all) && len(all) < maxReadings; i++ {
		reading(all[i], func(other string) {
			if other != "" && !slices.Contains(all, other) {
				all = append(all, other)
			}
		})
	}
	return all
}

// written are the beginnings and ends of patterns that others write, with what stands for the beginning here.
var written = [...]struct{ begin, here, end string }{{`"`, "", `"`}, {"'", "", "'"}, {"`", "", "`"}, {"$HOME", "~", ""},
	{"${HOME}", "~", ""}, {"%USERPROFILE%", "~", ""}, {"$PWD", ".", ""}, {"${PWD}", ".", ""},
	{"$CLAUDE_PROJECT_DIR", ".", ""}, {"${CLAUDE_PROJECT_DIR}", ".", ""}, {"${workspaceFolder}", ".", ""},
	{"$env:USERPROFILE", "~", ""}, {"path:", "", ""}, {"file_path:", "", ""}, {"file:", "", ""}, {"file://", "", ""},
	{"file://localhost", "", ""}, {"", "", ":*"}}

// reading calls add with other patterns that a pattern may stand for.
func reading(s string, add func(string)) {
	for _, w := range written {
		if rest, ok := strings.CutPrefix(s, w.begin); ok && strings.HasSuffix(rest, w.end) {
			add(w.here + strings.TrimSuffix(rest, w.end))
		}
	}
	before, list, after, sep := choices(s)
	if sep != "" {
		for choice := range strings.SplitSeq(list, sep) {
			add(before + choice + after)
		}
		if strings.Contains(list, "..") { // {1..9}
			add(before + "*" + after)
		}
	} else if strings.ContainsAny(s, ",;|") { // several patterns
		for one := range strings.FieldsFuncSeq(s, func(c rune) bool { return c == ',' || c == ';' || c == '|' }) {
			add(strings.TrimSpace(one))
		}
	}
	if i := strings.IndexByte(s, '\\'); i >= 0 && i+1 < len(s) && !strings.ContainsAny(s[i+1:i+2], `?[]`) {
		add(strings.ReplaceAll(s, `\`, "/"))
	}
	if before, class, ok := strings.Cut(s, "[[:"); ok {
		if _, after, ok := strings.Cut(class, ":]]"); ok {
			add(before + "?" + after)
		}
	}
	add(withoutLines(s))
	if len(s) > 1 && s[0] == '/' && s[1] != '/' && strings.IndexByte(s[1:], '/') > 0 &&
		!strings.ContainsAny(s[:1+strings.IndexByte(s[1:], '/')], `*?[\`) {
		add("/" + s) // an absolute path
	}
	add(cleaned(s))
}

// choices splits a pattern at its last list of choices in braces, or in parentheses as Bash's extended patterns have
// them; sep is "" if there is none. A single name in braces is one choice.
func choices(s string) (before, list, after, sep string) {
	for end := len(s); ; {
		open := strings.LastIndexAny(s[:end], "{(")
		if open < 0 {
			return "", "", "", ""
		}
		close, sep := "}", ","
		if s[open] == '(' {
			close, sep = ")", "|"
		}
		list, after, ok := strings.Cut(s[open+1:], close)
		before := s[:open]
		sign := strings.TrimRight(before, "@?+")
		if ok && (strings.Contains(list, sep) || sep == "," && !strings.HasSuffix(before, "$") ||
			sep == "|" && sign != before) {
			if sep == "|" {
				before = sign
			}
			return before, list, after, sep
		}
		end = open
	}
}

// withoutLines returns a pattern without the lines of a file that it names at its end, as in a.go:10-20 and a.go#L10.
func withoutLines(s string) string {
	s, _, _ = strings.Cut(s, "#L")
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.Trim(s[i+1:], "0123456789-,") == "" {
		return s[:i]
	}
	return s
}

// fewer returns a pattern with "*" in the place of lists of choices, as many as it takes to have at most maxChoices.
func fewer(s string) string {
	n := 1
	for rest := s; ; {
		before, list, after, sep := choices(rest)
		if sep == "" {
			return s
		}
		if n *= strings.Count(list, sep) + 1; n > maxChoices {
			break
		}
		rest = before + after
	}
	before, _, after, _ := choices(s)
	return fewer(before + "*" + after)
}

// cleaned returns a pattern without ".", ".." and doubled slashes, where it has some.
func cleaned(s string) string {
	n := 0 // of the beginning that says what it is relative to
	for n < min(2, len(s)) &&
		(s[n] == '/' || n == 0 && strings.IndexByte("~.", s[0]) >= 0 && strings.HasPrefix(s[1:], "/")) {
		n++
	}
	rest := s[n:]
	in := "/" + rest + "/"
	if !strings.Contains(strings.TrimSuffix(in, "/"), "//") && !strings.Contains(in, "/../") && !strings.Contains(in, "/./") {
		return s
	}
	if rest = path.Clean(strings.TrimLeft(rest, "/")); n == 0 && strings.HasPrefix(rest, "../") {
		return "./" + rest
	}
	return s[:n] + rest
}

// here changes a rule for files in the directory that this one was made from to what it says about the same files here.
func (p *PathContext) here(r *Rule) bool {
	base, pattern := p.anchor(r)
	if base == "" || base == p.Dir {
		return false
	}
	top, main := p.origin()
	if main == "" {
		return false
	}
	for _, dir := range append([]string{base}, p.dirNames(base)...) {
		if rest, ok := below(split(main), split(dir), split(pattern)); ok {
			r.Pattern, r.Base = "/"+rest, top
			return true
		}
	}
	return false
}

// split returns the elements of a path or pattern.
func split(s string) []string {
	return strings.FieldsFunc(filepath.ToSlash(s), func(c rune) bool { return c == '/' })
}

// below returns what a pattern, relative to dir, says about what is in the directory main. All are elements.
func below(main, dir, pattern []string) (rest string, ok bool) {
	for len(main) > 0 && len(dir) > 0 {
		if !strings.EqualFold(main[0], dir[0]) {
			return "", false
		}
		main, dir = main[1:], dir[1:]
	}
	for len(main) > 0 && len(pattern) > 0 && pattern[0] != "**" {
		if !glob(strings.ToLower(pattern[0]), strings.ToLower(main[0])) {
			return "", false
		}
		main, pattern = main[1:], pattern[1:]
	}
	for i := range dir {
		dir[i] = literal(dir[i])
	}
	if rest = path.Join(append(dir, pattern...)...); rest == "" { // it covers all of it
		rest = "**"
	}
	return rest, true
}

// origin returns the work tree or copy in which the session is, and the directory that it was made from; main is "" if
// it is none.
func (p *PathContext) origin() (top, main string) {
	const key = "" // no directory's name
	if known, ok := p.resolved[key]; ok {
		return known[0], known[1]
	}
	if p.Resolve == nil && p.Dir != "" {
		top, main = gitfile.Origin(p.Dir)
	}
	if p.resolved == nil {
		p.resolved = map[string][]string{}
	}
	p.resolved[key] = []string{top, main}
	return top, main
}
