package hook

import "testing"

// TestAsyncReply: the line with which a hook says that nobody needs to wait is not its reply.
func TestAsyncReply(t *testing.T) {
	for out, want := range map[string]string{
		`{"async": true, "asyncTimeout": 1000}`:                            "",
		"{\"async\": true}\n{\"reason\": \"r\"}\n{\"reason\": \"second\"}": "r",
		"{\"reason\": \"r\", \"async\": false}":                            "r",
	} {
		r, err := readReply(Stop, []byte(out))
		if err != nil || r.reason != want {
			t.Errorf("%s: %q, %v", out, r.reason, err)
		}
	}
}
