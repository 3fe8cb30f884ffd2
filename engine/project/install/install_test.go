package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/engine/plugin"
)

// write writes files below dir. A name that ends in "*" is executable, and "a -> b" is a link.
func write(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		link, target, isLink := strings.Cut(name, " -> ")
		path := filepath.Join(dir, filepath.FromSlash(strings.TrimSuffix(link, "*")))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if isLink {
			err = os.Symlink(target, path)
		} else {
			mode := fs.FileMode(0o600)
			if strings.HasSuffix(name, "*") {
				mode = 0o700
			}
			err = os.WriteFile(path, []byte(files[name]), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const skill = "---\nname: a\ndescription: D.\n---\nText.\n"

func demo(t testing.TB) string {
	return write(t, t.TempDir(), map[string]string{".claude-plugin/plugin.json": `{"name":"demo","version":"1"}`,
		"skills/a/SKILL.md": skill, "hooks/hooks.json": `{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}`,
		"x.sh*": "x"})
}

func store(t testing.TB) *Store {
	dir := t.TempDir()
	return User(filepath.Join(dir, "data"), filepath.Join(dir, "config"))
}

func local(dir string) Given {
	return Given{Source: plugin.Source{Kind: plugin.Path, Path: dir}, Typed: true}
}

func add(t testing.TB, s *Store, g Given, id string) *Item {
	t.Helper()
	st, err := s.Stage(context.Background(), g, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := s.Install(st, id); err != nil {
		t.Fatal(err)
	}
	l, err := ReadLock(s.Lock)
	if err != nil {
		t.Fatal(err)
	}
	return l.Plugins[id]
}

// leftovers returns what is in the staging directory.
func leftovers(t testing.TB, s *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(s.staging())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestInstall: an installed tree has the same files, and each difference from the lock is found.
func TestInstall(t *testing.T) {
	s := store(t)
	it := add(t, s, local(demo(t)), "demo@m")
	dir := s.Path(it)
	check := func(what, want string) {
		t.Helper()
		d, err := it.Files.Verify(dir)
		if err != nil || d.String() != want {
			t.Errorf("%s: %s, %v", what, d, err)
		}
	}
	check("unchanged", "")
	if len(leftovers(t, s)) > 0 {
		t.Error(leftovers(t, s))
	}
	if info, err := os.Stat(filepath.Join(dir, "x.sh")); err != nil || runtime.GOOS != "windows" &&
		info.Mode()&0o100 == 0 {
		t.Error(info, err)
	}
	write(t, dir, map[string]string{"x.sh": "y", "new": ""})
	os.Remove(filepath.Join(dir, "skills/a/SKILL.md"))
	check("changed", "changed: x.sh; added: new; missing: skills/a/SKILL.md")
	d, err := s.Diff(it, "")
	if err != nil || !strings.Contains(d.Text, "-x\n") || !strings.Contains(d.Text, "+y\n") || !strings.Contains(d.Text,
		"new: nothing →") || !strings.Contains(d.Text, "-description: D.") {
		t.Errorf("%s %v", d.Text, err)
	}
	if err := s.Accept("demo@m", "sha256:0"); err == nil {
		t.Error("something else than was shown was accepted")
	}
	if err := s.Accept("demo@m", d.Tree); err != nil {
		t.Fatal(err)
	}
	it = add(t, s, local(demo(t)), "demo@m") // an installation of the same files repairs them
	check("installed again", "")
	if err := s.Remove("demo@m"); err != nil {
		t.Fatal(err)
	}
	if all, _ := filepath.Glob(s.Dir + "/plugins/m/*"); len(all) > 0 {
		t.Error(all)
	}
}

// TestReader: what is read through it is what was installed; everything else is noted.
func TestReader(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string)
		want   string
	}{
		"unchanged": {func(string) {}, ""},
		"hooks": {func(d string) { write(t, d, map[string]string{"hooks/hooks.json": "{}"}) },
			"changed: hooks/hooks.json"},
		"server": {func(d string) { write(t, d, map[string]string{".mcp.json": "{}"}) }, "added: .mcp.json"},
		"manifest": {func(d string) { os.Remove(filepath.Join(d, ".claude-plugin/plugin.json")) },
			"missing: .claude-plugin/plugin.json"},
		"skill":  {func(d string) { os.RemoveAll(filepath.Join(d, "skills/a")) }, "missing: skills/a/SKILL.md"},
		"agents": {func(d string) { write(t, d, map[string]string{"agents/x.md": "x"}) }, "added: agents"},
		"link": {func(d string) {
			os.Remove(filepath.Join(d, "hooks/hooks.json"))
			write(t, d, map[string]string{"hooks/hooks.json -> ../x.sh": ""})
		}, "changed: hooks/hooks.json"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			it := add(t, s, local(demo(t)), "demo@m")
			dir := s.Path(it)
			c.change(dir)
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			r := it.NewReader(root, dir)
			p := plugin.Read(r, plugin.Options{Name: "demo"})
			if got := r.Drift().String(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if name == "unchanged" && (len(p.Problems) > 0 || len(p.Hooks) != 1) {
				t.Errorf("%+v", p)
			}
			path := filepath.Join(dir, "skills", "a", "SKILL.md")
			if err := r.Check(path, []byte(skill), false); err != nil {
				if name != "skill" {
					t.Error(err)
				}
			}
			if r.Check(path, []byte(skill+"x"), false) == nil || r.Check(path+"x", []byte(skill), false) == nil ||
				r.Check(filepath.Join(dir, "..", "x"), []byte(skill), false) == nil || r.Check(path, []byte("x"), true) == nil {
				t.Error("other content or another file was accepted")
			}
		})
	}
}

// TestReaderSwapped: a skill's file that became a link to another locked file is not that skill.
func TestReaderSwapped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights")
	}
	s := store(t)
	it := add(t, s, local(demo(t)), "demo@m")
	dir := s.Path(it)
	at := filepath.Join(dir, "skills", "a", "SKILL.md")
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"skills/a/SKILL.md -> ../../hooks/hooks.json": ""})
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	data, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	if it.NewReader(root, dir).Check(at, data, false) == nil {
		t.Error("the content of another file was accepted")
	}
}

// TestHostileTrees: what is not a plain tree is refused or left out, and nothing is installed.
func TestHostileTrees(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names and links of Unix")
	}
	outside := write(t, t.TempDir(), map[string]string{"secret": "s"})
	for name, c := range map[string]struct {
		files   map[string]string
		err     string
		skipped string
	}{
		"case":      {map[string]string{"a/x": "", "A/y": ""}, "one file on some systems", ""},
		"backslash": {map[string]string{`a\b`: ""}, "path", ""},
		"device":    {map[string]string{"nul.txt": ""}, "path", ""},
		"links out": {map[string]string{"x -> " + outside + "/secret": "", "y -> ../..": "", "z -> nowhere/..": "",
			"self -> .": "", "skills/a/SKILL.md": skill}, "", "self x y z"},
		"links in": {map[string]string{"real/SKILL.md": skill, "skills/a -> ../real": ""}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			st, err := s.Stage(t.Context(), local(write(t, t.TempDir(), c.files)), "x", nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || len(leftovers(t, s)) > 0 {
					t.Errorf("%v, %v", err, leftovers(t, s))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			if got := strings.Join(st.Skipped, " "); got != c.skipped {
				t.Errorf("left out %q", got)
			}
			if d, err := st.Files.Verify(st.Dir); err != nil || !d.IsZero() {
				t.Error(d, err)
			}
		})
	}
}

// TestLimits: more files or bytes than are allowed are an error.
func TestLimits(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w := newWriter(root)
	w.size = MaxBytes - 3
	if err := w.file("a", strings.NewReader("123"), false); err != nil {
		t.Error(err)
	}
	if err := w.file("b", strings.NewReader("1"), false); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
	for i := range MaxFiles {
		w.files[fmt.Sprint("x", i)] = ""
	}
	if err := w.file("c", strings.NewReader(""), false); !errors.Is(err, errTooMany) {
		t.Error(err)
	}
}

// git runs git in a repository for the test.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@x.test", "-c",
		"protocol.file.allow=always", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TEMPLATE_DIR=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func fileURL(dir string) string { return "file://" + filepath.ToSlash(dir) }

// TestGit: a commit is fetched without running anything of the repository, and the commit that was asked for is what is
// installed.
func TestGit(t *testing.T) {
	repo := write(t, t.TempDir(), map[string]string{
		"p/.claude-plugin/plugin.json": `{"name":"demo"}`, "p/skills/a/SKILL.md": skill, "p/run.sh*": "x", "other": "y",
		"p/.gitattributes": "*.md filter=evil text eol=crlf\n", "p/l -> skills": "", "p/out -> ../../etc": ""})
	git(t, repo, "init", "-q", "-b", "main")
	git(t, repo, "config", "uploadpack.allowFilter", "true")
	git(t, repo, "config", "uploadpack.allowAnySHA1InWant", "true")
	git(t, repo, "add", ".")
	git(t, repo, "commit", "-qm", "one")
	git(t, repo, "tag", "v1")
	first := git(t, repo, "rev-parse", "HEAD")
	write(t, repo, map[string]string{"p/skills/a/SKILL.md": skill + "More.\n"})
	git(t, repo, "commit", "-qam", "two")
	second := git(t, repo, "rev-parse", "HEAD")
	g := func(ref, sha, path string) Given {
		return Given{Typed: true, Source: plugin.Source{Kind: plugin.Git, URL: fileURL(repo), Ref: ref, SHA: sha, Path: path}}
	}
	s := store(t)
	for _, c := range []struct {
		given  Given
		commit string
	}{{g("", "", "p"), second}, {g("v1", "", "p"), first}, {g("v1", second, "p"), second}, {g("", first, ""), first}} {
		st, err := s.Stage(t.Context(), c.given, "x", nil)
		if err != nil {
			t.Errorf("%+v: %v", c.given, err)
			continue
		}
		if st.Commit != c.commit {
			t.Errorf("%+v: %s", c.given, st.Commit)
		}
		if c.given.Path == "p" {
			data, err := os.ReadFile(filepath.Join(st.Dir, "skills/a/SKILL.md"))
			if err != nil || strings.Contains(string(data), "\r") || !strings.HasPrefix(string(data), skill) {
				t.Errorf("%q %v", data, err)
			}
			if _, ok := st.Files["other"]; ok || st.Files["l"] != "link skills" || st.Name != "demo" ||
				!strings.HasSuffix(st.Files["run.sh"], executable) || !slices.Equal(st.Skipped, []string{"out"}) {
				t.Errorf("%v, left out %v", st.Files, st.Skipped)
			}
		}
		st.Close()
	}
	// A tag that moved does not change what a lock installs; a commit that is gone is an error.
	git(t, repo, "tag", "-f", "v1", second)
	if st, err := s.Stage(t.Context(), g("v1", first, "p"), "x", nil); err != nil || st.Commit != first {
		t.Error(err)
	} else {
		st.Close()
	}
	for name, bad := range map[string]Given{
		"gone": g("main", strings.Repeat("0", 40), "p"), "no directory": g("", "", "q"), "no tag": g("v9", "", ""),
	} {
		if st, err := s.Stage(t.Context(), bad, "x", nil); err == nil {
			t.Errorf("%s: %+v", name, st.Item)
			st.Close()
		}
	}
	if len(leftovers(t, s)) > 0 {
		t.Error(leftovers(t, s))
	}
}

// TestGitOfOthers: a source that the user did not type can only be https on a public host. Found by attack: git
// resolves names itself, and connected to https://2130706433/x.git on this machine.
func TestGitOfOthers(t *testing.T) {
	s := store(t)
	for _, address := range []string{"file:///etc", "ext::sh -c true", "ssh://x.test/a", "git://x.test/a",
		"http://x.test/a",
		"https://127.0.0.1/a", "https://169.254.169.254/a", "https://localhost/a", "--upload-pack=x", "https://2130706433/a",
		"https://0x7f.1/a",
		"https://[::ffff:127.0.0.1]/a"} {
		st, err := s.Stage(t.Context(), Given{Source: plugin.Source{Kind: plugin.Git, URL: address}}, "x", nil)
		if err == nil {
			t.Errorf("%s: accepted", address)
			st.Close()
		} else if strings.Contains(err.Error(), "git fetch") {
			t.Errorf("%s: git was run: %v", address, err)
		}
	}
}

// TestUpdate: a failed update keeps the old version, and the last one can be undone.
func TestUpdate(t *testing.T) {
	s := store(t)
	src := demo(t)
	first := add(t, s, local(src), "demo@m")
	write(t, src, map[string]string{"x.sh": "two"})
	second := add(t, s, local(src), "demo@m")
	if second.Previous == nil || second.Previous.Tree != first.Tree {
		t.Fatalf("%+v", second.Previous)
	}
	back, err := s.Rollback("demo@m")
	if err != nil || back.Tree != first.Tree {
		t.Fatal(err)
	}
	if d, err := back.Files.Verify(s.Path(back)); err != nil || !d.IsZero() {
		t.Error(d, err)
	}
	write(t, s.Path(second), map[string]string{"x.sh": "three"})
	if _, err := s.Rollback("demo@m"); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Error(err)
	}
	// Three versions: the oldest one is removed.
	write(t, src, map[string]string{"x.sh": "four"})
	add(t, s, local(src), "demo@m")
	write(t, src, map[string]string{"x.sh": "five"})
	add(t, s, local(src), "demo@m")
	if all, _ := filepath.Glob(s.Dir + "/plugins/m/*"); len(all) != 2 {
		t.Error(all)
	}
}

// TestTwoAtOnce: installations at the same time all end up in the lock.
func TestTwoAtOnce(t *testing.T) {
	s := store(t)
	src := demo(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			st, err := s.Stage(t.Context(), local(src), "x", nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer st.Close()
			if err := s.Install(st, fmt.Sprintf("demo@m%d", i%4)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	l, err := ReadLock(s.Lock)
	if err != nil || len(l.Plugins) != 4 {
		t.Fatal(err, l)
	}
	for id, it := range l.Plugins {
		if d, err := it.Files.Verify(s.Path(it)); err != nil || !d.IsZero() {
			t.Error(id, d, err)
		}
	}
	if len(leftovers(t, s)) > 0 {
		t.Error(leftovers(t, s))
	}
}

// TestLocks: a lock that names a place outside of the store, or that is not one, is an error.
func TestLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockName)
	for text, ok := range map[string]bool{`{"version":1}`: true, `{"version":2}`: false, `[]`: false,
		`{"version":1,`: false,
		`{"version":1,"plugins":{"a@b":{"dir":"../x"}}}`: false, `{"version":1,"plugins":{"a@b":{"dir":"/etc"}}}`: false,
		`{"version":1,"plugins":{"a@b":null}}`: false, `{"version":1,"plugins":{"a@b":{"dir":"."}}}`: false,
		`{"version":1,"plugins":{"a@b":{"dir":"x","previous":{"dir":".."}}}}`: false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLock(path); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestMarketplaces: a marketplace has the name that its list says, and another source cannot take it.
func TestMarketplaces(t *testing.T) {
	s := store(t)
	list := `{"name":"acme","plugins":[{"name":"demo","source":"./p"}]}`
	one := write(t, demo(t), map[string]string{".claude-plugin/marketplace.json": list, "p/skills/a/SKILL.md": skill})
	if m, err := s.AddMarketplace(t.Context(), local(one), CheckMarketplaceName); err != nil || m.Name != "acme" {
		t.Fatal(err)
	}
	known, err := s.Marketplaces()
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.List(known["acme"])
	if err != nil {
		t.Fatal(err)
	}
	e, _ := m.Find("demo")
	st, err := s.Stage(t.Context(), s.Listed(known["acme"], e), "demo", e.JSON)
	if err != nil || len(st.Files) != 1 || st.From.Path != one {
		t.Fatal(err)
	}
	st.Close()
	two := write(t, t.TempDir(), map[string]string{"marketplace.json": list})
	if _, err := s.AddMarketplace(t.Context(), local(two), CheckMarketplaceName); err == nil {
		t.Error("another source took the name")
	}
	bad := write(t, t.TempDir(), map[string]string{"marketplace.json": `{"name":"builtin","plugins":[]}`})
	if _, err := s.AddMarketplace(t.Context(), local(bad), CheckMarketplaceName); err == nil {
		t.Error("a reserved name was accepted")
	}
	allowed, err := ParseAllowed([]json.RawMessage{json.RawMessage(`[{"source":"github","repo":"a/b"}]`)})
	hub := plugin.Source{Kind: plugin.Git, URL: "https://github.com/a/b.git"}
	if err != nil || !allowed.Has(hub) || allowed.Has(known["acme"].Source) || allowed.Allow(&Item{}) ||
		!Allowed(nil).Allow(&Item{}) {
		t.Error(err, allowed)
	}
	if allowed, err := ParseAllowed([]json.RawMessage{json.RawMessage(`{}`)}); err == nil || allowed.Has(hub) {
		t.Error("a value that cannot be read allows something")
	}
	if err := s.RemoveMarketplace("acme"); err != nil {
		t.Error(err)
	}
}

func BenchmarkVerify(b *testing.B) { // 100 plugins with 10 skills each
	s := store(b)
	files := map[string]string{".claude-plugin/plugin.json": `{"name":"demo"}`}
	for i := range 10 {
		files[fmt.Sprintf("skills/s%d/SKILL.md", i)] = skill + strings.Repeat("Text of the skill. ", 100)
	}
	src := write(b, b.TempDir(), files)
	for i := range 100 {
		add(b, s, local(src), fmt.Sprintf("demo@m%d", i))
	}
	for b.Loop() {
		l, err := ReadLock(s.Lock)
		if err != nil {
			b.Fatal(err)
		}
		for _, it := range l.Plugins {
			root, err := os.OpenRoot(s.Path(it))
			if err != nil {
				b.Fatal(err)
			}
			r := it.NewReader(root, s.Path(it))
			plugin.Read(r, plugin.Options{Name: "demo"})
			if !r.Drift().IsZero() {
				b.Fatal(r.Drift())
			}
			root.Close()
		}
	}
}

func BenchmarkInstall(b *testing.B) { // 1,000 files
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("skills/s%d/f%d.md", i%50, i)] = strings.Repeat("Text. ", 300)
	}
	src := write(b, b.TempDir(), files)
	s := store(b)
	i := 0
	for b.Loop() {
		i++
		write(b, src, map[string]string{"n": fmt.Sprint(i)})
		add(b, s, local(src), "demo@m")
	}
}
