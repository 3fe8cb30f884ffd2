package config

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/similar"
)

// What a person misspells in settings has no effect. For a restriction that must not pass with a warning.

// keyNames are the names of settings by what the loss of one does: those that restrict, and all others. The parts above
// a name count as well: permissions restricts.
type keyNames struct{ restricting, other []string }

// allNames is computed only for a file with an unknown name.
func allNames() (n keyNames) {
	add := func(name string, restricts bool) {
		list := &n.other
		if restricts {
			list = &n.restricting
		}
		*list = append(*list, name)
	}
	for _, k := range table() {
		add(k.name, k.restricts())
	}
	for name, row := range effects() {
		add(name, row[0] == "restricts")
	}
	slices.Sort(n.restricting)
	slices.Sort(n.other)
	return n
}

// isKnown reports whether a table has a name, or what is below it.
func isKnown(name string) bool {
	return isKey(name) || effects()[name] != nil ||
		slices.ContainsFunc(table(), func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// plainKey returns a key without what people write differently.
func plainKey(key string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(key))
}

// nearest returns the part after prefix of the name that is nearest to a key, and by how many letters they differ.
func nearest(names []string, prefix, key string) (best string, far int) {
	far = 3
	for _, name := range names {
		rest, below := strings.CutPrefix(name, prefix)
		part, _, _ := strings.Cut(rest, ".")
		if !below || part == "" || part == "*" {
			continue
		}
		most := min(2, max(1, len(part)/3))
		if d := similar.Distance(plainKey(key), plainKey(part), most); d <= most && d < far {
			best, far = part, d
		}
	}
	return best, far
}

// placeless are last parts of restricting names that say nothing without what is before them.
var placeless = []string{"mode", "enabled", "files", "envVars", "skills", "env", "turns", "tokens", "cost", "minutes"}

// meantToRestrict returns the restriction that an unknown member of settings was probably meant to be; "": none. What
// does not begin with a letter is a comment.
func meantToRestrict(from *layer, prefix string, m member) string {
	if first, _ := utf8.DecodeRuneInString(m.key); !unicode.IsLetter(first) || m.val.off() {
		return ""
	}
	names := allNames()
	meant, far := nearest(names.restricting, prefix, m.key)
	if other, d := nearest(names.other, prefix, m.key); other != "" && d < far {
		return ""
	}
	switch {
	case meant != "" && !slices.Contains(names.restricting, prefix+meant) && !holdsRestriction(prefix+meant+".", m.val):
		return "" // an object that has none
	case meant != "":
		return prefix + meant
	case from.foreign:
		return ""
	case prefix == "permissions.":
		return "permissions.deny or permissions.ask"
	case prefix != "":
	default:
		for _, name := range names.restricting {
			part := name[strings.LastIndexByte(name, '.')+1:]
			if part != name && strings.EqualFold(part, m.key) && !slices.Contains(placeless, part) {
				return name
			}
		}
	}
	if mayRestrict(prefix + m.key) {
		return unknownRestriction
	}
	return ""
}

// unknownRestriction is what meantToRestrict returns for a key that only sounds as if it restricts.
const unknownRestriction = "?"

// holdsRestriction reports whether an object has the name of a restriction, or nearly one, if it is below prefix.
func holdsRestriction(prefix string, object *node) bool {
	return slices.ContainsFunc(object.members, func(m member) bool {
		meant, far := nearest(allNames().restricting, prefix, m.key)
		_, other := nearest(allNames().other, prefix, m.key)
		return meant != "" && far <= other && !m.val.off()
	})
}

// limits reports whether a setting, or one below it, restricts something.
func limits(name string, val *node) bool {
	return !val.off() && slices.ContainsFunc(allNames().restricting, func(k string) bool {
		return k == name || val.kind == 'o' && strings.HasPrefix(k, name+".")
	})
}

// asObjects returns how a setting is written in a file.
func asObjects(name string) string {
	return `{"` + strings.ReplaceAll(name, ".", `": {"`) + `": …` + strings.Repeat("}", strings.Count(name, ".")+1)
}

// misspelt records the restrictions that a file probably has under names that no setting has.
func (l *loader) misspelt(from *layer, tree *node, prefix string) {
	for _, m := range tree.members {
		name := prefix + m.key
		switch {
		case effects()[prefix+"*"] != nil:
		case m.val != tree.get(m.key):
			if limits(name, m.val) {
				l.weak(from, m.at, "%s appears twice, and only the last one would count", quote(name))
			}
		case strings.Contains(m.key, ".") && limits(name, m.val):
			l.weak(from, m.at, "%s is not a setting: write its parts as objects, %s", quote(name), asObjects(name))
		case isKnown(name):
			if m.val.kind == 'o' && !isKey(name) {
				l.misspelt(from, m.val, name+".")
			}
		default:
			switch meant := meantToRestrict(from, prefix, m); meant {
			case "":
			case unknownRestriction:
				l.weak(from, m.at, "%s is not a setting, and may restrict", quote(name))
			default:
				l.weak(from, m.at, "%s is not a setting; did you mean %s", quote(name), meant)
			}
		}
	}
}
