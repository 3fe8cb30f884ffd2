package gate

import (
	"strings"
	"testing"
)

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
