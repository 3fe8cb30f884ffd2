package permission_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/knack-agent/knack/confine/permission"
)

// What is outside the workspace stays closed, whatever allows it.
func TestBorders(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "work")
	for _, d := range []string{dir, filepath.Join(dir, "out")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	rules := Rules{}
	for _, text := range []string{"Read", "Edit", "Bash", "Read(/" + home + "/x)"} {
		r, err := ParseRule(text, User)
		if err != nil {
			t.Fatal(err)
		}
		rules.Allow = append(rules.Allow, r)
	}
	p := PathContext{Dir: dir, Home: home, Borders: Borders{Reads: true, Writes: true, Outside: []string{dir + "/out"}}}
	for _, test := range []struct {
		kind Kind
		text string
		want Verdict
	}{
		{KindRead, "a", Allow}, {KindEdit, "a", Allow}, {KindRead, home + "/x", Deny}, {KindEdit, "~/x", Deny},
		{KindRead, "link/x", Deny}, {KindRead, "out/x", Deny}, {KindEdit, "out", Deny}, {KindBash, "cat a", Allow},
		{KindBash, "cat " + home + "/x", Ask}, {KindBash, "cat ~/x", Ask},
		{KindBash, "cat a >/dev/null", Allow},
	} {
		for _, m := range []Mode{Default, Bypass} {
			s := Subject{Kind: test.kind, Text: test.text, Tool: map[Kind]string{KindRead: "read", KindEdit: "edit",
				KindBash: "bash"}[test.kind]}
			d := rules.Decide(t.Context(), m, p, s)
			if d.Verdict != test.want {
				t.Errorf("%s %s in %s: %v, want %v: %+v", test.kind, test.text, m, d.Verdict, test.want, d)
			}
		}
	}
}
