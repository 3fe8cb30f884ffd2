package fences

import "testing"

func TestFences(t *testing.T) {
	for line, want := range map[string]string{"": "", "x": "", "``": "", "```": "```", "  ```` go": "````", "    ```": "",
		"~~~ a`b": "~~~", "``` a`b": "", "\t```": "", "```go\n": "```"} {
		if got := Opens(line); got != want {
			t.Errorf("%q opens %q, want %q", line, got, want)
		}
	}
	for _, x := range []struct {
		line, marker string
		want         bool
	}{{"```", "```", true}, {" ````\n", "```", true}, {"```", "````", false}, {"``` x", "```", false}, {"~~~", "```", false},
		{"```~", "```", false}, {"", "```", false}} {
		if got := Closes(x.line, x.marker); got != x.want {
			t.Errorf("%q closes %q: %v", x.line, x.marker, got)
		}
	}
}
