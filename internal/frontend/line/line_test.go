package line

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"short", "short"},
		{"exactly twenty chars", "exactly twenty chars"},
		{"exactly twenty chars\n", "exactly twenty chars\n"},
		{"one two three four five six", "one two three four\n    five six"},
		{"/name        what it is for\nnext", "/name        what it\n    is for\nnext"},
		{"one two three four five six seven eight nine ten", "one two three four\n    five six seven\n    eight nine ten"},
		{"averyveryveryverylongwordindeed and more", "averyveryveryverylongwordindeed and more"},
		{"    indented and so on and on", "    indented and so\n    on and on"},
	} {
		if got := wrap(tt.text, 20); got != tt.want {
			t.Errorf("%q:\n%s\nwant\n%s", tt.text, got, tt.want)
		}
	}
	long := strings.Repeat("a", 100)
	if got := wrap(long, 20); got != long {
		t.Errorf("a long word: %q", got)
	}
	if got := wrap("some text", 0); got != "some text" {
		t.Errorf("no width: %q", got)
	}
}
