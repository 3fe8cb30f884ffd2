package permission

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
)

// Deny and ask rules also match what their author probably meant. People write patterns in the syntax of other
// programs: with braces, with $HOME, or with one slash before an absolute path. Taken literally, such a rule would
// match no file, and nobody would notice.

const (
	maxChoices  = 64             // combinations of alternatives that are tried; beyond that, "*" replaces some lists
	maxReadings = 8 * maxChoices // patterns that are tried in place of one
)

// meant returns deny or ask rules together with their other readings: what their patterns say in another syntax and, in
// a linked work tree or in a batch's copy, the rules for the same files in the directory that it was made from.
func (p *PathContext) meant(rules []Rule) []Rule {
	all := slices.Clip(rules)
	for i := range rules {
		first := len(all)
		kind, _ := kindOf(rules[i].Tool)
		forms := reading
		switch {
		case rules[i].Any || kind != KindRead && kind != KindEdit && kind != KindBash:
			continue
		case kind == KindBash:
			forms = commandReading
		}
		for _, pattern := range readings(rules[i].Pattern, forms) {
			r := rules[i]
			r.text, r.Pattern = r.String(), pattern
			if kind == KindBash {
				all = with(all, first, &rules[i], &r)
				continue
			}
			base, rest := p.anchor(&r)
			for base != "" && strings.HasPrefix(rest, "../") {
				base, rest = path.Dir(filepath.ToSlash(base)), rest[3:]
				r.Base, r.Pattern = base, "/"+rest
			}
			all = with(all, first, &rules[i], &r)
			for _, here := range p.relocated(&r) {
				all = with(all, first, &rules[i], &here)
			}
		}
	}
	return all
}

// with appends a reading of the rule of, unless it says the same as that rule or as a reading from all[first] on.
func with(all []Rule, first int, of, r *Rule) []Rule {
	same := func(o Rule) bool { return o.Pattern == r.Pattern && o.Base == r.Base }
	if same(*of) || slices.ContainsFunc(all[first:], same) {
		return all
	}
	return append(all, *r)
}

// readings returns the patterns that a pattern may stand for, itself first. Each of the others follows from an earlier
// one by a single rule of syntax, which one calls add for.
func readings(pattern string, one func(s string, add func(string))) []string {
	all := []string{pattern}
	if broad := reduced(pattern); broad != pattern {
		all = append(all, broad)
	}
	for i := 0; i < len(all) && len(all) < maxReadings; i++ {
		one(all[i], func(other string) {
			if other != "" && !slices.Contains(all, other) {
				all = append(all, other)
			}
		})
	}
	return all
}

// written lists prefixes and suffixes of other programs' patterns, and what replaces the prefix here.
var written = [...]struct{ begin, here, end string }{{`"`, "", `"`}, {"'", "", "'"}, {"`", "", "`"}, {"$HOME", "~", ""},
	{"${HOME}", "~", ""}, {"%USERPROFILE%", "~", ""}, {"$PWD", ".", ""}, {"${PWD}", ".", ""},
	{"$CLAUDE_PROJECT_DIR", ".", ""}, {"${CLAUDE_PROJECT_DIR}", ".", ""}, {"${workspaceFolder}", ".", ""},
	{"$env:USERPROFILE", "~", ""}, {"path:", "", ""}, {"file_path:", "", ""}, {"file:", "", ""}, {"file://", "", ""},
	{"file://localhost", "", ""}, {"", "", ":*"}}

// reading calls add for each pattern that a pattern may stand for by one rule of syntax.
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
	} else if strings.ContainsAny(strings.ReplaceAll(s, "[,]", ""), ",;|") { // several patterns
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

// commandReading calls add for each pattern that a pattern of commands may stand for by one rule of syntax.
func commandReading(s string, add func(string)) {
	add(strings.NewReplacer(`"`, "", "'", "", "`", "").Replace(s)) // words never have quotes
	bare := strings.TrimSuffix(strings.TrimPrefix(s, "^"), "$")
	i := strings.Index(s, ".*")
	anything := i > 0 && !strings.ContainsAny(s[i-1:i], " /*") // as in cat.*; after a blank, .* are hidden files
	if anything || bare != s || strings.ContainsAny(s, `\+`) { // a regular expression
		add(strings.Join(strings.Fields(strings.NewReplacer(`\s+`, " ", `\s*`, " ", `\s`, " ", `\b`, "", `\.`, ".", ".*", "*",
			".+", "*").Replace(bare)), " "))
	}
	list := func(before, s, after, sep string) {
		if all := strings.Split(s, sep); len(all) > 1 {
			for _, one := range all {
				add(before + strings.TrimSpace(one) + after)
			}
		}
	}
	if before, all, after, sep := choices(s); sep != "" {
		list(before, all, after, sep)
	} else if !isPipe(s) {
		list("", s, "", "|")
	}
	list("", s, "", ", ")
	list("", s, "", "; ")
	if program, rest, _ := strings.Cut(s, " "); strings.HasPrefix(program, "/") && !strings.ContainsAny(program, `*?[\`) {
		add(strings.TrimSpace(path.Base(program) + " " + rest)) // commands name it by its base name
	}
}

// isPipe reports whether a pattern with "|" means a pipe, and not one of several commands.
func isPipe(s string) bool {
	last := strings.Fields(s[strings.LastIndexByte(s, '|')+1:])
	return strings.Contains(s, " | ") || len(last) == 0 || strings.Contains(s, "||") ||
		slices.Contains(strings.Fields("sh bash zsh dash python python3 node perl ruby php xargs sudo tee"), last[0])
}

// choices finds the last list of alternatives in a pattern, in braces or in the parentheses of Bash's extended
// patterns. It returns what comes before the list, its items, what comes after it, and the separator of the items; "":
// there is no list. A single name in braces is a list of one.
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

// withoutLines removes line numbers from the end of a pattern, as in a.go:10-20 and a.go#L10.
func withoutLines(s string) string {
	s, _, _ = strings.Cut(s, "#L")
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.Trim(s[i+1:], "0123456789-,") == "" {
		return s[:i]
	}
	return s
}

// reduced replaces lists of alternatives in a pattern by "*", the last one first, until it has at most maxChoices
// combinations.
func reduced(s string) string {
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
	return reduced(before + "*" + after)
}

// cleaned removes ".", ".." and doubled slashes from a pattern.
func cleaned(s string) string {
	n := 0 // of the beginning that says what it is relative to
	for n < min(2, len(s)) &&
		(s[n] == '/' || n == 0 && strings.IndexByte("~.", s[0]) >= 0 && strings.HasPrefix(s[1:], "/")) {
		n++
	}
	rest := s[n:]
	in := "/" + rest + "/"
	if !strings.Contains(strings.TrimSuffix(in, "/"), "//") && !strings.Contains(in, "/../") &&
		!strings.Contains(in, "/./") {
		return s
	}
	if rest = path.Clean(strings.TrimLeft(rest, "/")); n == 0 && strings.HasPrefix(rest, "../") {
		return "./" + rest
	}
	return s[:n] + rest
}

// relocated returns what a rule about files in a directory that this work tree or copy was made from says of the same
// files here.
func (p *PathContext) relocated(r *Rule) (here []Rule) {
	base, pattern := p.anchor(r)
	if base == "" || base == p.Dir {
		return nil
	}
	dirs := append([]string{base}, p.dirNames(base)...)
	for _, o := range append(slices.Clip(p.origins()), p.originOfRule(dirs[len(dirs)-1], pattern)) {
		for _, dir := range dirs {
			if rest, ok := below(split(o.From), split(dir), split(pattern)); ok && o.From != "" {
				to := *r
				to.Pattern, to.Base = "/"+rest, o.Top
				here = append(here, to)
				break
			}
		}
	}
	return here
}

// originOfRule returns the linked work tree that contains the working directory, with the main work tree of its
// repository, if a pattern in dir is about files of the latter. After git init --separate-git-dir, git cannot tell where
// the main work tree is; the main work tree itself names its git directory.
func (p *PathContext) originOfRule(dir, pattern string) (o gitfile.Origin) {
	p.findOrigins()
	if p.madeFrom.common == "" {
		return o
	}
	at, _, _ := strings.Cut(pattern, "*")
	if main, own, of := gitfile.Tree(path.Join(dir, at)); own == of && of == p.madeFrom.common {
		o = gitfile.Origin{Top: p.madeFrom.top, From: main}
	}
	return o
}

// split returns the elements of a path or pattern.
func split(s string) []string {
	return strings.FieldsFunc(filepath.ToSlash(s), func(c rune) bool { return c == '/' })
}

// below returns the part of a pattern in dir that applies below the directory main. All three are split into elements.
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
		dir[i] = Literal(dir[i])
	}
	if rest = path.Join(append(dir, pattern...)...); rest == "" { // it covers all of it
		rest = "**"
	}
	return rest, true
}

// origins returns what the linked work tree or copy that contains the working directory was made from.
func (p *PathContext) origins() []gitfile.Origin {
	p.findOrigins()
	return p.madeFrom.origins
}

// madeFrom is what a PathContext knows of where its working directory comes from.
type madeFrom struct {
	origins     []gitfile.Origin
	top, common string
}

func (p *PathContext) findOrigins() {
	if p.madeFrom != nil {
		return
	}
	p.madeFrom = &madeFrom{}
	if p.Resolve != nil || p.Dir == "" {
		return
	}
	p.madeFrom.origins = gitfile.Origins(p.Dir)
	if top, own, common := gitfile.Tree(p.Dir); own != common {
		p.madeFrom.top, p.madeFrom.common = top, common
	}
}
