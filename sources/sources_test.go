package sources_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/knacktest"
	"github.com/knack-agent/knack/sources"
)

// tree makes files, and directories for names that end in a slash.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, text, found := strings.Cut(name, "=")
		if !found {
			text = fmt.Sprintf("---\nname: %s\ndescription: At %s\n---\nText\n", filepath.Base(filepath.Dir(name)), name)
		}
		path := filepath.Join(root, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o777)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o777); err == nil {
			err = os.WriteFile(path, []byte(text), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// places returns the paths of the sources, relative to root.
func places(root string, all []knack.Source) []string {
	var list []string
	for _, p := range knack.Load(context.Background(), all...).Locations() {
		rel, err := filepath.Rel(root, p.Path)
		if err != nil || p.Path == "" {
			rel = p.Label
		}
		list = append(list, fmt.Sprintf("%s %s", p.Kind, filepath.ToSlash(rel)))
	}
	return list
}

func label(kind knack.SourceKind) []knack.Source {
	return []knack.Source{knack.FS(os.DirFS("testdata/none"), knack.Origin{Kind: kind, Label: "it"})}
}

func TestDefault(t *testing.T) {
	root := tree(t, "home/", "home/repo/.git/", "home/repo/pkg/sub/")
	at := func(name string) string { return filepath.Join(root, name) }
	full := func(dir string, more ...func(*sources.Options)) sources.Options {
		o := sources.Options{Home: at("home"), Managed: []string{at("managed")}, Skills: []string{"../one.md"},
			AddDirs: []string{at("added")},
			Bundled: label(knack.Bundled), BuiltinPlugins: label(knack.BuiltinPlugin), Plugins: label(knack.Plugin),
			MCP: label(knack.MCP)}
		for _, f := range more {
			f(&o)
		}
		return o
	}
	four := func(kind, dir string) (list []string) {
		for _, f := range []string{".knack", ".agents", ".claude", ".pi"} {
			list = append(list, kind+" "+dir+"/"+f+"/skills")
		}
		return list
	}
	two := []string{"managed managed/skills", "managed managed/.claude/skills"}
	user := strings.Split("user home/.config/knack/skills;user home/.knack/skills;user home/.agents/skills;user "+
		"home/.claude/skills;user home/.config/claude/skills;user home/.pi/agent/skills", ";")
	commands := strings.Split(
		"legacy home/.claude/commands;legacy home/.config/knack/commands;legacy home/.knack/commands", ";")
	all := slices.Concat(two, []string{"explicit home/repo/one.md"}, user,
		four("project", "home/repo/pkg"), four("project", "home/repo"), four("additional", "added"), commands,
		[]string{"legacy home/repo/pkg/.claude/commands", "legacy home/repo/pkg/.knack/commands",
			"legacy home/repo/.claude/commands", "legacy home/repo/.knack/commands"},
		[]string{"bundled it", "builtin-plugin it", "plugin it", "mcp it"})
	for name, c := range map[string]struct {
		o    sources.Options
		want []string
	}{
		"the whole table": {full("home/repo/pkg"), all},
		"bare": {full("", func(o *sources.Options) { o.Bare = true }),
			slices.Concat(two, []string{"explicit home/repo/one.md"}, four("additional", "added"), []string{"bundled it"})},
		"no skills": {full("", func(o *sources.Options) { o.NoSkills = true }), two},
		"order": {full("", func(o *sources.Options) {
			o.Order = []knack.SourceKind{knack.MCP, knack.Managed,
				knack.Bundled, knack.MCP}
		}), slices.Concat([]string{"mcp it"}, two, []string{"bundled it"})},
		"managed must be": {full("", func(o *sources.Options) { o.Order = []knack.SourceKind{knack.MCP} }),
			append(slices.Clone(two), "mcp it")},
		"XDG, CLAUDE_CONFIG": {full("", func(o *sources.Options) {
			o.Order = []knack.SourceKind{knack.User}
			o.ConfigHome = at("xdg")
			o.ClaudeConfig = at("cc")
			o.Managed = []string{}
		}), strings.Split("user xdg/knack/skills;user home/.knack/skills;user home/.agents/skills;user cc/skills;user "+
			"home/.config/claude/skills;user home/.pi/agent/skills", ";")},
	} {
		if got := places(root, sources.Default(t.Context(), at("home/repo/pkg"), c.o)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestProject checks how far up a project goes.
func TestProject(t *testing.T) {
	root := tree(t, "home/plain/a/", "home/repo/.git/", "home/repo/pkg/", "home/over/tree/.git=gitdir: elsewhere",
		"home/over/tree/x/", "else/where/")
	at := func(name string) string { return filepath.Join(root, name) }
	for dir, want := range map[string]string{
		"home/repo/pkg":    "home/repo/pkg home/repo",
		"home/over/tree/x": "home/over/tree/x home/over/tree", // a worktree's .git is a file
		"home/plain/a":     "home/plain/a",
		"home":             "",
		"else/where":       "else/where",
	} {
		o := sources.Options{Home: at("home"), Managed: []string{}, Order: []knack.SourceKind{knack.Project}}
		var got []string
		for _, p := range places(root, sources.Default(t.Context(), at(dir), o)) {
			if d, ok := strings.CutSuffix(strings.TrimPrefix(p, "project "), "/.claude/skills"); ok {
				got = append(got, d)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}

func TestTrust(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/.claude/skills/own/SKILL.md", "repo/.claude/commands/cmd.md=Do it",
		"added/.agents/skills/added/SKILL.md",
		"out/linked/SKILL.md", "home/.claude/skills/mine/SKILL.md", "given/SKILL.md")
	at := func(name string) string { return filepath.Join(root, name) }
	if err := os.Symlink(at("out/linked"), at("repo/.claude/skills/linked")); err != nil {
		t.Skip("symbolic links do not work on this system: ", err)
	}
	states := func(o sources.Options) string {
		o.Home, o.Managed, o.AddDirs, o.Skills = at("home"), []string{}, []string{at("added")}, []string{at("given")}
		var list []string
		cat := knack.Load(t.Context(), sources.Default(t.Context(), at("repo"), o)...)
		for _, e := range cat.Candidates() {
			list = append(list, e.Name()+":"+string(e.State))
		}
		return strings.Join(list, " ")
	}
	if got, want := states(sources.Options{}),
		"given:active mine:active own:untrusted added:active cmd:untrusted"; got != want {
		t.Errorf("there is no user to ask: %s, want %s", got, want)
	}
	var asked []string
	o := sources.Options{Trust: func(kind knack.SourceKind, dir string) knack.Trust {
		rel, _ := filepath.Rel(root, dir)
		if _, err := os.Stat(dir); err == nil {
			asked = append(asked, string(kind)+" "+filepath.ToSlash(rel))
		}
		if strings.HasPrefix(rel, "repo") {
			return knack.Trusted
		}
		return knack.Untrusted
	}}
	if got, want := states(o), "given:active mine:active own:active added:untrusted cmd:active"; got != want {
		t.Errorf("asked: %s, want %s", got, want)
	}
	if want := []string{"project repo/.claude/skills", "additional added/.agents/skills", "legacy repo/.claude/commands",
		"project out/linked"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

// TestManaged: both layouts of both directories count; a managed skill wins over the user's, cannot be switched off,
// and remains with NoSkills.
func TestManaged(t *testing.T) {
	root := tree(t, "knack/skills/a/SKILL.md", "knack/.claude/skills/b/SKILL.md", "claude/skills/c/SKILL.md",
		"claude/.claude/skills/d/SKILL.md",
		"claude/skills/group/a/SKILL.md", "home/.claude/skills/a/SKILL.md", "home/.claude/skills/own/SKILL.md", "repo/")
	o := sources.Options{Home: filepath.Join(root, "home"), Managed: []string{filepath.Join(root, "knack"),
		filepath.Join(root, "claude")}}
	load := func(o sources.Options) (*knack.Catalog, string) {
		cat := knack.Load(t.Context(), sources.Default(t.Context(), filepath.Join(root, "repo"), o)...)
		var list []string
		for _, e := range cat.Candidates() {
			list = append(list, fmt.Sprintf("%s %s %s", e.Name(), e.Origin.Kind, e.State))
		}
		return cat, strings.Join(list, ", ")
	}
	cat, got := load(o)
	if want := "a managed active, b managed active, a managed shadowed, c managed active, d managed active, a user " +
		"shadowed, own user active"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	v := knack.View{For: knack.ByModel, Overrides: map[string]knack.SkillState{"a": knack.Off, "own": knack.Off,
		"b": knack.NameOnly}}
	if got, want := cat.Listing(v).Text, "- a: At knack/skills/a/SKILL.md\n- b\n- c: At claude/skills/c/SKILL.md\n- d: "+
		"At claude/.claude/skills/d/SKILL.md\n"; !strings.HasPrefix(got, want) || strings.Contains(got, "own") {
		t.Errorf("listed:\n%s", got)
	}
	if ps := cat.Overruled(v); len(ps) != 1 || ps[0].Code != "override-off" ||
		ps[0].Path != filepath.Join(root, "knack/skills/a/SKILL.md") {
		t.Errorf("overruled: %v", ps)
	}
	o.NoSkills = true
	if _, got := load(o); got != "a managed active, b managed active, a managed shadowed, c managed active, d managed "+
		"active" {
		t.Errorf("no skills: %s", got)
	}
}

func TestNested(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/.gitignore=/pkg/gen/\n", "repo/pkg/.claude/skills/here/SKILL.md",
		"repo/pkg/x/.claude/skills/here/SKILL.md", "repo/pkg/x/y/.agents/skills/deep/SKILL.md", "repo/pkg/x/y/file.go=",
		"repo/pkg/gen/.claude/skills/no/SKILL.md", "repo/pkg/node_modules/m/.claude/skills/no/SKILL.md",
		"repo/pkg/.hid/.claude/skills/no/SKILL.md", "repo/other/.claude/skills/no/SKILL.md")
	dir := filepath.Join(root, "repo", "pkg")
	o := sources.Options{Managed: []string{}, Trust: func(knack.SourceKind, string) knack.Trust { return knack.Trusted }}
	n := sources.NewNested(dir, o)
	for _, c := range []struct{ touched, want string }{
		{"file.go", ""},
		{"x/y/file.go", "project x/.claude/skills,project x/y/.agents/skills"},
		{"x/y/other.go", ""}, // each directory is searched once
		{"gen/a.go", ""},
		{"node_modules/m/a.js", ""},
		{".hid/a", ""},
		{"../other/a.go", ""}, // not below the working directory
		{filepath.Join(dir, "x"), ""},
	} {
		if got := strings.Join(places(dir, n.Find(c.touched)), ","); got != c.want {
			t.Errorf("%s: %q, want %q", c.touched, got, c.want)
		}
	}
	o.Bare = true
	if got := sources.NewNested(dir, o).Find("x/y/file.go"); got != nil {
		t.Errorf("bare: %v", got)
	}
	o.Bare = false

	lib := knack.NewLibrary(t.Context(), sources.Default(t.Context(), dir, o)...)
	cat := lib.Add(t.Context(), sources.NewNested(dir, o).Find("x/y/file.go")...)
	var names []string
	for _, s := range cat.Skills() {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "here x:here deep" {
		t.Errorf("skills: %s", got)
	}
}

func TestContract(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/.claude/skills/a/SKILL.md", "repo/.pi/skills/b.md=---\ndescription: B\n---\n",
		"repo/.claude/commands/c/d.md=Do")
	for _, src := range sources.Default(t.Context(), filepath.Join(root, "repo"), sources.Options{Managed: []string{}}) {
		if err := knacktest.TestSource(src); err != nil {
			t.Error(err)
		}
	}
}

func ExampleDefault() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	skill := filepath.Join(dir, ".claude", "skills", "pdf")
	os.MkdirAll(skill, 0o777)
	os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte("---\ndescription: Read PDF files\n---\nUse pdftotext.\n"),
		0o666)

	ctx := context.Background()
	opts := sources.Options{ // sources.FromEnv(os.Getenv) would add the user's own
		Trust: func(kind knack.SourceKind, dir string) knack.Trust { return knack.Trusted },
	}
	cat := knack.Load(ctx, sources.Default(ctx, dir, opts)...)
	fmt.Print(cat.Listing(knack.View{For: knack.ByModel}).Text)
	// Output: - pdf: Read PDF files
}
