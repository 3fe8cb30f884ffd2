package subpath

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestContains(t *testing.T) {
	for _, c := range []struct {
		dir, path, rel string // rel is "" if path is not contained
	}{
		{"/a", "/a", "."},
		{"/a", "/a/", "."},
		{"/a/", "/a", "."},
		{"/a", "/a/b", "b"},
		{"/a", "/a//b", "b"},
		{"/a/", "/a/b/c", "b/c"},
		{"/a", "/ab", ""},
		{"/a", "/", ""},
		{"/a", "/a/../b", ""},
		{"/a", "/a/b/../../a/c", "c"},
		{"/a", "/a/..b", "..b"},
		{"/a", "/a/..", ""},
		{"/a/../b", "/b/c", "c"},
		{"/a/../b", "/a/../b/c", "c"},
		{"/a/..", "/a/../c", "c"},
		{"/a/..", "/a/../../c", "c"}, // the parent of / is /
		{"/", "/a", "a"},
		{"/", "/", "."},
		{"/", "/../a", "a"},
		{"", "/a", ""},
		{"", "a", ""},
		{"/a", "", ""},
		{"a", "a/b", "b"},
		{"a", "/a/b", ""},
		{"/a", "a/b", ""},
		{".", "a", "a"},
		{".", "../a", ""},
		{"..", "../a", "a"},
		{"..", "../../a", ""},
		{"..", "a", ""},
		{"/a", "/A/b", ""},
	} {
		dir, path, want := filepath.FromSlash(c.dir), filepath.FromSlash(c.path), filepath.FromSlash(c.rel)
		if filepath.Separator != '/' && (strings.HasPrefix(c.dir, "/a") || c.dir == "..") {
			continue // names ignore case, and a volume's root has other rules
		}
		got, ok := Rel(dir, path)
		if ok != (want != "") || ok && filepath.Clean(got) != want {
			t.Errorf("Rel(%q, %q) = %q, %t, want %q", dir, path, got, ok, want)
		}
	}
}

// FuzzContains compares the fast implementation with filepath.Rel, and with the result of joining the two parts.
func FuzzContains(f *testing.F) {
	for _, s := range [][2]string{{"/a", "/a/b"}, {"/a/", "/a"}, {"/a", "/a/../b"}, {"/", "/x"}, {".", "../x"},
		{"/a//b", "/a/b/c"}, {"/a", "/a/./b"}, {"..", ".."}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, dir, path string) {
		rel, ok := Rel(dir, path)
		if Contains(dir, path) != ok {
			t.Fatalf("Contains and Rel differ on %q, %q", dir, path)
		}
		want, err := filepath.Rel(dir, path)
		if wantOK := dir != "" && err == nil && filepath.IsLocal(want); ok != wantOK {
			t.Fatalf("Rel(%q, %q) = %q, %t; filepath.Rel: %q, %v", dir, path, rel, ok, want, err)
		}
		if !ok {
			return
		}
		if !filepath.IsLocal(rel) {
			t.Fatalf("Rel(%q, %q) = %q leaves the directory", dir, path, rel)
		}
		if got := filepath.Join(dir, rel); got != filepath.Clean(path) {
			t.Fatalf("Rel(%q, %q) = %q, which joins to %q", dir, path, rel, got)
		}
	})
}

func BenchmarkContains(b *testing.B) {
	for b.Loop() {
		Contains("/home/user/project", "/home/user/project/internal/leaf/subpath/subpath.go")
	}
}

// TestHome: ~ is the home directory, alone and before a separator only.
func TestHome(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	for path, want := range map[string]string{"~": home, "~/x": filepath.Join(home, "x"), "~user/x": "~user/x", "x/~": "x/~",
		"": ""} {
		got := Expand(path, home)
		if got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
		if got != path && Short(got, home) != path {
			t.Errorf("%q is written %q, want %q", got, Short(got, home), path)
		}
		if got := Expand(path, ""); got != path {
			t.Errorf("%q without a home directory is %q", path, got)
		}
	}
	if got := Short(home+"2", home); got != home+"2" {
		t.Errorf("a sibling is written %q", got)
	}
}
