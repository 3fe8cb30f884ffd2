package hook

import (
	"strings"
	"testing"
)

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

// TestMisspeltReply: an answer whose decision is misspelt, or in the wrong place, has failed; it decides nothing.
func TestMisspeltReply(t *testing.T) {
	for out, want := range map[string]string{
		`{"decison": "block"}`:                                                 `"decison"; did you mean decision`,
		`{"permissionDecision": "deny"}`:                                       "wrong place",
		`{"behaviour": "deny"}`:                                                "wrong place",
		`{"hookSpecificOutput": {"permissionDecison": "deny"}}`:                "did you mean permissionDecision",
		`{"hookSpecificOutput": {"permission_decision": "deny"}}`:              "did you mean permissionDecision",
		`{"hookSpecificOutput": {"behavior": "deny"}}`:                         "wrong place",
		`{"hookSpecificOuput": {"permissionDecision": "deny"}}`:                "did you mean hookSpecificOutput",
		`{"contiue": false}`:                                                   "did you mean continue",
		`{"Decision": "block", "extra": 1, "suppressOutput": true}`:            "",
		`{"hookSpecificOutput": {"permissionDecision": "deny", "version": 2}}`: "",
	} {
		r, err := readReply(PreToolUse, []byte(out))
		switch {
		case want == "" && (err != nil || r.vote != Deny):
			t.Errorf("%s: %v, %v", out, r.vote, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", out, err, want)
		}
	}
}
