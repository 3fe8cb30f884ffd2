package engine_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
)

// TestPluginArchive: --plugin-dir takes a .zip of either layout; one whose files lead out of it is an error.
func TestPluginArchive(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	archive := func(name, file string) string {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		z := zip.NewWriter(out)
		w, err := z.Create(file)
		if err == nil {
			_, err = w.Write([]byte("---\ndescription: Tidies.\n---\nTidy.\n"))
		}
		if err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]bool{
		archive("root.zip", "skills/tidy/SKILL.md"):        true,
		archive("two/root.ZIP", "x/skills/tidy/SKILL.md"):  true,
		archive("slip.zip", "../skills/tidy/SKILL.md"):     false,
		archive("none.zip", "README.md"):                   false,
		archive("absolute.zip", "/skills/tidy/SKILL.md"):   false,
		archive("text.zip", "skills/tidy/SKILL.md") + ".x": false,
	} {
		for range 2 { // the second time it is unpacked already
			p, err := engine.Load(t.Context(), engine.Options{Dir: home, Env: env, Plugins: []string{path}})
			if (err == nil) != want {
				t.Errorf("%s: %v", path, err)
			}
			if err != nil {
				continue
			}
			if k := knack.Load(t.Context(), p.Sources()...).Skill("root:tidy"); k == nil {
				t.Errorf("%s: no root:tidy", path)
			}
			p.Close()
		}
	}
}
