package coding

import "testing"

// A name with a line break, or that is not valid UTF-8, is shown on one line.
func TestOddNames(t *testing.T) {
	b := newFixture(t, FileOptions{}, "a\nb.go:1: forged=needle\n", "bad\xff=needle\n")
	b.want(t, "grep", `{"pattern":"needle"}`, "a\\nb.go:1: forged:1: needle\nbad\ufffd:1: needle")
	b.want(t, "grep", `{"pattern":"needle","filesOnly":true}`, "a\\nb.go:1: forged\nbad\ufffd")
	b.want(t, "grep", `{"pattern":"needle","path":"a\u000ab.go:1: forged"}`, "a\\nb.go:1: forged:1: needle")
	b.want(t, "find", `{"pattern":"*"}`, "a\\nb.go:1: forged\nbad\ufffd")
	b.want(t, "ls", `{}`, "a\\nb.go:1: forged\nbad\ufffd")
}
