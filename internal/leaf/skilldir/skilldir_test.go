package skilldir

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestWalk(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, name := range []string{
		"SKILL.md", "scripts/run.sh", ".git/config", "pdf/SKILL.md", "pdf/scripts/x.sh", "more/docx/Skill.md",
		"more/docx/y.sh", "more/notes.md", "vendor/.git",
	} {
		fsys[name] = &fstest.MapFile{}
	}
	for root, want := range map[bool]string{
		true: "SKILL.md more/notes.md scripts/run.sh",
		false: ".git/config SKILL.md more/docx/Skill.md more/docx/y.sh more/notes.md pdf/SKILL.md pdf/scripts/x.sh " +
			"scripts/run.sh vendor/.git",
	} {
		var got []string
		err := Walk(fsys, root, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				got = append(got, name)
			}
			return err
		})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("root %t: %q, %v, want %s", root, got, err, want)
		}
	}
}
