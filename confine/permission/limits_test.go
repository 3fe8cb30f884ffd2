package permission

import (
	"reflect"
	"slices"
	"testing"
)

// The limits of a session mean the same where a run below it works elsewhere, with another home.
func TestNestedLimits(t *testing.T) {
	here := PathContext{Dir: "/w/[a]", Roots: []string{"/more"}, Home: "/home/u"}
	rules := func(texts ...string) []Rule {
		all, _ := ParseRules(texts, Flag, "/base")
		return all
	}
	deny := here.Anywhere(rules("Read(./secrets/**)", "Read(~/.k)", "Edit(/x)", "Read(*.key)", "Read(a/b)", "Bash(rm *)",
		"Read(//etc/x)", "Read(.)", "WebFetch"), true)
	l := Limits{Mode: Plan, Sandbox: "auto", Rules: Rules{Deny: deny, Allow: here.Anywhere(rules("Read(a/b)", "Edit(*.go)"),
		false)}, Policy: []string{`{"x":1}`}}
	got, err := ParseLimits(l.String())
	if err != nil || !reflect.DeepEqual(got, l) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, got, l)
	}
	there := PathContext{Dir: "/elsewhere", Home: "/tmp/h"}
	for _, test := range []struct {
		rules  []Rule
		path   string
		covers bool
	}{
		{deny, "/w/[a]/secrets/k", true}, {deny, "/elsewhere/secrets/k", false}, {deny, "/w/a/secrets/k", false},
		{deny, "/home/u/.k", true}, {deny, "/tmp/h/.k", false}, {deny, "/base/x", true}, {deny, "/elsewhere/x", false},
		{deny, "/any/a.key", true}, {deny, "/any/a/b", true}, {deny, "/etc/x", true}, {deny, "/w/[a]", true},
		{l.Rules.Allow, "/w/[a]/a/b", true}, {l.Rules.Allow, "/elsewhere/a/b", false},
		{l.Rules.Allow, "/w/[a]/c/x.go", true}, {l.Rules.Allow, "/more/x.go", true}, {l.Rules.Allow, "/elsewhere/x.go", false},
	} {
		covers := slices.ContainsFunc(test.rules, func(r Rule) bool {
			return r.Pattern != "" && r.Tool != "Bash" && there.match(r.Pattern, r.Base, test.path, true)
		})
		if covers != test.covers {
			t.Errorf("%s: covered %v", test.path, covers)
		}
	}
	if again := here.Anywhere(deny, true); !reflect.DeepEqual(again, deny) {
		t.Errorf("a second time: %v", again)
	}
	for _, bad := range []string{"", "too long", "[]", `{"more":1}`, `{"mode":"no"}`, `{"deny":{"user":["Read("]}}`} {
		if _, err := ParseLimits(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
