package permission

import (
	"strings"
	"testing"
)

// Every pattern of the lists matches in any letter case, and for files in a directory of that name: the fast check
// before the patterns misses none.
func TestListsInAnyCase(t *testing.T) {
	place := PathContext{Dir: "/w", Home: "/h"}
	var protected []string
	for _, p := range ProtectedPaths() {
		protected = append(protected, p.Name)
	}
	for kind, list := range [][]string{Secrets(), protected} {
		for _, pat := range list {
			name := strings.ReplaceAll(strings.ReplaceAll(pat, "**", "7"), "*", "x")
			switch {
			case strings.HasPrefix(name, "~/"):
				name = "/h" + name[1:]
			case strings.HasPrefix(name, "//"):
				name = name[1:]
			default:
				name = "/w/d/" + name
			}
			title := name[:strings.LastIndexByte(name, '/')+1] + capital(name[strings.LastIndexByte(name, '/')+1:])
			for _, path := range []string{name, strings.ToUpper(name), title, name + "/1"} {
				n := pathNames{paths: []string{path}}
				if kind == 0 && place.secret(n) == "" || kind == 1 && place.protected(n) == "" {
					t.Errorf("%s is not on the list, though %s is", path, pat)
				}
			}
		}
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// A host that changes the lists it got changes no decision.
func TestListsAreCopies(t *testing.T) {
	clear(Secrets())
	if Secrets()[0] != ".env*" {
		t.Error("the caller changed the built-in lists")
	}
}
