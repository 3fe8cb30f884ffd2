package sources_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/sources"
)

// TestManagedDirs: the administrator's directories on each system.
func TestManagedDirs(t *testing.T) {
	for goos, want := range map[string]string{
		"linux":   "/etc/knack /etc/claude-code",
		"freebsd": "/etc/knack /etc/claude-code",
		"darwin":  "/Library/Application Support/Knack /Library/Application Support/ClaudeCode",
		"windows": `C:\Program Files\Knack C:\Program Files\ClaudeCode`,
	} {
		if got := strings.Join(sources.ManagedDirs(goos), " "); got != want {
			t.Errorf("%s: %s, want %s", goos, got, want)
		}
	}
	dirs := sources.ManagedDirs(runtime.GOOS)
	var want []string
	for _, dir := range dirs {
		want = append(want, filepath.Join(dir, "skills"), filepath.Join(dir, ".claude", "skills"))
	}
	var got []string
	for _, p := range knack.Load(t.Context(), sources.Default(t.Context(), t.TempDir(),
		sources.Options{NoSkills: true})...).Locations() {
		got = append(got, p.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFromEnv: the directories that the environment names.
func TestFromEnv(t *testing.T) {
	env := map[string]string{"HOME": "/h", "USERPROFILE": "/u", "XDG_CONFIG_HOME": "/x", "CLAUDE_CONFIG_DIR": "/c"}
	o := sources.FromEnv(func(name string) string { return env[name] })
	home := "/h"
	if runtime.GOOS == "windows" {
		home = "/u"
	}
	if o.Home != home || o.ConfigHome != "/x" || o.ClaudeConfig != "/c" {
		t.Errorf("%+v", o)
	}
}

// Without a home directory there are no user folders, and the project is the working directory alone.
func TestNoHome(t *testing.T) {
	root := tree(t, "a/b/")
	o := sources.Options{Managed: []string{}}
	got := places(root, sources.Default(t.Context(), filepath.Join(root, "a", "b"), o))
	for _, p := range got {
		if !strings.HasPrefix(p, "project a/b/") && !strings.HasPrefix(p, "legacy a/b/") {
			t.Error(p)
		}
	}
	if len(got) != 6 {
		t.Errorf("%q", got)
	}
	o.Home, o.ConfigHome, o.ClaudeConfig = "a", ".config", "." // below the working directory: not the user's
	if got := places(root, sources.Default(t.Context(), filepath.Join(root, "a", "b"), o)); len(got) != 6 {
		t.Errorf("%q", got)
	}
	o.Home, o.ClaudeConfig = "", ""
	o.ConfigHome = filepath.Join(root, "xdg") // set, although there is no home directory
	o.Order = []knack.SourceKind{knack.User, knack.Legacy}
	if got := places(root, sources.Default(t.Context(), root, o)); !slices.Equal(got,
		strings.Split("user xdg/knack/skills;legacy xdg/knack/commands;legacy .claude/commands;legacy .knack/commands",
			";")) {
		t.Errorf("%q", got)
	}
	if got := sources.Root(filepath.Join(root, "a", "b")); got != filepath.Join(root, "a", "b") {
		t.Error(got)
	}
}

// TestDirectories: the working directory and --add-dir may be relative; patterns in paths: are relative to the
// directory that contains .claude or .knack, those of the user's skills to the project's root.
func TestDirectories(t *testing.T) {
	glob := "=---\ndescription: D\npaths: '*.go'\n---\n"
	root := tree(t, "home/repo/.git/", "home/repo/pkg/.claude/skills/near/SKILL.md"+glob,
		"home/repo/.agents/skills/far/SKILL.md"+glob,
		"home/.claude/skills/own/SKILL.md"+glob, "home/.pi/agent/skills/quick.md=---\ndescription: D\n---\n",
		"home/.pi/agent/skills/README.md=Text", "home/.agents/skills/no.md=---\ndescription: D\n---\n",
		"added/.pi/skills/file.md=---\ndescription: D\n---\n", "added/.claude/skills/beside/SKILL.md"+glob,
		"added/.claude/skills/no.md=---\ndescription: D\n---\n", "given/.knack/skills/named/SKILL.md"+glob,
		"given/.agents/x.md"+glob, "given/.pi/y/SKILL.md"+glob, "given/.claude/z/SKILL.md"+glob, "given/plain/SKILL.md"+glob,
		"home/.knack/commands/c.md=Do")
	t.Chdir(filepath.Join(root, "home", "repo", "pkg"))
	o := sources.Options{Home: filepath.Join(root, "home"), Managed: []string{}, AddDirs: []string{"../../../added"},
		Skills: []string{"../../../given/.knack/skills/named", "../../../given/.agents/x.md", "../../../given/.pi/y",
			"../../../given/.claude/z", "../../../given/plain"},
		Trust: func(knack.SourceKind, string) knack.Trust { return knack.Trusted }}
	cat := knack.Load(t.Context(), sources.Default(t.Context(), ".", o)...)
	got := map[string]string{}
	for _, s := range cat.Skills() {
		rel, err := filepath.Rel(root, s.Origin.Dir)
		if err != nil {
			t.Fatal(err)
		}
		got[s.Name] = filepath.ToSlash(rel)
	}
	for name, want := range map[string]string{
		"near": "home/repo/pkg", "far": "home/repo", "own": "home/repo", "quick": "home/repo", "c": "home/repo",
		"file": "added", "beside": "added", "named": "given", "x": "given", "y": "given", "z": "given", "plain": "home/repo",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("unexpected: %v", got)
	}
	v := knack.View{For: knack.ByModel, Touched: []string{filepath.Join(root, "home", "repo", "main.go")}}
	active := ""
	for _, e := range cat.Candidates() {
		if len(e.Skill.Paths) > 0 && cat.State(e, v) == knack.Active {
			active += e.Name() + " "
		}
	}
	if active != "plain own far " {
		t.Errorf("active: %s", active)
	}
}

// TestChecks: a Check decides about each folder of a project, nested ones included; a directory that the user named
// is not checked.
func TestChecks(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/.claude/skills/own/SKILL.md", "repo/.claude/commands/cmd.md=Do",
		"repo/sub/.pi/skills/nested/SKILL.md", "added/.claude/skills/added/SKILL.md", "home/.claude/skills/mine/SKILL.md")
	var mu sync.Mutex
	var asked []string
	o := sources.Options{Home: filepath.Join(root, "home"), Managed: []string{},
		AddDirs: []string{filepath.Join(root, "added")},
		Check: func(path string, data []byte, head bool) error {
			rel, _ := filepath.Rel(root, path)
			mu.Lock()
			asked = append(asked, filepath.ToSlash(rel))
			mu.Unlock()
			if strings.Contains(path, "cmd") {
				return os.ErrPermission
			}
			return nil
		}}
	repo := filepath.Join(root, "repo")
	cat := knack.Load(t.Context(), slices.Concat(sources.Default(t.Context(), repo, o),
		sources.NewNested(repo, o).Find("sub/x"))...)
	states := ""
	for _, e := range cat.Candidates() {
		states += e.Name() + " " + string(e.State) + ", "
	}
	if states != "mine active, own active, added active, cmd untrusted, nested active, " {
		t.Error(states)
	}
	slices.Sort(asked)
	if want := []string{"added/.claude/skills/added/SKILL.md", "repo/.claude/commands/cmd.md", "repo/.claude/skills/own/SKILL.md",
		"repo/sub/.pi/skills/nested/SKILL.md"}; !slices.Equal(asked, want) {
		t.Errorf("checked %q", asked)
	}
}

// TestNestedSearch: with NoSkills nothing nested is found, and ignored directories stay ignored.
func TestNestedSearch(t *testing.T) {
	root := tree(t, "repo/.git/", "repo/.gitignore=gen/\n", "repo/gen/.claude/skills/no/SKILL.md", "repo/late/",
		"repo/file=x", "repo/sub/.claude/skills/yes/SKILL.md")
	repo := filepath.Join(root, "repo")
	o := sources.Options{Managed: []string{}, NoSkills: true}
	if got := sources.NewNested(repo, o).Find("sub/x"); got != nil {
		t.Errorf("no skills: %v", got)
	}
	o.NoSkills = false
	n := sources.NewNested(repo, o)
	if got := n.Find("gen/x", "file/x", "", "/", root, "sub"); len(got) != 1 {
		t.Errorf("%d folders", len(got))
	}
	if err := os.Remove(filepath.Join(repo, ".gitignore")); err != nil {
		t.Fatal(err)
	}
	if got := n.Find("gen/y"); got != nil {
		t.Errorf("a directory that was ignored when it was searched: %v", got)
	}
	// A new directory is searched when it is touched.
	if got := n.Find("new/a.go"); got != nil {
		t.Errorf("%v", got)
	}
	if err := os.MkdirAll(filepath.Join(repo, "new", ".agents", "skills"), 0o777); err != nil {
		t.Fatal(err)
	}
	if got := places(repo, n.Find("new/a.go")); !slices.Equal(got, []string{"project new/.agents/skills"}) {
		t.Errorf("%q", got)
	}
}
