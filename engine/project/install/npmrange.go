package install

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/mod/semver"
)

// A comparator is a part of a range of npm: an operator and a whole version as x/mod/semver writes it.
type comparator struct{ op, version string }

func (c comparator) has(v string) bool {
	switch n := semver.Compare(v, c.version); c.op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	case ">=":
		return n >= 0
	default:
		return n == 0
	}
}

// partial is a version of which the end may be missing or x.
var partial = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\^|~>?|[<>]=?|=)?\s*[v=]*\s*(\d{1,9}|[xX*])(?:\.(\d{1,9}|[xX*]))?(?:\.(\d{1,9}|[xX*]))?` +
		`(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$`)
})

// parseRange reads a range as npm's semver does: sets of comparators, of which one must have a version. ok is false if
// it is not a range.
func parseRange(text string) (sets [][]comparator, ok bool) {
	for set := range strings.SplitSeq(text, "||") {
		all := []comparator{}
		words := strings.Fields(set)
		if len(words) == 3 && words[1] == "-" {
			from, ok1 := comparators(">=" + words[0])
			to, ok2 := comparators("<=" + words[2])
			if !ok1 || !ok2 {
				return nil, false
			}
			sets = append(sets, slices.Concat(from, to))
			continue
		}
		for i := 0; i < len(words); i++ {
			word := words[i]
			if strings.Trim(word, "<>=^~") == "" && i+1 < len(words) { // ">= 1.2"
				i++
				word += words[i]
			}
			more, ok := comparators(word)
			if !ok {
				return nil, false
			}
			all = append(all, more...)
		}
		sets = append(sets, all)
	}
	return sets, true
}

// comparators returns what one word of a range means.
func comparators(word string) ([]comparator, bool) {
	m := partial().FindStringSubmatch(word)
	if m == nil {
		return nil, false
	}
	op, pre := m[1], m[5]
	n, known := [3]int{}, 0
	for ; known < 3; known++ {
		i, err := strconv.Atoi(m[2+known])
		if err != nil { // missing or x
			break
		}
		n[known] = i
	}
	if known < 3 {
		pre = ""
	}
	low := fmt.Sprintf("v%d.%d.%d%s", n[0], n[1], n[2], pre)
	if !semver.IsValid(low) {
		return nil, false
	}
	// next is the first version after those that begin as n does, up to the part with the number i.
	next := func(i int) string {
		up := [3]int{}
		copy(up[:], n[:i+1])
		up[i]++
		return fmt.Sprintf("v%d.%d.%d-0", up[0], up[1], up[2])
	}
	if known == 0 { // *
		if op == "<" || op == ">" {
			return []comparator{{"<", "v0.0.0-0"}}, true
		}
		return []comparator{{">=", "v0.0.0"}}, true
	}
	switch op {
	case "^":
		i := 0 // the first part that is not 0 must be the same
		for i < known-1 && n[i] == 0 {
			i++
		}
		return []comparator{{">=", low}, {"<", next(i)}}, true
	case "~", "~>":
		return []comparator{{">=", low}, {"<", next(min(known-1, 1))}}, true
	case "<", ">=":
		if op == "<" && known < 3 {
			low += "-0"
		}
		return []comparator{{op, low}}, true
	case ">":
		if known < 3 {
			return []comparator{{">=", strings.TrimSuffix(next(known-1), "-0")}}, true
		}
		return []comparator{{">", low}}, true
	case "<=":
		if known < 3 {
			return []comparator{{"<", next(known - 1)}}, true
		}
		return []comparator{{"<=", low}}, true
	}
	if known < 3 {
		return []comparator{{">=", low}, {"<", next(known - 1)}}, true
	}
	return []comparator{{"=", low}}, true
}

// inRange reports whether one of the sets has a version. One that is not released yet must be named: a comparator has
// the same version, also not released.
func inRange(sets [][]comparator, version string) bool {
	core, _, isPre := strings.Cut(version, "-")
	return slices.ContainsFunc(sets, func(set []comparator) bool {
		named := !isPre
		for _, c := range set {
			if !c.has(version) {
				return false
			}
			named = named || semver.Prerelease(c.version) != "" && strings.HasPrefix(c.version, core+"-")
		}
		return named
	})
}

// newest returns the version of a range that npm would take: the one called latest if it is in the range, otherwise the
// newest, and one that is not deprecated before others; "": there is none.
func (p *npmPackage) newest(text string) string {
	sets, ok := parseRange(text)
	if !ok {
		return ""
	}
	best := ""
	better := func(a, b string) bool { // a before b
		if b == "" || p.Versions[a].isDeprecated() != p.Versions[b].isDeprecated() {
			return b == "" || !p.Versions[a].isDeprecated()
		}
		if latest := p.Tags["latest"]; a == latest || b == latest {
			return a == latest
		}
		return cmp.Less(0, semver.Compare("v"+a, "v"+b))
	}
	for v := range p.Versions {
		if semver.IsValid("v"+v) && inRange(sets, "v"+v) && better(v, best) {
			best = v
		}
	}
	return best
}
