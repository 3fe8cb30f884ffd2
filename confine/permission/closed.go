package permission

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"sync"
)

// Closed returns a func that reports whether a file must be left out of what a call reads without naming it, because a
// rule for particular files denies reading it by its name, or would ask. m is the mode of the call, s its tool; named
// are the paths that it names, as given and with links resolved: the user was asked already by rules that cover them. A
// hard link to what a rule denies is closed, too. The func takes an absolute path without following links, is safe for
// concurrent use, and takes some microseconds, but a search for the first file that has several names. It is nil if no
// rule closes anything. Rules without a pattern are about the call as a whole, and secrets are told by
// [PathContext.Secret].
func (rs Rules) Closed(m Mode, p PathContext, s Subject, named ...string) func(path string) bool {
	s.Kind = KindRead
	p.resolved, p.madeFrom = map[string][]string{}, nil
	rs.Deny, rs.Ask = p.meant(rs.Deny), p.meant(rs.Ask)
	pick := func(list []Rule, closes func(*Rule) bool) (out []Rule) {
		for i := range list {
			if r := &list[i]; !r.Any && r.coversTool(&s, true) && closes(r) {
				out = append(out, *r)
			}
		}
		return out
	}
	rules := slices.Concat(
		pick(rs.Deny, func(*Rule) bool { return true }),
		pick(rs.Ask, func(r *Rule) bool {
			return !(m == Bypass && r.Origin != Managed) &&
				!slices.ContainsFunc(named, func(name string) bool {
					return p.match(r.Pattern, r.Base, path.Clean(filepath.ToSlash(name)), true)
				})
		}))
	if len(rules) == 0 {
		return nil
	}
	for _, r := range rules { // the directories that patterns are relative to are resolved here, and only looked up below
		for _, dir := range []string{p.Dir, p.Home, r.Base} {
			if dir != "" {
				p.dirNames(dir)
			}
		}
	}
	p.mainDirs()
	denied := sync.OnceValues(func() (DeniedFiles, error) { // a search, only for files with several names
		return rs.DeniedFiles(context.Background(), p)
	})
	linked := p.Resolve == nil && rs.DenyFiles()
	return func(file string) bool {
		file = path.Clean(filepath.ToSlash(file))
		if slices.ContainsFunc(rules, func(r Rule) bool { return p.match(r.Pattern, r.Base, file, true) }) {
			return true
		}
		if !linked || !hasLinks(file) {
			return false
		}
		d, err := denied()
		return err != nil || d.Covers(file, true) != ""
	}
}
