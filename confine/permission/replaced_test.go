package permission_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestReplacedDirectory: a link in the place of a directory of the workspace, in another directory of it, makes nothing
// a part of the workspace: a command may have made it. Found by attack: write followed it in acceptEdits.
func TestReplacedDirectory(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outer, home := filepath.Join(top, "outer"), filepath.Join(top, "home")
	for _, dir := range []string{home, outer} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(outer, "inner")
	if err := os.Symlink(home, link); err != nil {
		t.Skip("no symbolic links:", err)
	}
	for name, p := range map[string]permission.PathContext{
		"working directory":    {Dir: link, Roots: []string{outer}},
		"additional directory": {Dir: outer, Roots: []string{link}},
	} {
		for _, path := range []string{filepath.Join(home, "x"), filepath.Join(link, "x")} {
			d := permission.Rules{}.Decide(t.Context(), permission.AcceptEdits, p,
				permission.Subject{Kind: permission.KindEdit, Text: path})
			if d.Verdict != permission.Ask {
				t.Errorf("%s: %s: %v", name, path, d.Verdict)
			}
		}
	}
	// One that lies elsewhere may be a link.
	p := permission.PathContext{Dir: link}
	if d := (permission.Rules{}).Decide(t.Context(), permission.AcceptEdits, p,
		permission.Subject{Kind: permission.KindEdit, Text: filepath.Join(home, "x")}); d.Verdict != permission.Allow {
		t.Errorf("a link as the working directory: %v", d.Verdict)
	}
}
