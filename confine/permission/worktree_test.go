package permission_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestOtherWorkTree: in a linked work tree, git that acts on another one of the repository, and a write there, need the
// rule that writing there needs. A rule for all commands or all edits is not enough.
func TestOtherWorkTree(t *testing.T) {
	g := newGitGround(t)
	g.write("repo/f", "one")
	g.git("repo", "add", "f")
	g.git("repo", "commit", "-qm", "one")
	g.git("repo", "branch", "two")
	main, tree, third := g.repo, filepath.Join(g.top, "tree"), filepath.Join(g.top, "third")
	g.git("repo", "worktree", "add", "-q", tree, "-b", "work")
	g.git("repo", "worktree", "add", "-q", third, "-b", "third")
	g.git("repo", "init", "-q", filepath.Join(g.top, "unrelated"))
	g.write("tree/sub/x", "x")
	place := permission.PathContext{Dir: tree, Home: filepath.Join(g.top, "home"), GitEnv: true,
		Git: permission.NewGitSoon(tree)}
	verdict := func(mode permission.Mode, allow string, s permission.Subject) permission.Decision {
		return permission.Rules{Allow: rulesOf(t, allow, permission.Flag)}.Decide(t.Context(), mode, place, s)
	}
	names := strings.NewReplacer("MAIN", main, "THIRD", third, "HERE", tree, "TOP", g.top)
	for _, line := range []string{"git -C MAIN checkout two", "git -C ../repo checkout two", "git -C .. -C repo switch two",
		"cd MAIN && git checkout two", "git --git-dir=MAIN/.git symbolic-ref HEAD refs/heads/two", "git --git-dir MAIN/.git reset two",
		"git --work-tree=MAIN checkout two", "GIT_DIR=MAIN/.git git reset --soft two", "GIT_WORK_TREE=MAIN git checkout two -- .",
		"export GIT_DIR=MAIN/.git; git reset two", "env GIT_DIR=MAIN/.git git commit -m x", "git -C MAIN/.git symbolic-ref HEAD refs/heads/x",
		"git -C THIRD commit -am x", "git -C \"$X\" checkout two", "git --git-dir=MAIN/.git/worktrees/third reset two",
		"bash -c 'git -C MAIN checkout two'", "(cd MAIN; git stash)"} {
		line = names.Replace(line)
		for _, mode := range []permission.Mode{permission.Default, permission.AcceptEdits} {
			if d := verdict(mode, "Bash(*) | Edit", permission.Subject{Kind: "Bash", Text: line}); d.Verdict != permission.Ask {
				t.Errorf("%s, %s: %s", mode, line, d.Verdict)
			}
		}
		if d := verdict(permission.Bypass, "", permission.Subject{Kind: "Bash", Text: line}); d.Verdict != permission.Allow {
			t.Errorf("bypass, %s: %s", line, d.Verdict)
		}
	}
	for _, line := range []string{"git -C MAIN checkout two", "git --git-dir=MAIN/.git reset two"} {
		d := verdict(permission.Default, names.Replace("Bash(*) | Edit(/MAIN/**)"),
			permission.Subject{Kind: "Bash", Text: names.Replace(line)})
		if d.Verdict != permission.Allow {
			t.Errorf("with a rule, %s: %s", line, d.Verdict)
		}
	}
	for _, line := range []string{"git commit -am x", "git branch x", "git fetch origin", "git checkout two", "git -C sub add x",
		"git -C MAIN log", "git -C MAIN status", "cd MAIN && git diff", "git -C HERE commit -m x", "cd sub && git add .",
		"git --git-dir=MAIN/.git/worktrees/tree reset two", "git worktree list", "git stash", "git push origin work",
		"git -C TOP/unrelated commit -m x", "GIT_INDEX_FILE=/tmp/i git add sub"} {
		line = names.Replace(line)
		if d := verdict(permission.Default, "Bash(*)", permission.Subject{Kind: "Bash", Text: line}); d.Verdict != permission.Allow {
			t.Errorf("%s: %s (%s)", line, d.Verdict, d.Reason)
		}
	}
	edit := func(rules, path string) permission.Verdict {
		return verdict(permission.Default, names.Replace(rules), permission.Subject{Kind: "Edit", Text: names.Replace(path), Tool: "write"}).Verdict
	}
	for _, c := range []struct {
		rules, path string
		want        permission.Verdict
	}{
		{"Edit", "MAIN/f", permission.Ask}, {"Edit", "MAIN/new/file", permission.Ask}, {"Edit", "HERE/f", permission.Allow},
		{"Edit", "TOP/elsewhere", permission.Allow}, {"Edit(/MAIN/**)", "MAIN/f", permission.Allow},
		{"Edit(/MAIN/f)", "MAIN/f", permission.Allow}, {"Edit(/MAIN/f)", "MAIN/g", permission.Ask}, {"Edit", "THIRD/f", permission.Ask},
	} {
		if got := edit(c.rules, c.path); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.rules, c.path, got, c.want)
		}
	}
	if d := verdict(permission.Default, "Bash(*) | Edit", permission.Subject{Kind: "Bash", Text: names.Replace("echo x > MAIN/f")}); d.Verdict != permission.Ask {
		t.Errorf("redirection: %s", d.Verdict)
	}
	place.Dir, place.Git = main, permission.NewGitSoon(main) // from the main one it is as it was
	line := names.Replace("git -C THIRD commit -am x")
	if d := verdict(permission.Default, "Bash(*)", permission.Subject{Kind: "Bash", Text: line}); d.Verdict != permission.Allow {
		t.Errorf("from the main work tree: %s", d.Verdict)
	}
}

// TestRelativeRulesInWorktree: deny rules relative to the working directory hold for the same files of the main work
// tree, by every name. Found by attack: --allow Read read them by their absolute paths.
func TestRelativeRulesInWorktree(t *testing.T) {
	g := newGitGround(t)
	g.write("repo/secrets/k", "one")
	g.write("repo/sub/secrets/k", "one")
	g.git("repo", "add", ".")
	g.git("repo", "commit", "-qm", "one")
	tree := filepath.Join(g.top, "tree")
	g.git("repo", "worktree", "add", "-q", tree, "-b", "work")
	g.write("repo/notes.key", "one") // which no commit has
	check := func(form string) {
		t.Helper()
		place := permission.PathContext{Dir: tree, Home: filepath.Join(g.top, "home"), GitEnv: true, Git: permission.NewGitSoon(tree)}
		rules := permission.Rules{Deny: rulesOf(t, "Read(./secrets/**) | Read(*.key)", permission.User)}
		denied, err := rules.DeniedFiles(t.Context(), place) // a command in the sandbox names files as it likes
		for _, name := range []string{"secrets/k", "notes.key"} {
			if err != nil || denied.Covers(filepath.Join(g.repo, filepath.FromSlash(name)), true) == "" {
				t.Errorf("%s: commands read %s of the main work tree: %v, %v", form, name, denied.Hidden, err)
			}
		}
		for dir, want := range map[string]map[string]permission.Verdict{
			tree:                       {"secrets/k": permission.Deny, "sub/secrets/k": permission.Allow, "other": permission.Allow},
			filepath.Join(tree, "sub"): {"secrets/k": permission.Allow, "sub/secrets/k": permission.Deny},
		} {
			place := permission.PathContext{Dir: dir, Home: filepath.Join(g.top, "home"), GitEnv: true,
				Git: permission.NewGitSoon(dir)}
			rules := permission.Rules{Allow: rulesOf(t, "Read | Bash(*)", permission.Flag),
				Deny: rulesOf(t, "Read(./secrets/**)", permission.User)}
			for name, verdict := range want {
				path := filepath.Join(g.repo, filepath.FromSlash(name))
				for _, s := range []permission.Subject{{Kind: permission.KindRead, Text: path, Tool: "read"},
					{Kind: "Bash", Text: "cat " + path}} {
					if d := rules.Decide(t.Context(), permission.Default, place, s); d.Verdict != verdict {
						t.Errorf("%s: in %s, %s: %s, want %s", form, dir, s.Text, d.Verdict, verdict)
					}
				}
				closed := rules.Closed(permission.Default, place, permission.Subject{Tool: "grep"})
				if got := closed(path); got != (verdict == permission.Deny) {
					t.Errorf("%s: in %s, %s is closed: %t", form, dir, path, got)
				}
			}
		}
	}
	check("an absolute path")
	g.write("tree/.git", "gitdir: ../repo/.git/worktrees/tree\n") // as with worktree.useRelativePaths of git 2.48
	check("a relative path")
}

// TestRulesOfOrigin: rules for files of the directory that a work tree or the copy of a batch was made from hold for
// the same files there, however they name it. Found by attack: --worktree read what a rule with an absolute path
// denied.
func TestRulesOfOrigin(t *testing.T) {
	g := newGitGround(t)
	home := filepath.Join(g.top, "home")
	g.write("repo/secrets/k", "one")
	g.write("repo/open", "one")
	g.git("repo", "add", ".")
	g.git("repo", "commit", "-qm", "one")
	tree := filepath.Join(g.top, "tree")
	g.git("repo", "worktree", "add", "-q", tree, "-b", "work")
	g.write("repo.copies/batch/task/secrets/k", "one")
	g.write("repo.copies/batch/task/open", "one")
	repo := filepath.ToSlash(g.repo)
	rel, err := filepath.Rel(home, g.repo)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []permission.Rule{
		{Pattern: "/" + repo + "/secrets/**"},
		{Pattern: "/" + repo + "/secrets/k"},
		{Pattern: "/" + strings.ToUpper(repo) + "/secrets"},
		{Pattern: "/" + filepath.ToSlash(filepath.Dir(g.repo)) + "/*/secrets/k"},
		{Pattern: "~/" + filepath.ToSlash(rel) + "/secrets/k"},
		{Pattern: "/secrets/**", Base: g.repo},
		{Pattern: "/k", Base: filepath.Join(g.repo, "secrets")},
	} {
		r.Tool, r.Origin = "Read", permission.User
		for _, dir := range []string{tree, g.repo + ".copies/batch/task"} {
			place := permission.PathContext{Dir: dir, Home: home, GitEnv: true, Git: permission.NewGitSoon(dir)}
			rules := permission.Rules{Allow: rulesOf(t, "Read | Bash(*)", permission.Flag), Deny: []permission.Rule{r}}
			for name, want := range map[string]permission.Verdict{"secrets/k": permission.Deny, "open": permission.Allow} {
				d := rules.Decide(t.Context(), permission.Default, place,
					permission.Subject{Kind: permission.KindRead, Text: filepath.Join(dir, name), Tool: "read"})
				if d.Verdict != want || want == permission.Deny && d.Rule != r.String() {
					t.Errorf("%s (%s): %s in %s: %s by %s, want %s", r, r.Base, name, dir, d.Verdict, d.Rule, want)
				}
			}
			if closed := rules.Closed(permission.Default, place, permission.Subject{Tool: "grep"}); closed == nil ||
				!closed(filepath.Join(dir, "secrets", "k")) || closed(filepath.Join(dir, "open")) {
				t.Errorf("%s (%s): grep in %s does not know it", r, r.Base, dir)
			}
			denied, err := rules.DeniedFiles(t.Context(), place)
			if err != nil || denied.Covers(filepath.Join(dir, "secrets", "k"), true) == "" ||
				denied.Covers(filepath.Join(dir, "open"), true) != "" {
				t.Errorf("%s (%s): commands in %s: %v, %v", r, r.Base, dir, denied.Hidden, err)
			}
		}
	}
}

// TestOriginsOfLayouts: rules for files of the directory that work was made from follow in every layout of a repository
// that git makes, and from what that directory itself was made from.
func TestOriginsOfLayouts(t *testing.T) {
	g := newGitGround(t)
	commit := func(repo string) {
		t.Helper()
		g.write(repo+"/secrets/k", "one")
		g.write(repo+"/open", "one")
		g.git(repo, "add", ".")
		g.git(repo, "commit", "-qm", "one")
	}
	at := func(name string) string { return filepath.Join(g.top, filepath.FromSlash(name)) }
	commit("repo")
	g.git("repo", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", g.repo, "sub")
	g.git("repo", "commit", "-qm", "sub")
	g.git("repo/sub", "worktree", "add", "-q", at("subtree"))
	g.git("repo", "worktree", "add", "-q", at("tree"))
	g.git("tree", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	g.git("tree/sub", "worktree", "add", "-q", at("deep"))
	g.git("tree", "worktree", "add", "-q", at("tree.worktrees/a/b"))
	g.git("repo", "init", "-q", "--separate-git-dir="+at("sep.git"), at("sep"))
	commit("sep")
	g.git("sep", "worktree", "add", "-q", at("septree"))
	g.git("sep", "worktree", "add", "-q", at("sep.worktrees/x"))
	g.git("repo", "init", "-q", at("linked"))
	commit("linked")
	g.git("linked", "worktree", "add", "-q", at("linkedtree"))
	g.git("repo", "init", "-q", at("configured"))
	commit("configured")
	g.git("configured", "config", "extensions.worktreeConfig", "true")
	g.git("configured", "worktree", "add", "-q", at("configuredtree"))
	g.git("configured", "config", "--worktree", "core.worktree", at("elsewhere"))
	g.write("tree.copies/batch/task/secrets/k", "one")
	g.write("tree.copies/batch/task/open", "one")
	for dir, mains := range map[string][]string{
		"subtree":                {"repo/sub"},
		"deep":                   {"tree/sub", "repo/sub"},
		"tree/sub":               {"repo/sub"},
		"tree.worktrees/a/b":     {"repo", "tree"},
		"tree.copies/batch/task": {"tree", "repo"},
		"septree":                {"sep"},
		"sep.worktrees/x":        {"sep"},
		"linkedtree":             {"linked"},
		"configuredtree":         {"elsewhere"},
	} {
		for _, main := range mains {
			for _, r := range []permission.Rule{{Pattern: "/" + filepath.ToSlash(at(main)) + "/secrets/**"},
				{Pattern: "/secrets/k", Base: at(main)}} {
				r.Tool, r.Origin = "Read", permission.User
				place := permission.PathContext{Dir: at(dir), Home: at("home"), GitEnv: true, Git: permission.NewGitSoon(at(dir))}
				rules := permission.Rules{Allow: rulesOf(t, "Read | Bash(*)", permission.Flag), Deny: []permission.Rule{r}}
				for name, want := range map[string]permission.Verdict{"secrets/k": permission.Deny, "open": permission.Allow} {
					d := rules.Decide(t.Context(), permission.Default, place,
						permission.Subject{Kind: permission.KindRead, Text: filepath.Join(at(dir), name), Tool: "read"})
					if d.Verdict != want {
						t.Errorf("%s (%s): %s in %s: %s, want %s", r, r.Base, name, dir, d.Verdict, want)
					}
				}
				denied, err := rules.DeniedFiles(t.Context(), place)
				if err != nil || denied.Covers(filepath.Join(at(dir), "secrets", "k"), true) == "" {
					t.Errorf("%s (%s): commands in %s: %v, %v", r, r.Base, dir, denied.Hidden, err)
				}
			}
		}
	}
}
