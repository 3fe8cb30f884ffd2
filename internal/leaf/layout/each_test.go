package layout

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEachFile: what cannot be read is visited too, with the reason, so that it counts as another content than the one
// that was approved.
func TestEachFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "1", "sub/b": "22", ".hidden": "1", "large": "333333"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	err := EachFile(dir, 4, func(path string, data []byte, err error) error {
		rel, _ := filepath.Rel(dir, path)
		got[filepath.ToSlash(rel)] = string(data)
		if (err != nil) != (rel == "large") {
			t.Errorf("%s: %v", rel, err)
		}
		return nil
	})
	if err != nil || len(got) != 3 || got["a"] != "1" || got["sub/b"] != "22" || got["large"] != "" {
		t.Errorf("%q, %v", got, err)
	}
	if err := EachFile(filepath.Join(dir, "none"), 4, nil); err != nil {
		t.Errorf("a folder that does not exist: %v", err)
	}
}
