package instructions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixture makes a home directory and a repository from files; a name that ends in @ is a link.
func fixture(t *testing.T, files map[string]string) Options {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(top, strings.TrimSuffix(name, "@"))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "@") {
			err = os.Symlink(strings.ReplaceAll(text, "$TOP", top), path)
		} else {
			err = os.WriteFile(path, []byte(strings.ReplaceAll(text, "$TOP", top)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(top, "home")
	return Options{
		Dir: filepath.Join(home, "repo/sub"), Root: filepath.Join(home, "repo"), Home: home,
		ConfigHome: filepath.Join(home, ".config/knack"), ClaudeHome: filepath.Join(home, ".claude"),
		Secret: func(p string) bool { return strings.Contains(p, "id_rsa") || strings.HasSuffix(p, ".env") },
	}
}

func texts(f Found) string {
	var all []string
	for _, d := range f.Context {
		all = append(all, strings.TrimSpace(d.Text))
	}
	return strings.Join(all, "|")
}

func TestOrder(t *testing.T) {
	f := Load(fixture(t, map[string]string{
		"home/.claude/CLAUDE.md":         "user",
		"home/.pi/agent/AGENTS.md":       "not read",
		"home/AGENTS.md":                 "home",
		"home/repo/CLAUDE.md":            "root, too",
		"home/repo/AGENTS.md":            "root",
		"home/repo/AGENTS.local.md":      "root local",
		"home/repo/sub/CLAUDE.md":        "sub",
		"home/repo/other/AGENTS.md":      "not on the way",
		"home/repo/sub/x/AGENTS.md":      "below",
		"home/repo/CLAUDE.local.md":      "root local, too",
		"home/repo/sub/.knack/SYSTEM.md": "project prompt",
	}))
	if got, want := texts(f), "user|home|root|root, too|root local|root local, too|sub"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if f.System != "" || len(f.Problems) != 2 || f.Problems[1].Code != "untrusted" {
		t.Errorf("an untrusted prompt: %q, %v", f.System, f.Problems)
	}
	if p := f.Problems[0]; !strings.HasSuffix(p.Path, ".pi/agent/AGENTS.md") ||
		!strings.HasPrefix(p.Message, "not sent, because ") {
		t.Errorf("the second file of the user is not named: %v", p)
	}
}

// TestBeside: of the context files of one directory, AGENTS.override.md stands for AGENTS.md, and what one of them
// imports, links to or repeats is sent once.
func TestBeside(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"override": {map[string]string{"AGENTS.override.md": "mine", "AGENTS.md": "theirs", "CLAUDE.md": "claude"},
			"mine|claude"},
		"local alone":  {map[string]string{"CLAUDE.local.md": "mine"}, "mine"},
		"import alone": {map[string]string{"AGENTS.md": "a", "CLAUDE.md": "@AGENTS.md\n"}, "a"},
		"import more":  {map[string]string{"AGENTS.md": "a", "CLAUDE.md": "@AGENTS.md\n\n# Claude\nc"}, "a|# Claude\nc"},
		"imported":     {map[string]string{"AGENTS.md": "a: @CLAUDE.md", "CLAUDE.md": "c"}, "a: c"},
		"link":         {map[string]string{"AGENTS.md": "a", "CLAUDE.md@": "AGENTS.md"}, "a"},
		"repeated":     {map[string]string{"AGENTS.md": "same\n", "CLAUDE.md": "same"}, "same"},
		"comment alone": {map[string]string{"AGENTS.md": "a", "CLAUDE.md": "<!-- see AGENTS.md -->\n"},
			"a"},
	} {
		files := map[string]string{}
		for file, text := range tt.files {
			files["home/repo/sub/"+file] = text
		}
		if got := texts(Load(fixture(t, files))); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestOverridden: the AGENTS.md for which another one stands is named, unless that imports it.
func TestOverridden(t *testing.T) {
	for text, want := range map[string]int{"mine": 1, "mine @AGENTS.md": 0} {
		f := Load(fixture(t, map[string]string{"home/repo/AGENTS.override.md": text, "home/repo/AGENTS.md": "theirs"}))
		n := 0
		for _, p := range f.Problems {
			if strings.HasPrefix(p.Message, "not sent, because ") && filepath.Base(p.Path) == "AGENTS.md" {
				n++
			}
		}
		if n != want {
			t.Errorf("%q: named %d times, want %d: %v", text, n, want, f.Problems)
		}
	}
}

// TestNoImport: the name of a Markdown file that is not there is named; other words with @ are not.
func TestNoImport(t *testing.T) {
	f := Load(fixture(t, map[string]string{"home/repo/AGENTS.md": "see @docs/gone.md, @types/node, @me and `@code.md`"}))
	if len(f.Problems) != 1 || f.Problems[0].Message != "@docs/gone.md: there is no such file to import" {
		t.Errorf("%v", f.Problems)
	}
}

// TestLinkText: a context file with the text of a link, as git writes it where there are no links, is what the text names.
func TestLinkText(t *testing.T) {
	for text, want := range map[string]string{
		"docs/guide.md": "G", "../other.md\n": "O", "docs/gone.md": "docs/gone.md", "see docs/guide.md": "see docs/guide.md",
	} {
		f := Load(fixture(t, map[string]string{"home/repo/sub/AGENTS.md": text, "home/repo/sub/docs/guide.md": "G",
			"home/repo/other.md": "O"}))
		if got := texts(f); strings.TrimSpace(got) != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestImportPlaces: what counts as an import, and what does not.
func TestImportPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"(@a.md)":                              "(A)",
		"[@a.md] *@a.md* \"@a.md\"":            "[A] *@a.md* \"@a.md\"", // once
		"@a.md, @b.md; @./c.md!":               "A, B; C!",
		"@a.md's, see":                         "A's, see",
		"@a.md,@b.md":                          "A,@b.md",
		"@README and @nobody":                  "R and @nobody",
		"@with\\ space.md, @with space.md":     "S, @with space.md",
		"@dir @dir/":                           "@dir @dir/",
		"x@a.md \\@a.md":                       "x@a.md \\@a.md",
		"a ` and @a.md":                        "a ` and A",
		"`@a.md` ``@a.md``":                    "`@a.md` ``@a.md``",
		"a <!-- b --> c":                       "a  c",
		"<!-- @a.md -->x":                      "x",
		"a\n<!-- b\n@a.md\n```\n-->\nc\n@a.md": "a\nc\nA",
		"`<!-- a -->`":                         "`<!-- a -->`",
		"```html\n<!-- a -->\n@a.md\n```":      "```html\n<!-- a -->\n@a.md\n```",
		"````\n```\n<!-- a -->\n````\n@a.md":   "````\n```\n<!-- a -->\n````\nA",
		"a <!-- open @a.md":                    "a <!-- open A",
	} {
		f := Load(fixture(t, map[string]string{
			"home/repo/sub/AGENTS.md": text, "home/repo/sub/a.md": "A\n", "home/repo/sub/b.md": "B", "home/repo/sub/c.md": "C",
			"home/repo/sub/README": "R\n", "home/repo/sub/dir/x": "", "home/repo/sub/with space.md": "S",
		}))
		if got := texts(f); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestImports(t *testing.T) {
	f := Load(fixture(t, map[string]string{
		"home/repo/sub/AGENTS.md": "see @a.md, and @../b.md.\n`@a.md` mail@a.md @nobody\n```\n@a.md\n```\n@loop.md",
		"home/repo/sub/a.md":      "A\n",
		"home/repo/b.md":          "B",
		"home/repo/sub/loop.md":   "L @loop.md",
	}))
	if got, want := texts(f), "see A, and B.\n`@a.md` mail@a.md @nobody\n```\n@a.md\n```\nL @loop.md"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	deep := map[string]string{"home/repo/sub/AGENTS.md": "@1.md"}
	for i := 1; i < 8; i++ {
		deep[fmt.Sprintf("home/repo/sub/%d.md", i)] = fmt.Sprintf("%d @%d.md", i, i+1)
	}
	f = Load(fixture(t, deep))
	if got := texts(f); got != "1 2 3 4 @5.md" || len(f.Problems) != 1 {
		t.Errorf("%q %v", got, f.Problems)
	}
}

// TestForbiddenFiles: a file of the repository cannot import a file from outside it, or a secret.
func TestForbiddenFiles(t *testing.T) {
	const secret = "PRIVATE"
	for name, files := range map[string]map[string]string{
		"link":          {"home/repo/AGENTS.md@": "$TOP/home/notes.txt", "home/notes.txt": secret},
		"linked folder": {"home/repo/sub@": "$TOP/home/else", "home/else/AGENTS.md": secret},
		"import up":     {"home/repo/AGENTS.md": "@../notes.txt", "home/notes.txt": secret},
		"import abs":    {"home/repo/AGENTS.md": "@$TOP/home/notes.txt", "home/notes.txt": secret},
		"import home":   {"home/repo/AGENTS.md": "@~/notes.txt", "home/notes.txt": secret},
		"import link":   {"home/repo/AGENTS.md": "@x.md", "home/repo/x.md@": "$TOP/home/notes.txt", "home/notes.txt": secret},
		"secret":        {"home/repo/AGENTS.md": "@./.env", "home/repo/.env": secret},
		"secret link":   {"home/repo/AGENTS.md@": "$TOP/home/repo/keys/id_rsa", "home/repo/keys/id_rsa": secret},
		"user's secret": {"home/.claude/CLAUDE.md": "@~/.ssh/id_rsa", "home/.ssh/id_rsa": secret},
		"prompt":        {"home/repo/sub/.knack/SYSTEM.md": secret},
		"append":        {"home/repo/sub/.pi/APPEND_SYSTEM.md": secret},
		"prompt link":   {"home/repo/sub/.knack/SYSTEM.md@": "$TOP/home/notes.txt", "home/notes.txt": secret},
	} {
		t.Run(name, func(t *testing.T) {
			o := fixture(t, files)
			if err := os.MkdirAll(o.Dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err)
			}
			f := Load(o)
			if strings.Contains(texts(f)+f.System+strings.Join(f.Append, ""), secret) {
				t.Errorf("imported: %+v", f)
			}
			if len(f.Problems) == 0 {
				t.Error("nothing was reported")
			}
		})
	}
}

func TestPrompts(t *testing.T) {
	files := map[string]string{
		"home/repo/sub/.pi/SYSTEM.md":            "project",
		"home/.config/knack/SYSTEM.md":           "mine",
		"home/.pi/agent/APPEND_SYSTEM.md":        "pi's",
		"home/.config/knack/APPEND_SYSTEM.md":    "more",
		"home/repo/sub/.knack/APPEND_SYSTEM.md@": "$TOP/outside",
		"outside":                                "outside",
	}
	o := fixture(t, files)
	if f := Load(o); f.System != "mine" || strings.Join(f.Append, "|") != "more" {
		t.Errorf("untrusted: %+v", f)
	}
	o.Check = func(string, []byte) error { return nil }
	if f := Load(o); f.System != "project" || strings.Join(f.Append, "|") != "more" {
		t.Errorf("trusted: %+v", f)
	}
}

// TestPromptsOfRoot: a system prompt at the repository's root also applies in directories below it; the nearest one
// wins.
func TestPromptsOfRoot(t *testing.T) {
	files := map[string]string{"home/repo/.knack/SYSTEM.md": "root", "home/repo/.pi/APPEND_SYSTEM.md": "appended",
		"home/repo/sub/x": ""}
	o := fixture(t, files)
	o.Check = func(string, []byte) error { return nil }
	if f := Load(o); f.System != "root" || strings.Join(f.Append, "|") != "appended" {
		t.Errorf("%+v", f)
	}
	files["home/repo/sub/.pi/SYSTEM.md"] = "nearer"
	o = fixture(t, files)
	if f := Load(o); f.System != "" || len(f.Problems) == 0 || f.Problems[0].Code != "untrusted" {
		t.Errorf("untrusted: %+v", f)
	}
	o.Check = func(string, []byte) error { return nil }
	if f := Load(o); f.System != "nearer" {
		t.Errorf("%+v", f)
	}
}

// TestNoRepository: outside a repository the root is the working directory. A file in a directory above imports
// nothing.
func TestNoRepository(t *testing.T) {
	o := fixture(t, map[string]string{
		"home/down/good/AGENTS.md": "good @../taxes.txt", "home/down/taxes.txt": "PRIVATE",
		"home/down/AGENTS.md": "above @../private.txt @down.txt", "home/private.txt": "PRIVATE", "home/down/down.txt": "down",
		"home/down/.knack/SYSTEM.md": "PRIVATE",
	})
	o.Dir = filepath.Join(o.Home, "down/good")
	o.Root = o.Dir
	o.Check = func(string, []byte) error { return nil }
	f := Load(o)
	if got := texts(f) + f.System; got != "above @../private.txt down|good @../taxes.txt" {
		t.Errorf("%q", got)
	}
}

func TestBounds(t *testing.T) {
	f := Load(fixture(t, map[string]string{
		"home/repo/AGENTS.md":     strings.Repeat("x", maxFile+1),
		"home/repo/sub/AGENTS.md": "\xff\xfe",
	}))
	if len(f.Context) != 0 || len(f.Problems) != 2 {
		t.Errorf("%d files, %v", len(f.Context), f.Problems)
	}
	many := map[string]string{"home/repo/sub/AGENTS.md": "@1.md @2.md @3.md @4.md @5.md"}
	for i := range 6 {
		many[fmt.Sprintf("home/repo/sub/%d.md", i)] = strings.Repeat("x", maxFile)
	}
	f = Load(fixture(t, many))
	if n := len(texts(f)); n > maxAll || len(f.Problems) == 0 {
		t.Errorf("%d bytes, %v", n, f.Problems)
	}
}

// TestImportBomb: limits apply while files are read, not afterwards. Each file is read once and imported once; count,
// bytes and depth are limited, and a few problems report what a limit left out.
func TestImportBomb(t *testing.T) {
	deep := map[string]string{} // 22 KB that would expand to 1.8 GB
	for i := range 4 {
		deep[fmt.Sprintf("home/repo/%d.md", i)] = strings.Repeat(fmt.Sprintf("@%d.md ", i+1), 700)
	}
	deep["home/repo/AGENTS.md"] = strings.Repeat("@0.md ", 700)
	deep["home/repo/4.md"] = strings.Repeat("x", 1000)
	wide := map[string]string{}
	var names strings.Builder
	for i := range 2 * maxImported {
		wide[fmt.Sprintf("home/repo/w/%d.md", i)] = "x"
		fmt.Fprintf(&names, "@w/%d.md ", i)
	}
	wide["home/repo/AGENTS.md"] = names.String()
	large := map[string]string{}
	names.Reset()
	for i := range 20 {
		large[fmt.Sprintf("home/repo/w/%d.md", i)] = strings.Repeat("x", maxFile-1)
		fmt.Fprintf(&names, "@w/%d.md ", i)
	}
	large["home/repo/AGENTS.md"] = names.String()
	escaping := map[string]string{"home/repo/AGENTS.md": strings.Repeat("@../x.md ", 5000), "home/x.md": "x"}
	shared := map[string]string{
		"home/repo/AGENTS.md": "@a.md @b.md", "home/repo/a.md": "a @c.md", "home/repo/b.md": "b @c.md @./c.md @d.md",
		"home/repo/c.md": "c", "home/repo/d.md@": "$TOP/home/repo/c.md",
	}
	for name, files := range map[string]map[string]string{"deep": deep, "wide": wide, "large": large, "escaping": escaping,
		"shared": shared} {
		t.Run(name, func(t *testing.T) {
			o := fixture(t, files)
			o.Dir = o.Root
			reads := map[string]int{}
			o.Secret = func(p string) bool {
				reads[p]++
				return false
			}
			f := Load(o)
			if n := len(texts(f)); n > maxAll+maxFile {
				t.Errorf("%d bytes", n)
			}
			if len(reads) > maxImported+1 {
				t.Errorf("%d files were read", len(reads))
			}
			for p, n := range reads {
				if n != 1 {
					t.Errorf("%s was read %d times", p, n)
				}
			}
			if n := len(f.Problems); n > 8 || n == 0 && name != "deep" && name != "shared" {
				t.Errorf("%d problems", n)
			}
			if got := texts(f); name == "shared" && got != "a c b @c.md @./c.md @d.md" {
				t.Errorf("%q", got)
			}
		})
	}
}
