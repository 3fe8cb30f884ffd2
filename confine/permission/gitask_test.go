package permission_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/knack-agent/knack/confine/permission"
)

// A gitFixture is a repository with a program that leaves a trace when it runs.
type gitFixture struct {
	t                      *testing.T
	top, repo, fired, evil string
	env                    []string
	nested                 bool // the repository contains others
}

// firstCommit returns the git directory of a repository with one commit, of the file a.txt. It is made once, with the
// configuration of the first ground.
var firstCommit = sync.OnceValues(func() (fs.FS, error) {
	dir, err := os.MkdirTemp("", "knack-git")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c := exec.Command("sh", "-c", "echo x > a.txt && git init -q && git add a.txt && git commit -qm one")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	all, root := fstest.MapFS{}, os.DirFS(filepath.Join(dir, ".git"))
	return all, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all[name] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
			return err
		}
		data, err := fs.ReadFile(root, name)
		all[name] = &fstest.MapFile{Mode: 0o644, Data: data}
		return err
	})
})

func newGitGround(t *testing.T) *gitFixture {
	for _, p := range []string{"git", "sh"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("this test needs", p)
		}
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &gitFixture{t: t, top: top, repo: filepath.Join(top, "repo"), fired: filepath.Join(top, "fired"),
		evil: filepath.Join(top, "evil.sh")}
	home := filepath.Join(top, "home")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	g.env = os.Environ()
	g.write("evil.sh", "#!/bin/sh\necho \"$0 $*\" >> '"+g.fired+"'\ncat\n")
	if err := os.Chmod(g.evil, 0o700); err != nil {
		t.Fatal(err)
	}
	g.write("home/.gitconfig", "[user]\n\tname = n\n\temail = a@b\n[protocol \"file\"]\n\tallow = "+
		"always\n[init]\n\tdefaultBranch = main\n\ttemplateDir =\n[maintenance]\n\tauto = false\n")
	one, err := firstCommit()
	if err = errors.Join(err, os.Mkdir(g.repo, 0o700)); err == nil {
		err = os.CopyFS(filepath.Join(g.repo, ".git"), one)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.write("repo/.gitattributes", "*.txt diff=evil filter=evil\n")
	g.write("repo/a.txt", "x\ny\n")
	return g
}

func (g *gitFixture) write(name, text string) {
	g.t.Helper()
	p := filepath.Join(g.top, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gitFixture) git(dir string, args ...string) {
	g.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = filepath.Join(g.top, dir), g.env
	if out, err := c.CombinedOutput(); err != nil {
		g.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// output returns what git prints in the repository.
func (g *gitFixture) output(args ...string) string {
	g.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = g.repo, g.env
	out, err := c.Output()
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// filter configures the evil program in a repository's own file.
func (g *gitFixture) filter() string { return "[filter \"evil\"]\n\tclean = " + g.evil + "\n" }

// TestGitOverrides: every program that git reads from a configuration is overridden, however and wherever it is
// written. Each of these used to run code.
func TestGitOverrides(t *testing.T) {
	for name, prepare := range map[string]func(g *gitFixture){
		"a comment that ends in a backslash": func(g *gitFixture) {
			g.write("repo/.git/config", "# comment \\\n"+g.filter())
		},
		"a value that ends in two backslashes": func(g *gitFixture) {
			g.write("repo/.git/config", "[x]\n\ty = c:\\\\\n"+g.filter())
		},
		"an include with a comment": func(g *gitFixture) {
			g.write("repo/.git/config", "[include] # here\n\tpath = \"inc\" ; there\n")
			g.write("repo/.git/inc", g.filter())
		},
		"an include in quotes": func(g *gitFixture) {
			g.write("repo/.git/config", "[include]\n\tpath = \"in\"c # x\n")
			g.write("repo/.git/inc", g.filter())
		},
		"a conditional include": func(g *gitFixture) {
			g.write("repo/.git/config", "[includeIf \"onbranch:**\"]\n\tpath = inc\n")
			g.write("repo/.git/inc", g.filter())
		},
		"a value on the section's line": func(g *gitFixture) {
			g.write("repo/.git/config", "[filter \"evil\"] clean = "+g.evil+"\n")
		},
		"a worktree's configuration": func(g *gitFixture) {
			g.write("repo/.git/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n")
			g.write("repo/.git/config.worktree", g.filter())
		},
		"a git directory elsewhere": func(g *gitFixture) {
			g.git("repo", "init", "-q", "--separate-git-dir", filepath.Join(g.top, "repo", "store"))
			g.write("repo/store/config", g.filter())
		},
		"a nested repository without .gitmodules": func(g *gitFixture) { g.nest("repo/in") },
		"three levels of them": func(g *gitFixture) {
			g.nest("repo/in")
			g.nest("repo/in/in")
			g.nest("repo/in/in/in")
		},
		"a submodule": func(g *gitFixture) {
			g.nested = true
			g.write("other/b.txt", "x\n")
			g.git("other", "init", "-q")
			g.git("other", "add", ".")
			g.git("other", "commit", "-qm", "one")
			g.git("repo", "submodule", "--quiet", "add", filepath.Join(g.top, "other"), "sub/deep/er")
			g.write("repo/sub/deep/er/.gitattributes", "*.txt filter=evil\n")
			g.write("repo/sub/deep/er/b.txt", "x\ny\n")
			g.git("repo/sub/deep/er", "config", "filter.evil.clean", g.evil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGitGround(t)
			prepare(g)
			commands := [][]string{{"status"}, {"diff"}, {"add", "-n", "."}}
			if g.nested {
				commands = append(commands, []string{"diff", "--submodule=diff"}, []string{"fsck"},
					[]string{"submodule", "status", "--recursive"}, []string{"notes", "list"})
			}
			run := func(env []string) bool { // until one runs the program
				for _, args := range commands {
					c := exec.Command("git", args...)
					c.Dir, c.Env = g.repo, env
					c.Run()
					if os.Remove(g.fired) == nil {
						return true
					}
				}
				return false
			}
			if !run(g.env) {
				t.Fatal("nothing runs even without overrides: the test proves nothing")
			}
			env, unguarded := permission.NewGitSoon(g.repo).Env(g.env)
			if len(unguarded) > 0 {
				t.Error("unguarded:", unguarded)
			}
			if run(env) {
				t.Error("the program of the configuration ran")
			}
		})
	}
}

// nest makes a repository in another, as a gitlink, with a filter of its own.
func (g *gitFixture) nest(dir string) {
	g.nested = true
	g.write(dir+"/b.txt", "x\n")
	g.git(dir, "init", "-q")
	g.git(dir, "add", "b.txt")
	g.git(dir, "commit", "-qm", "one")
	g.git(filepath.Dir(dir), "add", filepath.Base(dir))
	g.git(dir, "config", "filter.evil.clean", g.evil)
	g.write(dir+"/.gitattributes", "*.txt filter=evil\n")
	g.write(dir+"/b.txt", "x\ny\n")
}

// TestGitUnreadable: where git cannot be run, not in bounded time, or not without a program that the repository names,
// its commands need approval even with rules. Found by attack: under Bash(git fetch:*) git ran the remote.X.uploadpack
// of the repository, because of several values it uses the first; core.gitProxy and remote.X.vcs ran under any rule.
func TestGitUnreadable(t *testing.T) {
	for name, prepare := range map[string]func(g *gitFixture){
		"an invalid configuration":   func(g *gitFixture) { g.write("repo/.git/config", "[x\n") },
		"a pipe for .git":            func(g *gitFixture) { g.pipe("repo/.git") },
		"a pipe for a configuration": func(g *gitFixture) { g.pipe("repo/.git/config") },
		"a pipe for commondir":       func(g *gitFixture) { g.pipe("repo/.git/commondir") },
		"a pipe for an index":        func(g *gitFixture) { g.pipe("repo/.git/index") },
		"an endless .git":            func(g *gitFixture) { g.link("/dev/zero", "repo/.git") },
		"an endless configuration":   func(g *gitFixture) { g.link("/dev/zero", "repo/.git/config") },
		"an endless include": func(g *gitFixture) {
			g.write("repo/.git/config", "[include]\n\tpath = /dev/zero\n")
		},
		"a program that cannot be overridden": func(g *gitFixture) { g.git("repo", "config", "core.gitProxy", g.evil) },
		"a program for fetches":               func(g *gitFixture) { g.git("repo", "config", "remote.x.uploadpack", g.evil) },
		"a program for pushes": func(g *gitFixture) {
			g.git("repo", "config", "remote.x.receivepack", g.evil)
		},
		"too many programs": func(g *gitFixture) {
			var b strings.Builder
			for i := range 600 {
				b.WriteString("[filter \"" + strings.Repeat("x", i+1) + "\"]\n\tclean = x\n")
			}
			g.write("repo/.git/config", b.String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGitGround(t)
			prepare(g)
			place := permission.PathContext{Dir: g.repo, Home: filepath.Join(g.top, "home"), GitEnv: true,
				Git: permission.NewGitSoon(g.repo)}
			for _, rules := range []string{"", "Bash(git:*)"} {
				d := permission.Rules{Allow: rulesOf(t, rules, permission.User)}.Decide(t.Context(), permission.Default, place,
					permission.Subject{Kind: "Bash", Text: "git status"})
				if d.Verdict != permission.Ask || len(d.Suggest) > 0 {
					t.Errorf("rules %q: %v, suggested %q", rules, d.Verdict, d.Suggest)
				}
			}
			if _, unguarded := place.Git.Env(nil); len(unguarded) == 0 {
				t.Error("nothing is unguarded")
			}
		})
	}
}

func (g *gitFixture) pipe(name string) {
	p := filepath.Join(g.top, name)
	os.RemoveAll(p)
	if err := mkfifo(p); err != nil {
		g.t.Skip("no pipes:", err)
	}
}

func (g *gitFixture) link(to, name string) {
	if runtime.GOOS == "windows" {
		g.t.Skip("no", to)
	}
	p := filepath.Join(g.top, name)
	os.RemoveAll(p)
	if err := os.Symlink(to, p); err != nil {
		g.t.Fatal(err)
	}
}

// TestGitChanges: a changed configuration is read again, even if size and time
// of the file are reset.
func TestGitChanges(t *testing.T) {
	g := newGitGround(t)
	git := permission.NewGitSoon(g.repo)
	place := permission.PathContext{Dir: g.repo, GitEnv: true, Git: git}
	names := func() string {
		env, _ := git.Env(nil)
		return strings.Join(env, "\n")
	}
	if strings.Contains(names(), "filter.") {
		t.Fatal(names())
	}
	config := filepath.Join(g.repo, ".git", "config")
	was, err := os.Stat(config)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text := "[filter \"evil\"]\n\tclean = x\n"
	if len(text) > len(data) {
		t.Fatal("the configuration is shorter than the test expects")
	}
	text += strings.Repeat("\n", len(data)-len(text))
	g.write("repo/.git/config", text)
	if err := os.Chtimes(config, was.ModTime(), was.ModTime()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(names(), "filter.evil.clean") {
		t.Error("the change was not seen")
	}
	g.nest("repo/in")
	if !strings.Contains(names(), "filter.evil.clean") {
		t.Error("the nested repository was not seen")
	}
	// A nested repository that a rule allows git in is inspected and overridden too.
	g.write("repo/far/x.txt", "x\n")
	g.git("repo/far", "init", "-q")
	g.git("repo/far", "config", "filter.far.smudge", g.evil)
	rules := permission.Rules{Allow: rulesOf(t, "Bash(git:*)", permission.User)}
	if d := rules.Decide(t.Context(), permission.Default, place, permission.Subject{Kind: "Bash",
		Text: "cd far && git status"}); d.Verdict != permission.Allow {
		t.Error(d.Verdict, d.Reason)
	}
	if !strings.Contains(names(), "filter.far.smudge") {
		t.Error("the repository that a command goes to is not overridden")
	}
	// A setting that cannot be overridden.
	g.git("repo", "config", "remote.x.vcs", "evil")
	if d := (permission.Rules{}).Decide(t.Context(), permission.Default, place,
		permission.Subject{Kind: "Bash", Text: "git status"}); d.Verdict != permission.Ask {
		t.Error("remote.vcs:", d.Verdict)
	}
}

// TestGitDirectories: a git directory is protected whatever its name.
func TestGitDirectories(t *testing.T) {
	g := newGitGround(t)
	g.git("repo", "init", "-q", "--separate-git-dir", filepath.Join(g.repo, "store"))
	g.write("repo/in/b.txt", "x\n")
	g.write("repo/data/c.txt", "x\n")
	g.git("repo/in", "init", "-q", "--separate-git-dir", filepath.Join(g.repo, "data", "deep"))
	g.git("repo", "worktree", "add", "-q", "--force", filepath.Join(g.repo, "tree"))
	g.write("repo/odd/HEAD", "ref: refs/heads/main\n")
	g.write("repo/odd/commondir", "../store\n")
	g.write("repo/models/objects/cube.txt", "not a repository\n")
	for _, git := range []*permission.Git{nil, permission.NewGitSoon(g.repo)} {
		place := permission.PathContext{Dir: g.repo, GitEnv: true, Git: git}
		for name, want := range map[string]permission.Verdict{
			"store/config": permission.Ask, "store/hooks/new": permission.Ask, "store/info/attributes": permission.Ask,
			"data/deep/config": permission.Ask, "store/worktrees/tree/commondir": permission.Ask, "in/.git": permission.Ask,
			"odd/config.worktree": permission.Ask, "a.txt": permission.Allow, "data/other": permission.Allow,
			"models/config": permission.Allow,
			"tree/a.txt":    permission.Allow,
		} {
			subject := permission.Subject{Kind: "Edit", Text: filepath.Join(g.repo, name)}
			if d := (permission.Rules{}).Decide(t.Context(), permission.AcceptEdits, place, subject); d.Verdict != want {
				t.Errorf("edit %s: %v, want %v", name, d.Verdict, want)
			}
			if d := (permission.Rules{}).Decide(t.Context(), permission.AcceptEdits, place,
				permission.Subject{Kind: "Bash", Text: "echo x > " + name}); d.Verdict != want {
				t.Errorf("bash > %s: %v, want %v", name, d.Verdict, want)
			}
		}
	}
}

// TestGitTags: a tag that git prints is a single word, and may be an option only
// if the repository has a tag that looks like one.
func TestGitTags(t *testing.T) {
	g := newGitGround(t)
	g.git("repo", "tag", "v1")
	place := permission.PathContext{Dir: g.repo, GitEnv: true, Git: permission.NewGitSoon(g.repo)}
	verdict := func(rules string) string {
		d := permission.Rules{Allow: rulesOf(t, rules, permission.User)}.Decide(t.Context(), permission.Default, place,
			permission.Subject{Kind: "Bash", Text: "git log $(git describe --tags --abbrev=0)..HEAD --oneline"})
		return d.Verdict.String()
	}
	if got := verdict(""); got != "allow" {
		t.Errorf("%s, want allow", got)
	}
	if got := verdict("Bash(git log:*)"); got != "allow" {
		t.Errorf("with a rule %s, want allow", got)
	}
	g.git("repo", "update-ref", "refs/tags/--output=x", "HEAD")
	if got := verdict(""); got != "ask" {
		t.Errorf("with an odd tag: %s, want ask", got)
	}
	if got := verdict("Bash(git log:*)"); got != "ask" {
		t.Errorf("with an odd tag and a rule: %s, want ask", got)
	}
}

// TestGitUser: git uses the configuration of the user that Environ names, and never one that a relative path names in
// the repository.
func TestGitUser(t *testing.T) {
	g := newGitGround(t)
	g.write("broken/.gitconfig", "[user\n")
	g.write("repo/planted", "[user\n")
	for _, c := range []struct {
		environ []string
		fails   bool
	}{
		{append(slices.Clip(g.env), "HOME="+filepath.Join(g.top, "broken")), true},
		{append(slices.Clip(g.env), "GIT_CONFIG_GLOBAL="+filepath.Join(g.repo, "planted")), true},
		{append(slices.Clip(g.env), "GIT_CONFIG_GLOBAL=planted", "XDG_CONFIG_HOME=planted"), false},
		{g.env, false},
		{nil, false},
	} {
		git := permission.NewGitSoon(g.repo)
		git.Environ = c.environ
		if _, unguarded := git.Env(nil); len(unguarded) > 0 != c.fails {
			t.Errorf("%v: unguarded %q", c.environ[max(len(c.environ)-2, 0):], unguarded)
		}
	}
}

// TestGitAskedOnce: git is asked again only after a file that its answers depend on has changed, and
// then only for the answers that depend on it. What the sandbox does around each command, and what git
// adds to its directory, is no such change.
func TestGitAskedOnce(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("changes cannot be detected on this system: git is asked each time")
	}
	g := newGitGround(t)
	g.nest("repo/in")
	started := g.countStarts()
	git := permission.NewGitSoon(g.repo)
	command := func() string {
		t.Helper()
		if unguarded, err := git.Check(t.Context(), g.repo); len(unguarded) > 0 || err != nil {
			t.Fatal(unguarded, err)
		}
		env, _ := git.Env(nil)
		return strings.Join(env, "\n")
	}
	quiet := func() { // files become old enough
		t.Helper()
		for range 300 {
			command()
			started()
			if command(); len(started()) == 0 {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal("git is asked each time")
	}
	quiet()
	for i := range 10 { // each with the placeholders of the sandbox, and another command that runs meanwhile
		g.write("repo/.git/config.worktree", "# A placeholder\n")
		g.write("repo/.git/commondir", "./././.\n")
		command()
		g.write("repo/.git/COMMIT_EDITMSG", fmt.Sprint(i))
		os.Remove(filepath.Join(g.repo, ".git", "commondir"))
		os.Remove(filepath.Join(g.repo, ".git", "config.worktree"))
		command()
	}
	if got := started(); len(got) > 0 {
		t.Errorf("git was started %d times: %q", len(got), got)
	}
	// A decision and the start of its command ask once, unless they are far apart.
	once := func(want []string, args ...string) {
		t.Helper()
		var got []string
		for range 10 {
			quiet()
			g.git("repo", args...)
			started()
			command()
			if got = started(); slices.Equal(got, want) {
				return
			}
		}
		t.Errorf("after git %v git was started for %q, want %q", args, got, want)
	}
	once([]string{"ls-files"}, "update-index", "--force-write-index")
	once([]string{"rev-parse", "config"}, "config", "--add", "x.y", "z")
	quiet()

	// What only looks like a placeholder is read.
	g.git("repo", "config", "core.repositoryformatversion", "1")
	g.git("repo", "config", "extensions.worktreeConfig", "true")
	quiet()
	g.write("repo/.git/config.worktree", "# A placeholder\n[filter \"w\"]\n\tclean = x\n")
	if !strings.Contains(command(), "filter.w.clean") {
		t.Error("the configuration of a worktree was not seen")
	}
	os.Remove(filepath.Join(g.repo, ".git", "config.worktree"))
	quiet()

	// A link to a configuration leads to the file that counts.
	g.write("repo/settings", "[core]\n\trepositoryformatversion = 0\n")
	g.link(filepath.Join(g.repo, "settings"), "repo/.git/config")
	quiet()
	g.write("repo/settings", g.filter())
	if !strings.Contains(command(), "filter.evil.clean") {
		t.Error("a change of the linked configuration was not seen")
	}

	// Without HEAD the directory is no repository any more, and git would use the one above.
	g.link(filepath.Join(g.repo, "settings"), "repo/.git/config")
	quiet()
	if err := os.Rename(filepath.Join(g.repo, ".git", "HEAD"), filepath.Join(g.repo, ".git", "HEAD2")); err != nil {
		t.Fatal(err)
	}
	if _, err := git.Check(t.Context(), g.repo); err == nil {
		t.Error("a repository that is none any more was not noticed")
	}
}

// TestGitAskedPerDecision: a decision asks git once about a repository whose files have just changed.
func TestGitAskedPerDecision(t *testing.T) {
	g := newGitGround(t)
	started := g.countStarts()
	for _, c := range []struct {
		untrusted bool
		command   string
		want      []string
	}{
		{false, "git status && git -C . diff HEAD && wc -l a.txt > b.txt", []string{"rev-parse", "config", "ls-files"}},
		{true, "git status && git -C . diff HEAD", []string{"rev-parse", "config", "ls-files", "version"}},
	} {
		started()
		place := permission.PathContext{Dir: g.repo, GitEnv: true, Git: permission.NewGit(g.repo), Untrusted: c.untrusted}
		permission.Rules{}.Decide(t.Context(), permission.AcceptEdits, place,
			permission.Subject{Kind: "Bash", Text: c.command})
		if got := started(); !slices.Equal(got, c.want) {
			t.Errorf("untrusted %v: git was started for %q, want %q", c.untrusted, got, c.want)
		}
	}
}

// countStarts puts a git first in PATH that logs its subcommand. The func that it returns reports the
// starts since its last call.
func (g *gitFixture) countStarts() func() []string {
	real, err := exec.LookPath("git")
	if err != nil {
		g.t.Fatal(err)
	}
	log := filepath.Join(g.top, "starts")
	g.write("bin/git", "#!/bin/sh\nfor a; do case $a in -*) ;; *) echo \"$a\" >> '"+log+"'; break;; esac; done\n"+
		"exec '"+real+"' \"$@\"\n")
	if err := os.Chmod(filepath.Join(g.top, "bin", "git"), 0o700); err != nil {
		g.t.Fatal(err)
	}
	g.t.Setenv("PATH", filepath.Join(g.top, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return func() []string {
		data, _ := os.ReadFile(log)
		os.Truncate(log, 0)
		return strings.Fields(string(data))
	}
}

// TestGitUntrusted: in a folder that is not trusted, git commands that only read need no approval, unless
// the repository leads git to files that it chooses, or to programs that cannot be overridden. Found by attack: "git
// status" and "git worktree list" printed lines of any file to which a link in the git directory leads.
func TestGitUntrusted(t *testing.T) {
	var git *permission.Git
	decide := func(g *gitFixture, confined bool, rules, command string) permission.Decision {
		place := permission.PathContext{Dir: g.repo, Home: filepath.Join(g.top, "home"), GitEnv: true, Untrusted: true,
			Git: git, Confined: func() bool { return confined }}
		return permission.Rules{Allow: rulesOf(t, rules, permission.User)}.Decide(t.Context(), permission.Default, place,
			permission.Subject{Kind: "Bash", Text: command})
	}
	plain := newGitGround(t)
	plain.git("repo", "config", "filter.evil.clean", plain.evil)
	git = permission.NewGitSoon(plain.repo)
	for _, command := range []string{"git status", "git log --oneline -5", "git diff", "git diff --stat HEAD",
		"git show HEAD", "git branch -a", "git blame a.txt", "git ls-files", "git rev-parse HEAD", "git remote -v",
		"git stash list", "git tag -l", "git fsck", "git submodule status", "git notes list",
		"git describe --always", "git config --get user.name", "git log -1 && git status --short", "git grep x"} {
		if d := decide(plain, false, "", command); d.Verdict != permission.Allow {
			t.Errorf("%s: %v: %s", command, d.Verdict, d.Reason)
		}
	}
	for _, command := range []string{"git commit -m x", "git checkout x", "git fetch", "git pull", "git add a.txt"} {
		if d := decide(plain, true, "Bash(git:*)", command); d.Verdict != permission.Ask ||
			!strings.HasPrefix(d.Reason, permission.ReasonUntrusted) {
			t.Errorf("with a rule: %s: %v: %s", command, d.Verdict, d.Reason)
		}
	}
	for want, prepare := range map[string]func(g *gitFixture){
		"blame.ignorerevsfile": func(g *gitFixture) { g.git("repo", "config", "blame.ignoreRevsFile", "/etc/passwd") },
		"core.worktree":        func(g *gitFixture) { g.git("repo", "config", "core.worktree", g.top) },
		"core.attributesfile":  func(g *gitFixture) { g.git("repo", "config", "core.attributesFile", "/etc/passwd") },
		"core.excludesfile":    func(g *gitFixture) { g.git("repo", "config", "core.excludesFile", "/etc/passwd") },
		"mailmap.file":         func(g *gitFixture) { g.git("repo", "config", "mailmap.file", "/etc/passwd") },
		"fsck.skiplist":        func(g *gitFixture) { g.git("repo", "config", "fsck.skipList", "/etc/passwd") },
		"diff.orderfile":       func(g *gitFixture) { g.git("repo", "config", "diff.orderFile", "/etc/passwd") },
		"include.path":         func(g *gitFixture) { g.git("repo", "config", "include.path", "/nowhere") },
		"includeif.gitdir:x.path": func(g *gitFixture) {
			g.git("repo", "config", "includeIf.gitdir:x.path", "/nowhere")
		},
		"format.pretty":     func(g *gitFixture) { g.git("repo", "config", "format.pretty", "%h %G?") },
		"core.gitproxy":     func(g *gitFixture) { g.git("repo", "config", "core.gitProxy", g.evil) },
		"remote.x.vcs":      func(g *gitFixture) { g.git("repo", "config", "remote.x.vcs", "evil") },
		"a promisor remote": func(g *gitFixture) { g.git("repo", "config", "remote.x.promisor", "true") },
		"objects/info/alternates": func(g *gitFixture) {
			g.write("repo/.git/objects/info/alternates", filepath.Join(g.top, "home")+"\n")
		},
		"the .git file": func(g *gitFixture) {
			g.git("repo", "init", "-q", "--separate-git-dir", filepath.Join(g.top, "store"))
		},
		"the link": func(g *gitFixture) { g.link(filepath.Join(g.top, "home"), "repo/.git/objects/aa") },
		"rebase-merge/done": func(g *gitFixture) { // git status prints its last lines
			g.write("home/secret", "x\n")
			g.write("repo/.git/rebase-merge/interactive", "")
			g.link(filepath.Join(g.top, "home", "secret"), "repo/.git/rebase-merge/done")
		},
		"older than 2.31": func(g *gitFixture) {
			g.countStarts()
			g.write("bin/git", "#!/bin/sh\ncase $* in *version) echo git version 2.30.2;; *) exec /usr/bin/env "+
				"PATH='"+strings.TrimPrefix(os.Getenv("PATH"), filepath.Join(g.top, "bin")+":")+"' git \"$@\";; esac\n")
		},
	} {
		t.Run(want, func(t *testing.T) {
			g := newGitGround(t)
			prepare(g)
			git = permission.NewGitSoon(g.repo)
			d := decide(g, false, "", "git status")
			if d.Verdict != permission.Ask || !strings.Contains(d.Reason, want) {
				t.Errorf("%v: %s", d.Verdict, d.Reason)
			}
			confined := decide(g, true, "", "git status").Verdict
			if allowed := want == "a promisor remote"; confined == permission.Allow != allowed {
				t.Errorf("in a complete sandbox: %v", confined)
			}
			if d := decide(g, false, "Bash(git:*)", "git status"); d.Verdict != permission.Ask {
				t.Errorf("with a rule: %v", d.Verdict)
			}
		})
	}
	elsewhere := newGitGround(t) // only what the directory .git shares with others is outside
	elsewhere.write("other/a.txt", "x\n")
	elsewhere.git("other", "init", "-q")
	elsewhere.write("repo/.git/commondir", filepath.Join(elsewhere.top, "other", ".git")+"\n")
	git = permission.NewGitSoon(elsewhere.repo)
	if d := decide(elsewhere, false, "", "git status"); d.Verdict != permission.Ask ||
		!strings.Contains(d.Reason, "the .git file") {
		t.Errorf("commondir: %v: %s", d.Verdict, d.Reason)
	}
}

// TestGitUntrustedWorktree: in a worktree where Knack makes them, reading asks as little as in the main work tree. Every
// git status asked, and no rule could allow it.
func TestGitUntrustedWorktree(t *testing.T) {
	g := newGitGround(t)
	for dir, want := range map[string]permission.Verdict{
		filepath.Join(g.top, "repo.worktrees", "fix"): permission.Allow,
		filepath.Join(g.top, "elsewhere"):             permission.Ask,
	} {
		g.git("repo", "worktree", "add", "-q", dir)
		place := permission.PathContext{Dir: dir, Home: filepath.Join(g.top, "home"), GitEnv: true, Untrusted: true,
			Git: permission.NewGitSoon(dir), Confined: func() bool { return true }}
		decide := func() permission.Decision {
			place.Git = permission.NewGitSoon(dir)
			return permission.Rules{}.Decide(t.Context(), permission.Default, place,
				permission.Subject{Kind: "Bash", Text: "git status"})
		}
		if d := decide(); d.Verdict != want {
			t.Errorf("%s: %v: %s", dir, d.Verdict, d.Reason)
		}
		own := filepath.Join(g.repo, ".git", "worktrees", filepath.Base(dir), "gitdir")
		if err := os.WriteFile(own, []byte(filepath.Join(g.top, "home", ".git")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if d := decide(); d.Verdict != permission.Ask { // the repository does not refer back to it
			t.Errorf("%s, of another: %v: %s", dir, d.Verdict, d.Reason)
		}
	}
}

// TestGitNamed: what the configuration of a repository names is known, so that it is protected: hooks, programs with
// their arguments, and more settings.
func TestGitNamed(t *testing.T) {
	g := newGitGround(t)
	for _, name := range []string{"tools/clean.sh", "tools/monitor", "tools/hooks/pre-commit"} {
		g.write("repo/"+name, "#!/bin/sh\n")
	}
	g.write("repo/more.config", "[color]\n\tui = false\n")
	for _, set := range [][2]string{{"core.hooksPath", "tools/hooks"}, {"filter.x.clean", "sh ./tools/clean.sh %f"},
		{"core.fsmonitor", g.repo + "/tools/monitor"}, {"include.path", "../more.config"}, {"color.diff", "tools"}} {
		g.git("repo", "config", set[0], set[1])
	}
	var want []string
	for _, name := range []string{"more.config", "tools/clean.sh", "tools/hooks", "tools/monitor"} {
		want = append(want, filepath.ToSlash(filepath.Join(g.repo, name)))
	}
	if got := permission.NewGitSoon(g.repo).Named(t.Context()); !slices.Equal(got, want) {
		t.Errorf("named %q, want %q", got, want)
	}
}

// TestGitYoungFiles: an answer about a file that has just changed is not used for the next command, because the file
// may change once more without a new change time.
func TestGitYoungFiles(t *testing.T) {
	const young = time.Second // less than the time for which a file counts as young
	g := newGitGround(t)
	started := g.countStarts()
	git := permission.NewGit(g.repo)
	place := permission.PathContext{Dir: g.repo, GitEnv: true, Git: git}
	decide := func() error {
		d := permission.Rules{}.Decide(t.Context(), permission.Default, place,
			permission.Subject{Kind: "Bash", Text: "git status"})
		if d.Verdict != permission.Allow {
			return errors.New(d.Reason)
		}
		return nil
	}
	check := func() error {
		_, err := git.Check(t.Context(), g.repo)
		return err
	}
	for name, ask := range map[string]func() error{"decision": decide, "check": check} {
		shown := false
		for range 50 { // until the machine is fast enough to show it
			changed := time.Now()
			g.git("repo", "config", "user.name", fmt.Sprint(changed.UnixNano()))
			for range 2 {
				started()
				if err := ask(); err != nil {
					t.Fatal(err)
				}
			}
			again := len(started()) > 0
			if shown = time.Since(changed) < young; shown {
				if !again {
					t.Errorf("the second %s used the answer about a file that had just changed", name)
				}
				break
			}
		}
		if !shown {
			t.Skip("this machine is too slow: no file was young enough")
		}
	}
}

// A directory below keeps the repository if nothing begins another one there: then git that reads needs no rule after
// cd, and with -C. What git prints as the top of the repository is known if it is the working directory.
func TestGitBelow(t *testing.T) {
	g := newGitGround(t)
	g.write("repo/src/deep/x", "x")
	g.write("repo/own/.git", "gitdir: "+filepath.Join(g.top, "other", ".git"))
	g.write("repo/own/deep/x", "x")
	g.write("repo/bare/HEAD", "ref: refs/heads/main")
	g.write("repo/common/commondir", "..")
	g.write("other/src/x", "x")
	g.link(filepath.Join(g.top, "other"), "repo/link")
	g.link("src", "repo/inner")
	place := permission.PathContext{Dir: g.repo, Roots: []string{g.repo}, Home: filepath.Join(g.top, "home"), GitEnv: true,
		Git: permission.NewGitSoon(g.repo)}
	rules := permission.Rules{Allow: rulesOf(t, "Bash(cp:*)", permission.User)}
	for line, want := range map[string]string{
		"cd src && git status": "allow", "cd src; git log -3": "allow", "cd src/deep && git diff": "allow",
		"(cd src && git status) && git log": "allow", "cd src && cd deep && git status 2>/dev/null": "allow",
		"cd ./src/ && git status -s | head": "allow",
		"cd own && git status":              "ask", "cd own/deep && git status": "ask", "cd bare && git status": "ask",
		"cd common && git status": "ask", "cd link && git status": "ask", "cd link/src && git log": "ask",
		"cd inner && git status": "ask", "cd .. && git status": "ask", "cd src/../.. && git status": "ask",
		"cd " + g.repo + "-missing && git status": "ask", // beside it, as in the session's own /tmp
		"cd missing && git status":                "allow", "cd $X && git status": "ask", "cd src && git commit -m x": "ask",
		"cp -r evil src && cd src && git status":            "ask",
		"cp -r evil src && bash -c 'cd src && git status'":  "ask",
		"echo x > src/HEAD; cd src && git status":           "ask",
		"bash -c 'echo x > src/HEAD'; cd src && git status": "ask",
		"CDPATH=../other; cd src && git status":             "ask", "cd src/../link/.. && git status": "ask",
		"cd link/.. && git status":                                            "ask",
		"for d in src own; do cd $d; git status; done":                        "ask",
		"GIT_DIR=../other/.git; cd src && git status":                         "ask",
		"cd src && git -C ../../other status":                                 "ask",
		"git -C src status":                                                   "allow",
		"git -C src -C deep log -3 | head":                                    "allow",
		"git -C . diff && git -C src/deep status":                             "allow",
		"git -C own status":                                                   "ask",
		"git -C src -C ../own status":                                         "ask",
		"git -C link status":                                                  "ask",
		"git -C ~/x status":                                                   "ask",
		"git -C src commit -m x":                                              "ask",
		"git -C src -c core.fsmonitor=evil status":                            "ask",
		"git -C src diff /etc/passwd":                                         "ask",
		"git -C $X status":                                                    "ask",
		"echo x > src/HEAD; git -C src status":                                "ask",
		"git --git-dir=.git status":                                           "ask",
		"git --git-dir ../other/.git status":                                  "ask",
		"pushd src && git status && popd":                                     "allow",
		"pushd own && git status":                                             "ask",
		"pushd .. && ls":                                                      "ask",
		"popd +1 && git status":                                               "ask",
		`cd "$(git rev-parse --show-toplevel)" && ls`:                         "allow",
		`cd "$(git rev-parse --show-toplevel 2>/dev/null)/src" && git status`: "allow",
		`top=$(git rev-parse --show-toplevel); cat "$top/src/x"`:              "allow",
		`git -C "$(git rev-parse --show-toplevel)" log`:                       "allow",
		`cd src && cd "$(git rev-parse --show-toplevel)" && git log`:          "allow",
		`cd own && cd "$(git rev-parse --show-toplevel)" && ls`:               "ask",
		`cd "$(git rev-parse --show-toplevel)/.." && ls`:                      "ask",
		`cd "$(git rev-parse --show-toplevel)/own" && git status`:             "ask",
		`cat "$(git rev-parse --show-toplevel)/../other/src/x"`:               "ask",
		`cd "$(git rev-parse --show-toplevel; echo /)" && ls`:                 "ask",
		`git() { echo /; }; cd "$(git rev-parse --show-toplevel)" && ls`:      "ask",
		`GIT_DIR=../other/.git; cd "$(git rev-parse --show-toplevel)" && ls`:  "ask",
		`cd "$(GIT_WORK_TREE=/ git rev-parse --show-toplevel)" && ls`:         "ask",
		`cd "$(git -C own rev-parse --show-toplevel)" && ls`:                  "ask",
		`bash -c 'cd own; cd "$(git rev-parse --show-toplevel)" && cat x'`:    "ask",
		"cd src && git fsck --lost-found":                                     "ask",
		"git notes --ref list prune":                                          "ask",
		"git submodule --quiet foreach status":                                "ask",
		"git submodule update status":                                         "ask",
		"git fsck $X":                                                         "ask",
		"date -Rs2020-01-01":                                                  "ask",
		"date -I 010100002020":                                                "ask",
	} {
		d := rules.Decide(t.Context(), permission.AcceptEdits, place, permission.Subject{Kind: "Bash", Text: line})
		if d.Verdict.String() != want {
			t.Errorf("%s: %v, want %s: %s", line, d.Verdict, want, d.Reason)
		}
	}
}

// TestGitOwnReadsNoFile: git that runs for Knack itself reads no file that the configuration of a repository names
// outside the work tree; the user's own and those in the work tree count.
func TestGitOwnReadsNoFile(t *testing.T) {
	f := newGitGround(t)
	own := func(args ...string) string {
		t.Helper()
		g := permission.NewGit(f.repo)
		g.Environ = f.env
		cmd, err := g.Command(t.Context(), f.repo, args...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	f.write("outside/attributes", "*.txt binary\n")
	f.write("outside/ignored", "new.txt\n")
	f.write("outside/names", "Another <c@d> <a@b>\n")
	f.write("outside/order", "z.txt\n")
	f.write("outside/message", "of a template\n")
	f.write("repo/ignored-here", "in-tree.txt\n")
	for _, name := range []string{"repo/new.txt", "repo/in-tree.txt", "repo/z.txt"} {
		f.write(name, "x\n")
	}
	f.write("repo/a.txt", "changed\n")
	f.git("repo", "add", "-f", "a.txt", "z.txt")
	outside := func(name string) string { return filepath.Join(f.top, "outside", name) }
	for _, kv := range [][2]string{{"core.attributesFile", outside("attributes")},
		{"core.excludesFile", outside("ignored")}, {"mailmap.file", outside("names")}, {"diff.orderFile", outside("order")}, {"commit.template", outside("message")}} {
		f.git("repo", "config", kv[0], kv[1])
	}
	for _, x := range []struct{ args, has, not string }{
		{"diff --cached", "+changed", "Binary"},
		{"status --short", "new.txt", "!!"},
		{"log --use-mailmap --format=%aN", "", "Another"},
		{"diff --cached --name-only", "a.txt\nz.txt", ""},
	} {
		out := own(strings.Fields(x.args)...)
		if !strings.Contains(out, x.has) || x.not != "" && strings.Contains(out, x.not) {
			t.Errorf("git %s: %q", x.args, out)
		}
	}
	f.git("repo", "config", "core.excludesFile", "ignored-here")
	if out := own("status", "--short"); strings.Contains(out, "in-tree.txt") {
		t.Errorf("a file of the work tree does not count: %q", out)
	}
	f.git("repo", "config", "--add", "core.excludesFile", outside("ignored"))
	if out := own("status", "--short"); !strings.Contains(out, "new.txt") {
		t.Errorf("the second of two values was not seen: %q", out)
	}
}
