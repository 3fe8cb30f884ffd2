package permission_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestGitWrites: a git command that would write protected files in the work tree asks for exactly these, also under a
// rule that allows it, and a rule that names a file answers for that one. Found by attack: options hid the branch
// ("checkout -m", "rebase -m"), "git pull REMOTE BRANCH" asked about the upstream branch, and rules for single files
// left half a merge.
func TestGitWrites(t *testing.T) {
	g := newGitGround(t)
	g.git("repo", "add", ".gitattributes")
	g.write("repo/.vscode/settings.json", "one")
	g.write("repo/.husky/pre-commit", "one")
	g.write("repo/go.mod", "one")
	g.git("repo", "add", ".")
	g.git("repo", "commit", "-qm", "base")
	commit := func(name, message string) {
		g.git("repo", "add", "-A")
		g.git("repo", "commit", "-qm", message)
		g.git("repo", "branch", "-f", name)
	}
	g.git("repo", "checkout", "-q", "-b", "work")
	g.write("repo/.vscode/settings.json", "two")
	g.write("repo/.idea/workspace.xml", "two")
	g.write("repo/.env", "two")
	commit("two", "two")
	g.git("repo", "checkout", "-q", "main")
	g.write("repo/.mcp.json", "three")
	g.write("repo/go.mod", "three")
	commit("three", "three")
	g.git("repo", "branch", "-q", "-u", "two", "main")
	g.git("repo", "update-ref", "refs/remotes/origin/four", "two")
	g.git("repo", "format-patch", "-q", "-1", "-o", filepath.Join(g.top, "repo"), "two")
	g.write("repo/.vscode/settings.json", "mine")
	g.git("repo", "stash", "-q")
	g.write("repo/.husky/pre-commit", "mine")
	g.write("repo/.zed/tasks.json", "new")

	two := ".env .idea/workspace.xml .vscode/settings.json" // differ between the branch two and its base
	g.git("repo", "fetch", "-q", ".", "two")
	git := permission.NewGitSoon(g.repo)
	place := permission.PathContext{Dir: g.repo, Home: filepath.Join(g.top, "home"), Git: git, GitEnv: true}
	decide := func(command string, more ...string) (asked []string) {
		t.Helper()
		rules, problems := permission.ParseRules(append(more, "Bash(git:*)"), permission.Flag, "")
		if problems != nil {
			t.Fatal(problems)
		}
		d := permission.Rules{Allow: rules}.Decide(t.Context(), permission.Default, place,
			permission.Subject{Kind: permission.KindBash,
				Text: command})
		for _, s := range d.Subjects {
			if s.Verdict == permission.Ask && s.Kind == permission.KindEdit && s.Replace {
				name, _ := filepath.Rel(g.repo, s.Text)
				asked = append(asked, filepath.ToSlash(name))
			}
		}
		slices.Sort(asked)
		return asked
	}
	for _, c := range [][2]string{
		{"git checkout two", ".env .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"git checkout -q -b new two", ".env .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"git checkout four", ".env .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"git switch --detach two", ".env .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"git -C . switch two", ".env .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"sh -c 'git switch two'", ".env .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"git checkout main", ""},
		{"git checkout -f main", ".husky/pre-commit"},
		{"git checkout -m two", ".env .husky/pre-commit .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"git switch -qm two", ".env .husky/pre-commit .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"git checkout --conflict diff3 -m two",
			".env .husky/pre-commit .idea/workspace.xml .mcp.json .vscode/settings.json"},
		{"git checkout -b new", ""},
		{"git mv go.mod .vscode/go.mod", ".vscode/go.mod"},
		{"git sparse-checkout set src", ".git/config .git/config.worktree .husky/pre-commit .mcp.json " +
			".vscode/settings.json"},
		{"git sparse-checkout list", ""},
		{"git checkout two -- go.mod", ""},
		{"git checkout two -- .vscode", ".vscode/settings.json"},
		{"git checkout -- .", ".husky/pre-commit"},
		{"git restore .", ".husky/pre-commit"},
		{"git restore --staged .", ""},
		{"git restore --source two .idea", ".idea/workspace.xml"},
		{"git merge two", two},
		{"git pull", two},
		{"git pull --rebase", two + " .mcp.json"},
		{"git merge --no-ff three", ""},
		{"git cherry-pick two", two},
		{"git cherry-pick -s two", two},
		{"git revert HEAD", ".mcp.json"},
		{"git cherry-pick -m 1 two", two},
		{"git rebase -m two", two + " .mcp.json"},
		{"git rebase -s ort -X ours -x true two", two + " .mcp.json"},
		{"git read-tree -m -u two", ".env .idea/workspace.xml .husky/pre-commit .mcp.json .vscode/settings.json"},
		{"git rebase two", two + " .mcp.json"},
		{"git rebase --onto two HEAD~1", two + " .mcp.json"},
		{"git reset --hard HEAD~1", ".husky/pre-commit .mcp.json"},
		{"git reset HEAD~1", ""},
		{"git stash", ".husky/pre-commit"},
		{"git stash -u", ".husky/pre-commit .zed/tasks.json"},
		{"git stash push go.mod", ""},
		{"git stash pop", ".vscode/settings.json"},
		{"git stash list", ""},
		{"git apply 0001-two.patch", two},
		{"git apply --check 0001-two.patch", ""},
		{"git am 0001-two.patch", two},
		{"git am -s 0001-two.patch", two},
		{"git rebase HEAD~1 two", two + " .mcp.json"},
		{"git rm -r --cached .", ""},
		{"git rm -rq .idea .husky", ".husky/pre-commit"},
		{"git worktree add wt two", "wt/.env wt/.husky/pre-commit wt/.idea/workspace.xml wt/.vscode/settings.json"},
		{"git worktree add /tmp/elsewhere/wt two", ""},
		{"git clone https://example.com/a/b.git", "b"},
		{"git clone ../repo sub", "sub"},
		{"git clone ../repo /tmp/elsewhere/sub", ""},
		{"git init sub", "sub/.git"},
		{"git init --bare sub.git", "sub.git"},
		{"git commit -am x", ""},
		{"git fetch --all", ""},
		{"git branch -D two", ""},
	} {
		want := strings.Fields(c[1])
		slices.Sort(want)
		if got := decide(c[0]); !slices.Equal(got, want) {
			t.Errorf("%s: asks for %q, want %q", c[0], got, want)
		}
	}
	g.git("repo", "branch", "--unset-upstream")
	for _, c := range [][2]string{
		{"git pull", two}, // has been fetched
		{"git pull . two", two},
		{"git pull . three", ""},
		{"git pull -q --no-rebase origin four", two},
		{"git pull -j 4 --rebase origin +four:x", two + " .mcp.json"},
		{"git pull https://example.com/a/b.git a", two},
	} {
		want := strings.Fields(c[1])
		slices.Sort(want)
		if got := decide(c[0]); !slices.Equal(got, want) {
			t.Errorf("%s without upstream: asks for %q, want %q", c[0], got, want)
		}
	}
	// What an interrupted command has still to apply is known by its state.
	g.write("repo/.git/rebase-merge/git-rebase-todo", "pick "+g.output("rev-parse", "--short=4", "two")+" two\n")
	if got, want := decide("git rebase --continue"), strings.Fields(".env .husky/pre-commit .idea/workspace.xml "+
		".vscode/settings.json"); !slices.Equal(got, want) {
		t.Errorf("an interrupted rebase: asks for %q, want %q", got, want)
	}
	if err := os.RemoveAll(filepath.Join(g.repo, ".git/rebase-merge")); err != nil {
		t.Fatal(err)
	}
	patch, err := os.ReadFile(filepath.Join(g.repo, "0001-two.patch"))
	if err != nil {
		t.Fatal(err)
	}
	g.write("repo/.git/rebase-apply/0001", string(patch))
	if got, want := decide("git am --continue"), strings.Fields(".env .husky/pre-commit .idea/workspace.xml "+
		".vscode/settings.json"); !slices.Equal(got, want) {
		t.Errorf("an interrupted am: asks for %q, want %q", got, want)
	}
	if err := os.RemoveAll(filepath.Join(g.repo, ".git/rebase-apply")); err != nil {
		t.Fatal(err)
	}
	rule := func(name string) string { return "Edit(/" + filepath.ToSlash(filepath.Join(g.repo, name)) + ")" }
	if got := decide("git cherry-pick two", rule(".idea/workspace.xml"), rule(".env")); !slices.Equal(got,
		[]string{".vscode/settings.json"}) {
		t.Errorf("rules for two of three files: still asks for %q", got)
	}
	if got := decide("git cherry-pick two", rule(".idea"), rule(".env"), rule(".vscode")); len(got) > 0 {
		t.Errorf("rules for the directories: still asks for %q", got)
	}
	// A submodule that is not here yet is written as a whole, and of one that is here the files that differ.
	g.write("lib/.vscode/settings.json", "one")
	g.git("lib", "init", "-q", "-b", "main")
	g.git("lib", "add", ".")
	g.git("lib", "commit", "-qm", "one")
	if got, want := decide("git submodule add -b main ../lib"), []string{".git/config", ".git/modules", ".gitmodules",
		"lib"}; !slices.Equal(got, want) {
		t.Errorf("submodule add: asks for %q, want %q", got, want)
	}
	g.git("repo", "-c", "protocol.file.allow=always", "submodule", "add", "-q", filepath.Join(g.top, "lib"), "lib")
	if got := decide("git submodule update"); !slices.Equal(got, []string{".git/modules/lib/config"}) {
		t.Errorf("submodule update: asks for %q", got)
	}
	g.write("repo/lib/.vscode/settings.json", "two")
	if got, want := decide("git submodule update --init lib"), []string{".git/modules/lib/config",
		"lib/.vscode/settings.json"}; !slices.Equal(got, want) {
		t.Errorf("submodule update of changes: asks for %q, want %q", got, want)
	}
	if err := os.RemoveAll(filepath.Join(g.repo, "lib")); err != nil {
		t.Fatal(err)
	}
	if got, want := decide("git submodule update"), []string{".git/config", ".git/modules", "lib"}; !slices.Equal(got, want) {
		t.Errorf("submodule update --init: asks for %q, want %q", got, want)
	}
}

// TestProtectedTable: files from which other agents, editors and tools start code are protected, at any depth and in
// any letter case; ordinary files are not.
func TestProtectedTable(t *testing.T) {
	place := permission.PathContext{Dir: "/w", Protected: []string{"deploy/hooks", "*.run"}}
	decide := func(name string) permission.Verdict {
		return permission.Rules{}.Decide(t.Context(), permission.AcceptEdits, place,
			permission.Subject{Kind: permission.KindEdit,
				Text: name}).Verdict
	}
	for name := range strings.FieldsSeq(".cursor/mcp.json .cursor/hooks.json .gemini/settings.json .codex/config.toml " +
		"opencode.json .opencode/plugin/a.ts .zed/tasks.json .zed/settings.json .kiro/settings/mcp.json " +
		".kiro/hooks/a.kiro.hook " +
		".roo/mcp.json .qwen/settings.json my.code-workspace .exrc .nvim.lua .pnpmfile.cjs lefthook.yml lefthook-local.yml " +
		"mise.toml .mise.toml .mise/config.toml .config/mise/config.toml mise.production.toml .amazonq/mcp.json " +
		".windsurf/mcp.json " +
		".continue/config.yaml .clinerules/hooks/PreToolUse .aider.conf.yml .github/hooks/a.json crush.json " +
		".junie/mcp/mcp.json " +
		".factory/mcp.json .devcontainer.json .devcontainer/devcontainer.json .dir-locals.el .vimrc .vs/tasks.vs.json " +
		".idea/a.iml " +
		".pre-commit-config.yaml .overcommit.yml .yarn/releases/yarn.cjs bunfig.toml .mvn/jvm.config .bazelrc tools/bazel " +
		"devbox.json devenv.nix .envrc .gitpod.yml .idx/dev.nix .Rprofile .irbrc .gdbinit rust-toolchain.toml " +
		".lintstagedrc " +
		".githooks/pre-commit deploy/hooks/a x.run") {
		for _, path := range []string{"/w/" + name, "/w/a/b/" + name, "/w/" + strings.ToUpper(name)} {
			if v := decide(path); v != permission.Ask {
				t.Errorf("%s: %v in acceptEdits", path, v)
			}
		}
	}
	for name := range strings.FieldsSeq("package.json Makefile main.go .github/workflows/ci.yml .gitignore README.md " +
		".editorconfig .eslintrc.json .prettierrc tsconfig.json workspace.code hooks/a deploy/hooks.md x.run.go " +
		"docs/mise.md") {
		if v := decide("/w/" + name); v != permission.Allow {
			t.Errorf("%s: %v in acceptEdits", name, v)
		}
	}
}

// TestGitOwnFiles: a sandbox makes git's own files read-only, so a command that writes one asks for it there, and only
// there. Removing or copying a directory asks for what is protected in it.
func TestGitOwnFiles(t *testing.T) {
	g := newGitGround(t)
	g.git("repo", "checkout", "-qf")
	g.git("repo", "worktree", "add", "-q", "wt", "-b", "side")
	g.git("repo", "worktree", "add", "-q", "../far", "-b", "far")
	g.write("repo/sub/.vscode/settings.json", "x")
	g.write("repo/plain/a.txt", "x")
	g.write("repo/node_modules/p/.vscode/settings.json", "x")
	g.write("repo/keys/.env", "x")
	g.write("repo/.git/info/exclude", ".env\nnode_modules\n")
	const config = ".git/config"
	git := permission.NewGitSoon(g.repo)
	for line, want := range map[string]string{
		"git config user.name A": config, "git config set user.name A": config, "git config --unset user.name": config,
		"git config --get user.name": "", "git config user.name": "", "git config get user.name": "", "git config -l": "",
		"git config --global user.name A": "",
		"git remote -v":                   "", "git remote show": "", "git remote add o ../r": config, "git remote set-url o x": config,
		"git branch new": "", "git branch -d side": config, "git branch -fD side": config, "git branch -m side new": config,
		"git branch --copy side new": config, "git branch -dr o/side": "", "git branch --contains HEAD": "",
		"git branch -u main": config, "git branch --unset-upstream": config,
		"git worktree list": "", "git worktree remove wt": ".git/worktrees/wt wt", "git worktree prune": ".git/worktrees",
		"git worktree remove ../far": "../far .git/worktrees/far",
		"git submodule status":       "", "git submodule init": config + " .git/modules",
		"rm -rf sub": "sub", "rm -r sub plain": "sub", "rm -r plain sub": "sub", "rm -rd sub": "sub", "rm -rf plain": "",
		"find sub -delete": "sub", "find sub -mindepth 1 -type f -delete": "sub", "find sub -name '*.o' -delete": "",
		"find plain -delete": "", "find sub": "", "find keys -delete": "keys", "rm -rf keys": "keys", "find . -delete": ".",
		"find . -name a -delete": "", "git clean -fd": "sub/.vscode/settings.json", "git clean -fdn": "",
		"git clean -fdx": "keys/.env sub/.vscode/settings.json", "git clean -fd plain": "",
		"rm -rf node_modules": "", "cp -r sub copy": "copy", "cp -r plain copy": "",
		"git config user.name A && rm -rf sub": config + " sub",
	} {
		for _, confined := range []bool{true, false} {
			place := permission.PathContext{Dir: g.repo, Roots: []string{g.repo}, Home: filepath.Join(g.top, "home"),
				GitEnv: true, Git: git, Confined: func() bool { return confined }}
			rules := permission.Rules{Allow: rulesOf(t, "Bash(git *) | Bash(rm *) | Bash(cp *) | Bash(find *)", permission.User)}
			d := rules.Decide(t.Context(), permission.Default, place, permission.Subject{Kind: permission.KindBash, Text: line})
			var asked []string
			for _, s := range d.Subjects {
				if s.Verdict == permission.Ask && s.Kind == permission.KindEdit {
					name, _ := filepath.Rel(g.repo, s.Text)
					asked = append(asked, filepath.ToSlash(name))
				}
			}
			slices.Sort(asked)
			got := strings.Join(slices.Compact(asked), " ")
			if confined && got != want {
				t.Errorf("%s: asks for %q, want %q", line, got, want)
			}
			if !confined && got != "" {
				t.Errorf("%s: asks for %q without a sandbox", line, got)
			}
		}
	}
}

// TestRemovedSecrets: who approves that a file with secrets goes or gets another name opens it for that.
func TestRemovedSecrets(t *testing.T) {
	g := newGitGround(t)
	g.write("repo/.env", "x")
	g.write("repo/sub/.env.local", "x")
	for line, want := range map[string]string{"rm .env": ".env", "mv .env .env.old": ".env",
		"mv a.env sub/.env.local": "sub/.env.local", "unlink sub/.env.local": "sub/.env.local", "rm a.txt": "", "rm .env.example": "", "rm missing/.env": ""} {
		for _, confined := range []bool{true, false} {
			place := permission.PathContext{Dir: g.repo, Roots: []string{g.repo}, Home: filepath.Join(g.top, "home"),
				Confined: func() bool { return confined }}
			d := permission.Rules{}.Decide(t.Context(), permission.Default, place,
				permission.Subject{Kind: permission.KindBash, Text: line})
			got := ""
			for _, s := range d.Subjects {
				if s.Verdict == permission.Ask && s.Kind == permission.KindRead {
					got, _ = filepath.Rel(g.repo, s.Text)
				}
			}
			if filepath.ToSlash(got) != want && confined || got != "" && !confined {
				t.Errorf("%s: asks to read %q, want %q (confined: %t)", line, got, want, confined)
			}
		}
	}
}

// TestGitOwnFilesOnce: no answer for longer opens git's own files or a new repository, since such a rule would open
// them to every later command. A rule that somebody wrote for one opens it to git, and asks where other programs of the
// line could write it, too.
func TestGitOwnFilesOnce(t *testing.T) {
	g := newGitGround(t)
	g.git("repo", "checkout", "-qf")
	git := permission.NewGitSoon(g.repo)
	place := permission.PathContext{Dir: g.repo, Roots: []string{g.repo}, Home: filepath.Join(g.top, "home"),
		GitEnv: true, Git: git, Confined: func() bool { return true }}
	decide := func(line string, rules permission.Rules) permission.Decision {
		return rules.Decide(t.Context(), permission.Default, place, permission.Subject{Kind: permission.KindBash, Text: line})
	}
	for _, line := range []string{"git branch -u main", "git branch -u main; make", "git config user.name A",
		"git remote add o x",
		"git init sub", "git clone ../r copy", "git init", "touch .git/config", "echo x >> .git/hooks/pre-commit"} {
		d := decide(line, permission.Rules{})
		for _, rule := range d.Offers() {
			if r, err := permission.ParseRule(rule, permission.Session); err == nil && !r.RunsGiven() &&
				strings.HasPrefix(rule, "Edit(") {
				t.Errorf("%s: suggests %s", line, rule)
			}
		}
	}
	config := permission.Rules{Allow: rulesOf(t, "Bash(git *) | Bash(make) | Bash(sh:*) | Edit(/"+g.repo+"/.git/config)",
		permission.User)}
	for line, want := range map[string]permission.Verdict{
		"git branch -u main": permission.Allow, "git branch -u main && git status": permission.Allow,
		"cd . && git branch -u main; echo done": permission.Allow,
		"git branch -u main; make":              permission.Ask, "make && git branch -u main": permission.Ask,
		"git branch -u main & sh x.sh": permission.Ask, "for i in 1; do git branch -u main; make; done": permission.Ask,
		"make": permission.Allow,
	} {
		if d := decide(line, config); d.Verdict != want {
			t.Errorf("%s: %v, want %v: %+v", line, d.Verdict, want, d.Subjects)
		}
	}
}
