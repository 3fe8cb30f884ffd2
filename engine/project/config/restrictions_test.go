package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The table of Claude Code's settings has a row for each name of the version that it is about.
func TestEffects(t *testing.T) {
	rows := effects()
	for name, words := range rows {
		if !slices.Contains([]string{"restricts", "grants", "neutral", "object"}, words[0]) {
			t.Errorf("%s: %q is no effect", name, words[0])
		}
		for _, word := range words[1:] {
			if words[0] != "restricts" || !slices.Contains([]string{"held", "managed", "if-false"}, word) {
				t.Errorf("%s: %q means nothing", name, word)
			}
		}
	}
	data, err := os.ReadFile("testdata/claude-2.1.332.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(data))
	for line := range strings.Lines(string(data)) {
		if name := strings.TrimSpace(line); !strings.HasPrefix(name, "#") && !covered(rows, name) {
			t.Errorf("%s restricts, grants or is neutral: say which in claude-keys.txt", name)
		}
	}
	for name := range rows {
		if !slices.Contains(names, name) && !strings.HasSuffix(name, ".*") {
			t.Errorf("%s is no setting of that version", name)
		}
	}
}

// covered reports whether a name has a row, or a part of it that is more than an object.
func covered(rows map[string][]string, name string) bool {
	if rows[name] != nil {
		return true
	}
	for i, r := range name {
		if above := rows[name[:i]]; r == '.' && above != nil && above[0] != "object" {
			return true
		}
	}
	return false
}
