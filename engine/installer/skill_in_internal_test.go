package installer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSkillIn: a skill of a directory is named by its directory or its last name, and a name that none has is an error
// that names one.
func TestSkillIn(t *testing.T) {
	dir := t.TempDir()
	for _, at := range []string{"skills/pdf", ".claude/skills/tidy", "node_modules/x", "a/b"} {
		path := filepath.Join(dir, filepath.FromSlash(at))
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "SKILL.md"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := skillDirs(os.DirFS(dir)); !slices.Equal(got, []string{".claude/skills/tidy", "a/b", "skills/pdf"}) {
		t.Errorf("found %q", got)
	}
	for name, want := range map[string]string{"pdf": "skills/pdf", "skills/pdf": "skills/pdf", "tidy": ".claude/skills/tidy",
		"a": "a", "nosuch": "", "../x": "", "/etc": ""} {
		got, err := skillIn(dir, name)
		if want != "" && got != filepath.Join(dir, filepath.FromSlash(want)) || (want == "") != (err != nil) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
