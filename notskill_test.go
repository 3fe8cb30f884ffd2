package knack

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestNotASkill: a file that somebody meant for a skill is named with what to do; notes and packs of skills are not.
func TestNotASkill(t *testing.T) {
	const skill, notes = "---\nname: a\ndescription: D.\n---\nText.\n", "Notes.\n"
	for path, want := range map[string]string{
		"SKILL.md":                      "",
		"a/SKILL.md":                    "",
		"a/skill.MD":                    "",
		"loose.md":                      "move it to loose/SKILL.md",
		"loose.mdc":                     "move it to loose/SKILL.md",
		"loose.txt":                     "move it to loose/SKILL.md",
		"a.skill":                       "knack skill add a.skill",
		"a/SKILLS.md":                   "rename it to SKILL.md",
		"a/SKILL.txt":                   "rename it to SKILL.md",
		"a/skill.md.txt":                "rename it to SKILL.md",
		"a/skill":                       "rename it to SKILL.md",
		"a/A.md":                        "rename it to SKILL.md",
		"a/other.md":                    "",
		"loose.json":                    "",
		"README.md":                     "",
		"pack/agents/x.md":              "",
		"a/b/a.md":                      "",
		"pack/a/SKILLS.md":              "",
		"x\u202e.md":                    `move it to x\u202e/SKILL.md`,
		"a/.SKILL.md":                   "",
		"node_modules/node_modules.md":  "",
		"a/references/SKILL-OLD.md":     "",
		"a/SKILL.md/not-a-file/SKILL.x": "",
	} {
		for _, text := range []string{skill, notes} {
			fsys := fstest.MapFS{path: {Data: []byte(text)}, "other/SKILL.md": {Data: []byte(skill)}}
			var got []string
			for _, p := range Load(t.Context(), FS(fsys, Origin{Kind: User, Trust: Trusted})).Problems() {
				if p.Code == CodeNotASkill {
					got = append(got, p.Hint)
				}
			}
			want := want
			if text == notes && !strings.HasPrefix(want, "knack") {
				want = ""
			}
			if all := strings.Join(got, "\n"); all != want {
				t.Errorf("%s with %.5q: %q, want %q", path, text, all, want)
			}
		}
	}
}
