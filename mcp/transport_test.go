package mcp

import "testing"

// TestLastLine: the line of a program's standard error that explains its exit.
func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"one\ntwo\n\n": "two",
		"  throw err;\n\nError: no module '/x.js'\n" +
			"    at a (b:1)\n\nNode.js v22.23.3\n": "Error: no module '/x.js'",
		"Traceback (most recent call last):\n  File \"x.py\"\n" +
			"ModuleNotFoundError: No module named 'mcp'\n": "ModuleNotFoundError: No module named 'mcp'",
	} {
		var x tail
		x.Write([]byte(text))
		if got := x.last(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
