package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMakeCaches: if the home directory is in the working directory, a tool's cache may have a protected name.
// Creating it would be attributed to the command.
func TestMakeCaches(t *testing.T) {
	dir := t.TempDir()
	p := Policy{Dir: filepath.Join(dir, "w"), Protected: []string{".cargo"}, Caches: []Cache{
		{Path: filepath.Join(dir, "w/home/.cargo/registry")}, {Path: filepath.Join(dir, "w/home/go/pkg")},
		{Path: filepath.Join(dir, "other/.cargo/registry")},
	}}
	p.makeCaches()
	for i, want := range []bool{false, true, true} {
		if _, err := os.Stat(p.Caches[i].Path); (err == nil) != want {
			t.Errorf("%s: created is %t, want %t", p.Caches[i].Path, err == nil, want)
		}
	}
}
