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

// maxReadings limits the patterns that braces stand for.
const maxReadings = 64

// meant returns rules that deny or ask, with what else they may mean: what their patterns say in another syntax, and in
// a linked work tree or a copy of a batch what they say about the same files in the directory that it was made from.
func (p *PathContext) meant(rules []Rule) []Rule {
	all := slices.Clip(rules)
	add := func(r Rule) {
		if !slices.ContainsFunc(all, func(o Rule) bool { return o.Tool == r.Tool && o.Pattern == r.Pattern && o.Base == r.Base }) {
			all = append(all, r)
		}
	}
	for _, r := range rules {
		if kind, _ := kindOf(r.Tool); r.Any || kind != KindRead && kind != KindEdit {
			continue
		}
		r.text = r.String()
		for _, pattern := range readings(r.Pattern) {
			other := r
			other.Pattern = pattern
			if base, rest := p.anchor(&other); strings.HasPrefix(rest, "../") {
				other.Base = filepath.ToSlash(base)
				for rest, up := strings.CutPrefix(rest, "../"); up; rest, up = strings.CutPrefix(rest, "../") {
					other.Base, other.Pattern = path.Dir(other.Base), "/"+rest
				}
			}
			if other.Pattern != r.Pattern {
				add(other)
			}
			if here, ok := p.here(other); ok {
				add(here)
			}
		}
	}
	return all
}

// readings returns what a pattern may mean, itself first.
func readings(pattern string) []string {
	all := []string{pattern}
	for i := 0; i < len(all) && len(all) < maxReadings; i++ {
		for _, other := range reading(all[i]) {
			if other != "" && !slices.Contains(all, other) {
				all = append(all, other)
			}
		}
	}
	return all
}

// reading returns other patterns that a pattern may stand for, each by one difference of syntax.
func reading(s string) (all []string) {
	if open := strings.LastIndexByte(s, '{'); open >= 0 {
		if list, rest, ok := strings.Cut(s[open+1:], "}"); ok && strings.Contains(list, ",") {
			for choice := range strings.SplitSeq(list, ",") {
				all = append(all, s[:open]+choice+rest)
			}
		}
	}
	if n := len(s) - 1; n > 0 && s[0] == s[n] && strings.ContainsAny(s[:1], "\"'`") {
		all = append(all, s[1:n])
	}
	for _, home := range []string{"$HOME", "${HOME}", "%USERPROFILE%"} {
		if rest, ok := strings.CutPrefix(s, home); ok {
			all = append(all, "~"+rest)
		}
	}
	if rest, ok := strings.CutPrefix(s, "file:"); ok {
		all = append(all, rest)
	}
	if rest, ok := strings.CutSuffix(s, ":*"); ok {
		all = append(all, rest)
	}
	if i := strings.IndexByte(s, '\\'); i >= 0 && i+1 < len(s) && !strings.ContainsAny(s[i+1:i+2], `*?[]\`) {
		all = append(all, strings.ReplaceAll(s, `\`, "/"))
	}
	if first, rest, _ := strings.Cut(strings.TrimPrefix(s, "/"), "/"); strings.HasPrefix(s, "/") && first != "" &&
		rest != "" && !strings.ContainsAny(first, `*?[\`) {
		all = append(all, "/"+s) // an absolute path
	}
	return append(all, cleaned(s))
}

// cleaned returns a pattern without ".." and doubled slashes, where it has some.
func cleaned(s string) string {
	head, rest := "", s
	for _, prefix := range []string{"//", "~/", "/", "./"} {
		if cut, ok := strings.CutPrefix(s, prefix); ok {
			head, rest = prefix, cut
			break
		}
	}
	if !strings.Contains(rest, "//") && !strings.HasPrefix(rest, "/") && !slices.Contains(strings.Split(rest, "/"), "..") {
		return s
	}
	if rest = path.Clean(strings.TrimLeft(rest, "/")); head == "" && strings.HasPrefix(rest, "../") {
		head = "./"
	}
	return head + rest
}

// here returns what a rule for files in the directory that this one was made from says about the same files here.
func (p *PathContext) here(r Rule) (Rule, bool) {
	base, pattern := p.anchor(&r)
	if base == "" || base == p.Dir {
		return r, false
	}
	top, main := p.origin()
	if main == "" {
		return r, false
	}
	for _, dir := range append([]string{base}, p.dirNames(base)...) {
		if rest, ok := below(split(main), split(dir), split(pattern)); ok {
			r.Pattern, r.Base = "/"+rest, top
			return r, true
		}
	}
	return r, false
}

// split returns the elements of a path or pattern.
func split(s string) []string {
	return strings.FieldsFunc(filepath.ToSlash(s), func(c rune) bool { return c == '/' })
}

// below returns what a pattern, relative to dir, says about what is in the directory main. All are elements.
func below(main, dir, pattern []string) (rest string, ok bool) {
	n := min(len(main), len(dir))
	if !slices.EqualFunc(main[:n], dir[:n], strings.EqualFold) {
		return "", false
	}
	main, dir = main[n:], dir[n:]
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
