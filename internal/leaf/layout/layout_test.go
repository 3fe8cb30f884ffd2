package layout

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRows: a row's path is local, and nothing that can run or grant is read without trust. Of two rows with one path,
// one is for files with a suffix.
func TestRows(t *testing.T) {
	seen := map[[2]string]bool{}
	for _, r := range Rows() {
		files := [2]string{r.Path, r.Suffix}
		if seen[files] || !filepath.IsLocal(filepath.FromSlash(r.Path)) {
			t.Errorf("%s: listed twice, or not below the project", r.Path)
		}
		seen[files] = true
		if r.Trust != (r.Kind != Context && r.Kind != Rule) {
			t.Errorf("%s: trust %t", r.Path, r.Trust)
		}
		if r.Trust && r.Path != ".mcp.json" && !InFolder(r.Path) {
			t.Errorf("%s is not in any of %v", r.Path, Folders())
		}
		if r.Depth == 0 && r.Suffix != "" {
			t.Errorf("%s: a file has no suffix", r.Path)
		}
	}
	if got := Rows(Template); len(got) != 2 || got[0].Path != ".knack/prompts" {
		t.Errorf("%+v", got)
	}
}

func TestDirs(t *testing.T) {
	for _, c := range [][3]string{
		{"/r", "/r", "/r"},
		{"/r/a/b", "/r", "/r/a/b /r/a /r"},
		{"/r/a/b", "/r/", "/r/a/b /r/a /r"},
		{"/r", "/r/a", "/r"},
		{"/other", "/r", "/other"},
		{"/a", "/", "/a /"},
	} {
		var got []string
		for _, d := range Dirs(filepath.FromSlash(c[0]), filepath.FromSlash(c[1])) {
			got = append(got, filepath.ToSlash(d))
		}
		if !slices.Equal(got, strings.Fields(c[2])) {
			t.Errorf("Dirs(%s, %s) = %q, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestInFolder(t *testing.T) {
	for path, want := range map[string]bool{
		".claude/hooks/x.sh": true, "sub/.Claude/x": true, ".KNACK": true, "claude/x": false, "x/.claudes/y": false,
		"": false,
	} {
		if got := InFolder(path); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
}

func TestFiles(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, name := range []string{"a.md", "B.MD", "c.txt", ".d.md", "s/e.md", "s/.t/f.md", "s/2/3/4/5/g.md",
		"s/2/3/4/5/6/h.md"} {
		fsys["x/"+name] = &fstest.MapFile{}
	}
	for _, c := range []struct {
		dir, want string
		row       Row
	}{
		{"x", "B.MD a.md s/2/3/4/5/g.md s/e.md", Row{Depth: Depth, Suffix: ".md"}},
		{"x", "B.MD a.md c.txt", Row{Depth: 1}},
		{"none", "", Row{Depth: 1}},
		{"x/a.md", "", Row{Depth: 1}},
	} {
		got, err := Files(fsys, c.dir, c.row)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("Files(%s, %+v) = %q, %v, want %q", c.dir, c.row, got, err, c.want)
		}
	}
	for i := range MaxEntries + 1 {
		fsys["many/"+strings.Repeat("x", i%50)+strings.Repeat("y", i/50)+"z"] = &fstest.MapFile{}
	}
	if got, err := Files(fsys, "many", Row{Depth: 1}); err == nil || len(got) != MaxEntries {
		t.Errorf("%d files, %v", len(got), err)
	}
}
