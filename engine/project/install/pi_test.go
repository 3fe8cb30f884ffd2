package install

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFindPi: the packages in Pi's settings are found where Pi keeps them, and one that is elsewhere says what adds it.
func TestFindPi(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".pi", "agent")
	for _, at := range []string{"npm/node_modules/@acme/tools", "git/github.com/user/repo", "git/example.com/x/y", "mine"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(at)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(`{"packages": ["npm:@acme/tools@1.2.3",
		{"source": "git:github.com/user/repo@v1", "skills": []}, "git:git@example.com:x/y", "./mine", "npm:gone",
		"https://example.com/a/b.git@main", "npm:../../out", "git:../../../x", 3, {"skills": []}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := FindOthers(filepath.Join(home, ".claude"), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"acme-tools@pi": {"npm/node_modules/@acme/tools", "npm:@acme/tools@1.2.3"},
		"repo@pi":       {"git/github.com/user/repo", "https://github.com/user/repo#v1"},
		"y@pi":          {"git/example.com/x/y", "git@example.com:x/y"},
		"mine@pi":       {"mine", filepath.Join(dir, "mine")},
		"gone@pi":       {"", "npm:gone"},
		"b@pi":          {"", "https://example.com/a/b.git#main"},
	}
	for id, f := range all {
		at := f.Dir
		if rel, err := filepath.Rel(dir, f.Dir); err == nil && f.Dir != "" {
			at = filepath.ToSlash(rel)
		}
		if got := [2]string{at, f.Add}; got != want[id] {
			t.Errorf("%s: %q, want %q", id, got, want[id])
		}
		if (f.Entry != nil) != (id == "repo@pi") {
			t.Errorf("%s: entry %s", id, f.Entry)
		}
	}
	if len(all) != len(want) {
		t.Errorf("found %d, want %d", len(all), len(want))
	}
}
