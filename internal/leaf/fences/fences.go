// Package fences finds the fences of code blocks in Markdown, line by line, as CommonMark has them.
package fences

import "strings"

// Opens returns the marker of the fence that a line opens, three or more backticks or tildes; "": it opens none.
func Opens(line string) string {
	bare := strings.TrimLeft(line, " ")
	if len(line)-len(bare) > 3 || bare == "" {
		return ""
	}
	c := bare[0]
	n := run(bare)
	if n < 3 || c != '`' && c != '~' || c == '`' && strings.Contains(bare[n:], "`") {
		return ""
	}
	return bare[:n]
}

// Closes reports whether a line closes the fence that was opened with this marker: it must have at least as many of its
// characters, and nothing else.
func Closes(line, marker string) bool {
	bare := strings.TrimSpace(line)
	return strings.HasPrefix(bare, marker) && run(bare) == len(bare)
}

// run is the number of equal bytes with which a text that is not empty begins.
func run(s string) int { return len(s) - len(strings.TrimLeft(s, s[:1])) }
