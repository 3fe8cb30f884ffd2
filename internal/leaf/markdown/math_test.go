package markdown

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/styled"
)

// TestMath: formulas stay as they are written, and dollars that are none change nothing else.
func TestMath(t *testing.T) {
	for src, want := range map[string]string{
		`Inline $a_1 * b_2 * \{x\}$ and *so* on`:           `Inline $a_1 * b_2 * \{x\}$ and so on`,
		`$$\int_0^1 x\,dx$$, \(\alpha\!\beta_1\) \[a\;b\]`: `$$\int_0^1 x\,dx$$, \(\alpha\!\beta_1\) \[a\;b\]`,
		"$$\na_1 \\\\\nb\\,c\n$$":                          "$$\na_1 \\\\\nb\\,c\n$$",
		"\\[\nx\\!y\n\\]":                                  "\\[\nx\\!y\n\\]",
		`*$5* or *$10*, \*not\* $ x $`:                     `$5 or $10, *not* $ x $`,
		`costs $5-$10 \(about`:                             `costs $5-$10 (about`,
		"`$a` and **$b**":                                  `$a and $b`,
		"$x `a$`":                                          `$x a$`,
		"before $x\\,y$\nafter *it*":                       `before $x\,y$ after it`,
	} {
		if got := strings.TrimSuffix(lines(Render(src, 80)), "\n"); got != want {
			t.Errorf("%q\n%q, want\n%q", src, got, want)
		}
	}
}

// TestHeadings: each level looks different, also without colours.
func TestHeadings(t *testing.T) {
	seen := map[string]int{}
	for level := 1; level <= 6; level++ {
		theme := styled.NoColor()
		row := string(theme.Append(nil, Render(strings.Repeat("#", level)+" Title", 80)[0]))
		if other, ok := seen[row]; ok {
			t.Errorf("level %d looks as %d: %q", level, other, row)
		}
		seen[row] = level
	}
}
