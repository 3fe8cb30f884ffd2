package gate

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestReasonsOfFiles: a file keeps its letters at the beginning of a sentence.
func TestReasonsOfFiles(t *testing.T) {
	r := Request{Dir: "/w"}
	for _, name := range []string{"docs", "docs/x", "x.go"} {
		r.Decision.Subjects = []permission.Judged{{Subject: permission.Subject{Kind: permission.KindEdit, Text: "/w/" + name},
			Reason: permission.ReasonOutside}}
		if all := r.Reasons(); len(all) != 1 || !strings.Contains(all[0].Text, name) {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// TestShownRules: paths below the user's home begin with ~, in rules and in questions.
func TestShownRules(t *testing.T) {
	r := Request{Dir: "/home/u/p", home: "/home/u", Rules: []string{"Edit(//home/u/p/a.go)", "Bash(cat //home/u/x)",
		"Edit(//home/user2/a)", "Edit(//tmp/a)"}}
	if got := strings.Join(r.ShownRules(), " "); got !=
		"Edit(~/p/a.go) Bash(cat //home/u/x) Edit(//home/user2/a) Edit(//tmp/a)" {
		t.Error(got)
	}
	for path, want := range map[string]string{"/home/u/p/a.go": "a.go", "/home/u/.ssh/id": "~/.ssh/id",
		"/etc/x": "/etc/x"} {
		if got := r.Short(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
