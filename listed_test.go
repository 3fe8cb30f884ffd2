package knack

import (
	"strings"
	"testing"
)

// TestHeadAllocates bounds what parsing a head for a list allocates: the skill, its texts and rules, and one string for
// the frontmatter; the race detector adds some. A head that needs the YAML library takes some hundred.
func TestHeadAllocates(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		most float64
	}{
		"plain": {"description: Says what it does.\nlicense: MIT\nallowed-tools: Read, Bash(git status:*)\n", 16},
		"nested, commented": {"# A comment.\n\ndescription: >\n  Says what\n  it does.\nmetadata:\n  tags: # ours\n" +
			"    - one\n    - name: two\n      since: 2026-01-02\n  tool: {\"bins\": [\"node\"]}\n", 10},
		"a colon in the text":         {"description: Broken: says what it does.\nversion: 1.0.0\n", 45},
		"text after the block marker": {"description: | Says what it does.\nversion: 1.0.0\n", 45},
	} {
		head := []byte("---\nname: x\n" + c.head + "---\n\n" + strings.Repeat("A line of text.\n", 20))
		var h headReader
		n := testing.AllocsPerRun(20, func() {
			s, _ := h.parse("/home/me/.claude/skills/x/SKILL.md", head, int64(len(head)), Origin{Kind: User})
			if s == nil || !strings.Contains(strings.ToLower(s.Description), "says what") {
				t.Fatalf("%s: %+v", name, s)
			}
		})
		if n > c.most {
			t.Errorf("%s: %v allocations, at most %v", name, n, c.most)
		}
	}
}
