package ignore

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMatch(t *testing.T) {
	tree := New(fstest.MapFS{
		".git/info/exclude": {Data: []byte("local.txt\n*.log\n")},
		".gitignore":        {Data: []byte("\xef\xbb\xbfbuild/\r\n# a comment\n!keep.log\n/top\nkept by fd\n")},
		".ignore":           {Data: []byte("!kept by fd\nby-ignore\n")},
		".fdignore":         {Data: []byte("kept by fd\n!by-ignore\n")},
		"sub/.gitignore":    {Data: []byte("!local.txt\nbuild2/*\n!build2/x\n")},
	})
	for _, c := range []struct {
		path  string
		isDir bool
		want  bool
	}{
		{"local.txt", false, true},
		{"sub/local.txt", false, false}, // a deeper file wins
		{"a.log", false, true},
		{"keep.log", false, false}, // .gitignore beats info/exclude
		{"build", true, true},
		{"build", false, false}, // build/ is for directories
		{"deep/er/build/x", false, true},
		{"top", false, true},
		{"sub/top", false, false},
		{"kept by fd", false, true}, // .fdignore beats .ignore
		{"by-ignore", false, false},
		{"sub/build2/x", false, false},
		{"sub/build2/y", false, true},
		{".", true, false},
		{"../a.log", false, false}, // outside this tree
	} {
		if got := tree.Match(c.path, c.isDir); got != c.want {
			t.Errorf("Match(%q, %v) = %v", c.path, c.isDir, got)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		patterns string
		path     string
		want     bool
	}{
		{"*.md", "a/b.md", true},
		{"src/*.js", "src/a.js", true},
		{"src/*.js", "x/src/a.js", false},
		{"docs/", "docs/x/y.md", true},
		{"docs/;!docs/gen", "docs/gen/y.md", false},
		{"*.{ts,tsx}", "a/b.tsx", true},
		{"*.{ts,tsx}", "a/b.js", false},
		{"{a,b{c,d}}/*", "bd/x", true},
		{"{a", "{a", true}, // not closed: taken literally
		{"", "a", false},
	} {
		if got := Compile(strings.Split(c.patterns, ";")...).Covers(c.path); got != c.want {
			t.Errorf("%q covers %q: %v", c.patterns, c.path, got)
		}
	}
}

// TestBounds feeds patterns that are exponential for a naive matcher.
func TestBounds(t *testing.T) {
	name := strings.Repeat("a", 4000)
	if Compile(strings.Repeat("a*", 2000)+"b").Covers(name) ||
		Compile(strings.Repeat("**/a/", 200)+"b").Covers(strings.Repeat("a/", 2000)+"c") {
		t.Error("matched")
	}
	if n := len(Compile(strings.Repeat("{a,b}", 40))); n > maxAlternatives {
		t.Errorf("%d alternatives", n)
	}
}

// TestGit compares Match with git over random trees and ignore files.
func TestGit(t *testing.T) {
	git := lookGit(t)
	rng := rand.New(rand.NewPCG(1, 2)) // FuzzGit finds new cases
	for i := range 40 {
		ignores := map[string]string{}
		for _, dir := range []string{"", "a", "a/b", ".git/info"}[:1+rng.IntN(4)] {
			var b strings.Builder
			for range rng.IntN(6) {
				b.WriteString(randomPattern(rng) + "\n")
			}
			name := ".gitignore"
			if dir == ".git/info" {
				name = "exclude"
			}
			ignores[filepath.Join(dir, name)] = b.String()
		}
		var paths []string
		for range 40 {
			paths = append(paths, randomPath(rng))
		}
		if diff := compareWithGit(t, git, ignores, paths); diff != "" {
			t.Fatalf("case %d: %s", i, diff)
		}
	}
}

func FuzzGit(f *testing.F) {
	git := lookGit(f)
	f.Add("*.log\n!keep.log\nbuild/\n", "a/build/keep.log")
	f.Add("/a/**/b\n[!a-c]?\\*\n[[:digit:]]*\n", "a/x/y/b")
	f.Add("**\n!*/\n!/a/*.b\n", "a/a.b")
	f.Add("a\\ \\ \nb[\n\\!x\n\\#y\n[]-]z\n", "a  ")
	f.Add("0", ":0") // a name, not a pathspec with magic
	f.Add("foo//\n/**\na/***/b\na/**b\n", "a/b/b")
	f.Fuzz(func(t *testing.T, rules, path string) {
		if !fs.ValidPath(path) || path == "." || len(path) > 100 || len(rules) > 1000 || strings.Contains(path, "\\") {
			t.Skip()
		}
		for name := range strings.SplitSeq(path, "/") {
			if strings.HasPrefix(strings.ToLower(name), ".git") || strings.ContainsAny(name, "\x00\n\"") || !isASCII(name) {
				t.Skip() // git treats them specially, or quotes them
			}
		}
		if strings.Contains(rules, "\x00") { // for git the pattern ends here
			t.Skip()
		}
		if diff := compareWithGit(t, git, map[string]string{".gitignore": rules}, []string{path}); diff != "" {
			t.Fatal(diff)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

func lookGit(t testing.TB) string {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed, so the matcher cannot be compared with it")
	}
	return git
}

// compareWithGit makes a repository of the files, and reports where git and Match differ.
func compareWithGit(t *testing.T, git string, ignores map[string]string, paths []string) string {
	dir := t.TempDir()
	write := func(name, text string) bool {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if os.MkdirAll(filepath.Dir(name), 0o777) != nil {
			return false // a file is in the way
		}
		return os.WriteFile(name, []byte(text), 0o666) == nil
	}
	// The minimum that git accepts as a repository: faster than git init.
	write(".git/HEAD", "ref: refs/heads/main\n")
	write(".git/objects/x", "")
	write(".git/refs/x", "")
	for name, text := range ignores {
		write(name, text)
	}
	for _, p := range paths {
		write(p, "")
	}
	var all []string
	isDir := map[string]bool{}
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		if rel == ".git" {
			return fs.SkipDir
		}
		if rel != "." {
			all = append(all, filepath.ToSlash(rel))
			isDir[filepath.ToSlash(rel)] = d.IsDir()
		}
		return err
	})
	cmd := exec.Command(git, "-c", "core.ignorecase=false", "-c", "core.excludesFile=", "-c", "core.quotePath=false",
		"check-ignore", "--no-index", "-z", "--stdin")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir, "GIT_CEILING_DIRECTORIES=")
	cmd.Stdin = strings.NewReader("./" + strings.Join(all, "\x00./")) // ./ keeps a leading : from being special
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("git check-ignore: %v\n%s", err, stderr.String())
	}
	ignored := strings.Split(string(out), "\x00")

	tree := New(os.DirFS(dir))
	for _, p := range all {
		if want, got := slices.Contains(ignored, "./"+p), tree.Match(p, isDir[p]); got != want {
			return fmt.Sprintf("Match(%q, dir=%v) = %v, git: %v\n%q", p, isDir[p], got, want, ignores)
		}
	}
	return ""
}

func randomPath(rng *rand.Rand) string {
	names := []string{"a", "b", "c", "ab", "a.b", "abc", "a-b", "x y", "[a]", "!a", "#a", "a*", "A"}
	var parts []string
	for range 1 + rng.IntN(4) {
		parts = append(parts, names[rng.IntN(len(names))])
	}
	return strings.Join(parts, "/")
}

func randomPattern(rng *rand.Rand) string {
	bits := []string{"a", "b", "c", "ab", "a.b", "*", "**", "***", "?", "/", "/", "/", "**/", "/**", "/**/", "[ab]",
		"[!a]", "[^b]", "[a-c]",
		"[]a]", "[[:alpha:]]", "[a", "\\", "\\*", "\\a", "!", "#", " ", "x y", "-", ".", "[a-", "[/a]", "\\ ", "[\\]a]",
		"[[:x:]]", "[[a:]"}
	var b strings.Builder
	if rng.IntN(4) == 0 {
		b.WriteString("!")
	}
	for range 1 + rng.IntN(5) {
		b.WriteString(bits[rng.IntN(len(bits))])
	}
	return b.String()
}

func BenchmarkMatch(b *testing.B) {
	rules := Parse([]byte("node_modules/\n*.log\n/dist\n**/gen/*.go\n[Bb]in/\n*.tmp\n.DS_Store\n"))
	for b.Loop() {
		rules.last("a/b/c/some/longer/path/file.go", false)
	}
}

// TestExplain: the line that Explain returns is the one that decides in Match.
func TestExplain(t *testing.T) {
	fsys := fstest.MapFS{
		".gitignore":         {Data: []byte("# built\ndist/\n*.log\r\n!keep.log\n")},
		".git/info/exclude":  {Data: []byte("private\n")},
		"a/.ignore":          {Data: []byte("/x\n")},
		"a/.fdignore":        {Data: []byte("x\n")},
		"a/b/.gitignore":     {Data: []byte("!x\n")},
		"dist/a/b/SKILL.md":  {},
		"other/private/x.md": {},
	}
	tree := New(fsys)
	for path, want := range map[string]string{
		"dist/a/b/SKILL.md": ".gitignore:2: dist/", "c/debug.log": ".gitignore:3: *.log", "keep.log": "",
		"a/x": "a/.fdignore:1: x", "a/b/x": "", "other/private/x.md": ".git/info/exclude:1: private", "b": "",
	} {
		if got := tree.Explain(path, false); got != want || (got != "") != tree.Match(path, false) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
