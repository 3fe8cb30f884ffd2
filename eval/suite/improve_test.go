package suite_test

import (
	"testing"

	"github.com/knack-agent/knack/eval/suite"
)

// TestWithDescription: only the description changes, however it was written.
func TestWithDescription(t *testing.T) {
	for before, after := range map[string]string{
		"---\nname: a\ndescription: old\n---\nBody description: x\n":   "---\nname: a\ndescription: \"new \\\"x\\\"\"\n---\nBody description: x\n",
		"---\ndescription: >\n  old\n  text\n\n  more\nname: a\n---\n": "---\ndescription: \"new \\\"x\\\"\"\nname: a\n---\n",
		"---\nname: a\n---\ndescription: x\n":                          "",
		"description: x\n":                                             "",
		"---\ndescription: x\n":                                        "",
	} {
		got, err := suite.WithDescription([]byte(before), `new "x"`)
		if err != nil && after != "" || err == nil && string(got) != after && after != "" {
			t.Errorf("%q: %q, %v", before, got, err)
		}
		if after == "" && err == nil {
			t.Errorf("%q became %q", before, got)
		}
	}
	got, err := suite.WithDescription([]byte("---\r\ndescription: old\r\nname: a\r\n---\r\n"), "new")
	if want := "---\r\ndescription: \"new\"\r\nname: a\r\n---\r\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}
