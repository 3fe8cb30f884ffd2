package permission

import (
	"strings"
	"testing"
)

// TestAfter: what stands after the bracket that closes a pattern is said, and not taken for a part of the pattern.
func TestAfter(t *testing.T) {
	for text, rest := range map[string]string{
		"Bash(ls:*)(x)":              `"(x)"`,
		"Bash(ls:*) Bash(cat:*)":     `"Bash(cat:*)"`,
		"Read(./a) (b)":              `"(b)"`,
		"Bash(echo (a) (b))":         "",
		"Bash((cd a; ls))":           "",
		"Read(a)b.txt)":              "",
		"Read((a)":                   "",
		`Bash(echo ")(")`:            "",
		`Bash(find . \( -name x \))`: "",
		"Bash(case x in a) ls)":      "",
	} {
		_, err := ParseRule(text, User)
		if rest == "" && err != nil || rest != "" && (err == nil ||
			!strings.Contains(err.Error(), rest+" stands after the bracket")) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
