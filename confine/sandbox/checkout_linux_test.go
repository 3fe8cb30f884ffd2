//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestPutBack: where a script lets git write protected files, the branch, the index and all files are as before
// afterwards, with the user's own changes; what only changes the index, or what an answer opened, stays. Found by
// attack: after "git checkout b2; git commit -a" in a script, b2 kept a commit without the protected files; where git
// stopped halfway, the deletion of ordinary files was committed; *.refused-1 and .env files of the other branch stayed.
func TestPutBack(t *testing.T) {
	if testing.Short() {
		t.Skip("not tested: it runs thirty scripts of git; TestPutBackKinds has some")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	b := newFixture(t).complete()
	dir := filepath.Join(b.home, "repo")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "one")
	git("config", "user.name", "n")
	git("config", "user.email", "a@b")
	git("config", "maintenance.auto", "false") // nothing of it here, and each commit would start it
	write("a.txt", "one")
	write("mine.txt", "one")
	write("gone.txt", "one")
	write(".vscode/settings.json", "one")
	write(".zed/tasks.json", "one")
	write("mise.toml", "one")
	write(".gitignore", ".idea\n.env.x\n")
	git("add", ".")
	git("commit", "-qm", "one")
	git("checkout", "-q", "-b", "two")
	write("a.txt", "two")
	write("d/new.txt", "two")
	write("d/it's $new", "two") // a name that a shell would read
	write(".vscode/settings.json", "two")
	write(".husky/pre-commit", "two")
	write(".envrc", "two\n")
	write(".idea/x.xml", "two")
	write(".env.x", "two\n")
	write("ignored/.gitignore", "*.tmp\n")
	write("ignored/a.tmp", "two\n")
	git("add", "-f", ".idea", ".env.x", "ignored")
	git("rm", "-q", "gone.txt", ".zed/tasks.json")
	git("add", ".")
	git("commit", "-qm", "two")
	git("checkout", "-q", "-b", "four", "one")
	write(".vscode/sub/x.json", "four") // git cannot create the directory, and stops when it has removed files
	if err := os.Symlink("a.txt", filepath.Join(dir, ".link")); err != nil {
		t.Fatal(err)
	}
	git("rm", "-q", "gone.txt")
	git("add", ".")
	git("commit", "-qm", "four")
	git("checkout", "-q", "-b", "five", "one")
	write(".vscode/settings.json", "five")
	write("a.txt", "five")
	write("new.txt", "five")
	git("add", ".")
	git("commit", "-qm", "five")
	git("checkout", "-q", "-b", "ten")
	write(".env.x", "ten\n")
	git("add", "-f", ".env.x")
	git("commit", "-qm", "ten")
	git("checkout", "-q", "-b", "seven", "one")
	git("rm", "-q", ".zed/tasks.json")
	git("commit", "-qm", "seven")
	git("checkout", "-q", "-b", "eight", "one")
	git("rm", "-q", ".vscode/settings.json")
	write(".husky/pre-commit", "eight")
	git("add", ".")
	git("commit", "-qm", "eight")
	git("checkout", "-q", "-b", "nine", "one")
	write("mise.toml", "nine")
	write(".husky/pre-commit", "nine")
	git("add", ".")
	git("commit", "-qm", "nine")
	git("checkout", "-q", "-b", "six", "one")
	write("six.txt", "six")
	write(".vscode/settings.json", "six")
	git("add", ".")
	git("commit", "-qm", "six")
	git("checkout", "-q", "one")
	git("clone", "-q", "--bare", ".", "../others")
	git("branch", "-q", "-D", "six")
	git("reflog", "expire", "--expire=now", "--all")
	git("gc", "-q", "--prune=now") // also packs refs
	write("mine.txt", "my change")
	write("untracked.txt", "mine")
	past := time.Now().Add(-time.Minute)
	for _, name := range []string{"mine.txt", "untracked.txt"} {
		if err := os.Chtimes(filepath.Join(dir, name), past, past); err != nil {
			t.Fatal(err)
		}
	}

	policy := b.box.policy
	policy.Dir = dir
	box := newBox(t, policy)
	local, err := workspace.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	local.Confine = box.Confine
	run := func(script string, allow workspace.Allowance) workspace.Exit {
		t.Helper()
		var out strings.Builder
		exit, err := local.Run(t.Context(), workspace.Command{Line: script, Output: &out, Allow: allow})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s\n%s%q", script, out.String(), exit.Refused)
		return exit
	}
	state := func() string {
		t.Helper()
		// The commit and the name of HEAD, and how the index differs from it and the files from the index.
		out := git("status", "--porcelain=v2", "--branch", "--ignored") + "two: " + refOf(t, dir, "refs/heads/two") + "\n"
		for _, name := range []string{"a.txt", "mine.txt", "gone.txt", "d/new.txt", ".vscode/settings.json",
			".husky/pre-commit",
			".zed/tasks.json", "untracked.txt", "six.txt", ".husky.refused-1"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				data = []byte("missing")
			}
			out += name + ": " + string(data) + "\n"
		}
		return out
	}
	undone := func(exit workspace.Exit) bool {
		return strings.Contains(strings.Join(exit.Refused, "\n"), "are back as they were")
	}
	before, two := state(), strings.TrimSpace(git("rev-parse", "two"))
	for _, script := range []string{"git checkout -q two", "git merge -q two", "git reset -q --merge two",
		"git checkout -q two && git commit -qam wip", "git checkout -q -b three two && git commit -qam wip",
		"git commit -q --allow-empty -m mine && git checkout -q two && git commit -qam 1 && git commit -q --allow-empty -m 2",
		"git rebase -q --autostash two",
		"git merge two; git commit -qam wip; true", "git merge two 2>/dev/null; git commit -qam wip; true",
		"git checkout four; git commit -qam wip; true",
		"git cherry-pick two", "git pull -q . two", "git pull -q --no-rebase ../others six",
		"git cherry-pick seven 2>/dev/null", "git merge -q seven",
		"git merge -q ten 2>/dev/null; git reset -q", // only the secret tells of it
		"git checkout -q two -- .husky a.txt", "git read-tree -m -u one two"} {
		exit := run(script, workspace.Allowance{})
		if after := state(); after != before {
			t.Fatalf("%s: left\n%s, want\n%s", script, after, before)
		}
		if !undone(exit) {
			t.Errorf("%s: not reported: %q", script, exit.Refused)
		}
	}
	// Git reset leaves a link, and the index as it was.
	git("stash", "-q")
	clean := state()
	if exit := run("git reset -q --hard four; git commit -qam wip; true", workspace.Allowance{}); !undone(exit) {
		t.Errorf("reset: not reported: %q", exit.Refused)
	}
	if after := state(); after != clean {
		t.Fatalf("reset: left\n%s, want\n%s", after, clean)
	}
	git("stash", "pop", "-q")
	if tip := strings.TrimSpace(git("rev-parse", "three")); tip != two {
		t.Errorf("branch three: %s", git("show", "--stat", "three"))
	}
	// A rule for a file lets a command write it, but not git put another one in its place.
	ruled := workspace.Allowance{Write: []string{filepath.Join(dir, ".vscode/settings.json"), filepath.Join(dir, "a.txt")}}
	for _, script := range []string{"git merge eight", "git merge five",
		"git pull --no-rebase . five; git commit -qam wip; true"} {
		if exit := run(script, ruled); !undone(exit) {
			t.Errorf("%s: with rules: not reported: %q", script, exit.Refused)
		}
		if after := state(); after != before {
			t.Fatalf("%s: with rules: left\n%s, want\n%s", script, after, before)
		}
	}
	// Some of the files are known beforehand, others come with a pull.
	known := workspace.Allowance{Replace: []string{filepath.Join(dir, ".vscode/settings.json")}}
	for _, branch := range []string{"eight", "two"} { // which removes the known file, and which changes it
		if exit := run("git pull -q --no-rebase ../others "+branch, known); !undone(exit) {
			t.Errorf("some known: %s: not reported: %q", branch, exit.Refused)
		}
		if after := state(); after != before {
			t.Fatalf("some known: %s: left\n%s, want\n%s", branch, after, before)
		}
	}
	// Git can replace a file in a directory that is not protected itself, where a rule opens the file.
	single := workspace.Allowance{Write: []string{filepath.Join(dir, "mise.toml")}}
	if exit := run("git merge -q nine", single); !undone(exit) {
		t.Errorf("a single file: not reported: %q", exit.Refused)
	}
	if after := state(); after != before {
		t.Fatalf("a single file: left\n%s, want\n%s", after, before)
	}
	if exit := run("echo ruled > .vscode/settings.json; git commit -qm ruled .vscode", ruled); len(exit.Restored) > 0 ||
		git("show", "HEAD:.vscode/settings.json") != "ruled\n" {
		t.Errorf("a file that a rule opens was not committed: %q", exit.Refused)
	}
	git("reset", "-q", "--mixed", "HEAD~")
	git("checkout", "-q", ".vscode")
	// git stash saves all changes, and then stops where it takes them back. Checkout can merge them into other files.
	write(".vscode/settings.json", "my setting")
	write("a.txt", "one\nmy line\n")
	for _, name := range []string{".vscode/settings.json", "a.txt"} {
		if err := os.Chtimes(filepath.Join(dir, name), past, past); err != nil {
			t.Fatal(err)
		}
	}
	changed := state()
	for _, script := range []string{"git stash", "git stash -q -u 2>/dev/null; true",
		"git stash -q; git commit -qam wip; true"} {
		if exit := run(script, workspace.Allowance{}); !undone(exit) {
			t.Errorf("%s: not reported: %q", script, exit.Refused)
		}
		if after := state() + git("stash", "list"); after != changed {
			t.Fatalf("%s: left\n%s, want\n%s", script, after, changed)
		}
	}
	git("checkout", "-q", ".vscode")
	exit := run("git checkout -q -m five; git commit -qam wip; true", workspace.Allowance{})
	_, kept, _ := strings.Cut(strings.Join(exit.Refused, "\n"), "git show ")
	if kept, _, _ = strings.Cut(kept, ")"); !strings.Contains(git("show", kept+":a.txt")+
		git("show", kept+":mine.txt"), "my line\n>>>>>>> local\nmy change") {
		t.Errorf("a commit that was undone is not named: %q", exit.Refused)
	}
	git("checkout", "-q", "a.txt")
	write("mine.txt", "my change")
	if err := os.Chtimes(filepath.Join(dir, "mine.txt"), past, past); err != nil {
		t.Fatal(err)
	}
	if after := state(); after != before {
		t.Fatalf("left\n%s, want\n%s", after, before)
	}
	for _, script := range []string{"git add -A", "git reset -q",
		"git rm -q --cached .vscode/settings.json && git reset -q",
		"git reset -q --soft two && git reset -q --soft one@{1}"} {
		if exit := run(script, workspace.Allowance{}); len(exit.Restored) > 0 {
			t.Errorf("%s: %q", script, exit.Restored)
		}
	}
	if after := state(); after != before {
		t.Errorf("left\n%s, want\n%s", after, before)
	}
	// Words of git about files that may be written are of no account, and neither is what a command reads of a branch.
	exit = run("echo \"error: unable to unlink old 'a.txt': No such file\"; git checkout -q two -- a.txt; echo more >> a.txt; "+
		"git commit -qm wip a.txt", workspace.Allowance{})
	if got := git("show", "HEAD:a.txt"); len(exit.Restored) > 0 || got != "twomore\n" {
		t.Errorf("committed %q: %q", got, exit.Refused)
	}
	git("reset", "-q", "--mixed", "HEAD~")
	git("checkout", "-q", "a.txt")
	var opened []string
	for _, name := range []string{".vscode/settings.json", ".husky/pre-commit", ".zed/tasks.json", ".envrc", ".idea/x.xml", ".env.x"} {
		opened = append(opened, filepath.Join(dir, name))
	}
	if exit := run("git checkout -q two", workspace.Allowance{Replace: opened}); len(exit.Refused) > 0 {
		t.Errorf("opened: %q", exit.Refused)
	}
	if got := git("status", "--short"); got != " M mine.txt\n?? untracked.txt\n" {
		t.Errorf("opened: %s", got)
	}
}

// refOf returns the commit of a reference as its files have it.
func refOf(t *testing.T, dir, name string) string {
	t.Helper()
	if data, err := os.ReadFile(filepath.Join(dir, ".git", name)); err == nil {
		return strings.TrimSpace(string(data))
	}
	packed, err := os.ReadFile(filepath.Join(dir, ".git/packed-refs"))
	for line := range strings.Lines(string(packed)) {
		if commit, ref, _ := strings.Cut(strings.TrimSpace(line), " "); ref == name {
			return commit
		}
	}
	t.Fatalf("no %s: %v", name, err)
	return ""
}

// TestPutBackKinds: what is a file or link in one branch and a directory in the other is put back, too.
func TestPutBackKinds(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	b := newFixture(t).complete()
	dir := filepath.Join(b.home, "repo")
	policy := b.box.policy
	policy.Dir = dir
	local, err := workspace.NewLocal(b.home)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	run := func(script string) workspace.Exit {
		t.Helper()
		var out strings.Builder
		exit, err := local.Run(t.Context(), workspace.Command{Line: script, Output: &out})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s\n%s%q", script, out.String(), exit.Refused)
		return exit
	}
	run(`git init -q -b one repo && cd repo && git config user.name n && git config user.email a@b
		mkdir lib .vscode && echo one | tee lib/x file .vscode/settings.json >/dev/null && ln -s lib link
		git add . && git commit -qm one && git checkout -q -b two
		git rm -rq lib link file && mkdir link file && echo two | tee link/x file/x .vscode/settings.json >/dev/null
		git add . && git commit -qm two`)
	if local, err = workspace.NewLocal(dir); err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	local.Confine = newBox(t, policy).Confine
	state := func() string {
		out, err := exec.Command("sh", "-c", "cd "+dir+` && git status --porcelain=v2 --branch &&
			ls -lR --time-style=+ && cat */x`).CombinedOutput()
		if err != nil {
			t.Fatal(err, string(out))
		}
		return string(out)
	}
	for _, to := range []string{"one", "two"} {
		before := state()
		for _, script := range []string{"git checkout -q " + to,
			"git checkout -q " + to + "; git commit -qam wip; true", "git reset -q --hard " + to} {
			exit := run(script)
			if after := state(); after != before {
				t.Fatalf("%s: left\n%s, want\n%s", script, after, before)
			}
			if !strings.Contains(strings.Join(exit.Refused, "\n"), "are back as they were") {
				t.Errorf("%s: not reported: %q", script, exit.Refused)
			}
		}
		local.Confine = nil
		run("git checkout -q " + to)
		local.Confine = newBox(t, policy).Confine
	}
	// What the same command put into such a directory is in no commit, so it stays.
	local.Confine = nil
	run("git checkout -q one")
	local.Confine = newBox(t, policy).Confine
	exit := run("git checkout -q two; echo mine > link/mine; true")
	if data, err := os.ReadFile(filepath.Join(dir, "link/mine")); err != nil || string(data) != "mine\n" {
		t.Errorf("a file of the command was removed: %v %q", err, exit.Refused)
	}
}

// TestPutBackElsewhere: what the user does with git in another terminal while a command runs stays: no command could
// have written a file that is read-only for it. Found by use: a checkout was undone, and a file of a new commit was
// removed; and removed files came back when something appeared under a protected name.
func TestPutBackElsewhere(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	b := newFixture(t).complete()
	dir := filepath.Join(b.home, "repo")
	policy := b.box.policy
	policy.Dir = dir
	git := func(script string) string {
		t.Helper()
		c := exec.Command("sh", "-ec", script)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return string(out)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git(`git init -q -b one; git config user.name n; git config user.email a@b; mkdir .vscode
		echo began >.gitignore; echo go >>.gitignore; echo one | tee file .vscode/settings.json; git add .; git commit -qm one
		git checkout -q -b two; echo two | tee file .vscode/settings.json; git commit -qam two; git checkout -q one`)
	local, err := workspace.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	local.Confine = newBox(t, policy).Confine
	for _, script := range []string{"git checkout -q -f two",
		"echo mine >.vscode/settings.json; echo mine >mine; git add -A; git commit -qm mine",
		"rm -r .vscode; mkdir .claude; echo {} >.claude/settings.json"} {
		ended := make(chan workspace.Exit, 1)
		go func() {
			exit, err := local.Run(t.Context(), workspace.Command{Line: "touch began; until [ -e go ]; do sleep 0.02; done"})
			if err != nil {
				t.Error(err)
			}
			ended <- exit
		}()
		for range 3000 {
			if _, err := os.Stat(filepath.Join(dir, "began")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		git(script)
		const show = "git log --oneline --all; git status --short --branch; cat .vscode/settings.json 2>&1 || true; ls"
		want := git(show)
		git("touch go")
		exit := <-ended
		git("rm go began")
		got := strings.ReplaceAll(git(show), ".refused-1", "") // who made it is not known
		if strings.ReplaceAll(want, "began\n", "") != got {
			t.Errorf("%s: left\n%s, want\n%s%q %q", script, got, want, exit.Refused, exit.Restored)
		}
	}
}

// TestRemovedMeanwhile: protected files that are removed while a command runs do not keep other commands from starting,
// and what a command puts in their place is new. Found by use: with a job in the background every command failed.
func TestRemovedMeanwhile(t *testing.T) {
	b := newFixture(t).complete()
	dir := filepath.Join(b.home, "work")
	policy := b.box.policy
	policy.Dir = dir
	for _, name := range []string{"q/.vscode/settings.json", ".envrc"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("{}"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	local, err := workspace.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	local.Confine = newBox(t, policy).Confine
	run := func(script string) (string, workspace.Exit) {
		var out strings.Builder
		exit, err := local.Run(t.Context(), workspace.Command{Line: script, Output: &out})
		if err != nil {
			t.Error(err)
		}
		return out.String(), exit
	}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		run("touch began; until [ -e go ]; do sleep 0.02; done")
	}()
	for range 3000 {
		if _, err := os.Stat(filepath.Join(dir, "began")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "q")), os.Remove(filepath.Join(dir, ".envrc"))); err != nil {
		t.Fatal(err)
	}
	if out, exit := run("echo works"); exit.Code != 0 || out != "works\n" {
		t.Errorf("%d %s", exit.Code, out)
	}
	run("echo evil >.envrc; true")
	if data, err := os.ReadFile(filepath.Join(dir, ".envrc")); err == nil {
		t.Errorf("a command has made it anew: %s", data)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	<-ended
}
