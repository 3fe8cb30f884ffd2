package permission_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

func TestCleanPath(t *testing.T) {
	dir := t.TempDir()
	work, other := filepath.Join(dir, "work"), filepath.Join(dir, "other")
	for _, d := range []string{work + "/bin", other} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(other, "link")
	if err := os.Symlink(filepath.Join(work, "bin"), link); err != nil {
		t.Skip("no symbolic links:", err)
	}
	sep := string(filepath.ListSeparator)
	clean, dropped := permission.CleanPath(strings.Join([]string{"", ".", "bin", work + "/bin", work, link, other,
		other + "/../work/bin"}, sep), work)
	if clean != other || len(dropped) != 7 {
		t.Errorf("clean %q, dropped %q", clean, dropped)
	}
}

// gitEnv returns what [permission.Git.Env] adds for the repository that contains dir.
func gitEnv(environ []string, dir string) (env, unguarded []string) {
	git := permission.NewGit(dir)
	git.Environ = environ
	return git.Env(environ)
}

// TestGitEnv runs git's free commands in a repository whose configuration
// names a program wherever possible, and checks that none of them runs. Without
// Git.Env they run.
func TestGitEnv(t *testing.T) {
	for _, p := range []string{"git", "diff", "sh"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("this test needs", p)
		}
	}
	dir := t.TempDir()
	fired, evil := filepath.Join(dir, "fired"), filepath.Join(dir, "evil.sh")
	repo := filepath.Join(dir, "repo")
	if err := os.MkdirAll(repo, 0o700); err != nil {
		t.Fatal(err)
	}
	base := append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "GIT_") }),
		"HOME="+dir, "GIT_CONFIG_NOSYSTEM=1")
	git := func(env []string, args ...string) (string, error) {
		c := exec.Command("git", args...)
		c.Dir, c.Env = repo, env
		out, err := c.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) {
		if out, err := git(base, args...); err != nil {
			t.Fatal(args, err, out)
		}
	}
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(evil, "#!/bin/sh\necho \"$0 $*\" >> "+fired+"\ncat\n", 0o700)
	must("init", "-q")
	must("config", "user.email", "a@b")
	must("config", "user.name", "n")
	write(repo+"/a.txt", "x\n", 0o600)
	must("add", ".")
	must("commit", "-qm", "one")
	write(repo+"/.gitattributes", "*.txt diff=evil filter=evil merge=evil\n", 0o600)
	write(repo+"/a.txt", "x\ny\n", 0o600)
	write(repo+"/included", "[diff \"evil\"]\n\ttextconv = "+evil+"\n[filter \"evil\"] clean = "+evil+"\n", 0o600)
	must("config", "include.path", "../included")
	for _, key := range []string{"core.fsmonitor", "diff.external", "diff.evil.command", "filter.evil.smudge",
		"filter.evil.process", "core.pager", "pager.log", "gpg.program", "gpg.ssh.program",
		"core.sshCommand", "core.editor", "core.alternateRefsCommand", "interactive.diffFilter", "merge.evil.driver",
		"credential.helper"} {
		must("config", key, evil)
	}
	must("config", "log.showSignature", "true")
	write(repo+"/.git/hooks/post-index-change", "#!/bin/sh\necho hook >> "+fired+"\n", 0o700)

	commands := []string{"status", "diff", "diff --stat", "log -p -1", "log --oneline", "show HEAD", "show HEAD:a.txt",
		"blame a.txt", "ls-files -m", "grep x", "stash list", "branch -a", "describe --always", "cat-file -p HEAD:a.txt",
		"shortlog HEAD", "rev-parse HEAD", "diff-index HEAD", "diff-files"}
	if _, err := git(base, "diff"); err == nil {
		if _, err := os.Stat(fired); err != nil {
			t.Fatal("the repository is harmless even without Git.Env: the test proves nothing")
		}
	}
	os.Remove(fired)
	env, unguarded := gitEnv(base, repo)
	if len(unguarded) > 0 {
		t.Error("unguarded:", unguarded)
	}
	for _, c := range commands {
		out, err := git(env, strings.Fields(c)...)
		if err != nil {
			t.Errorf("git %s: %v: %s", c, err, out)
		}
		if data, err := os.ReadFile(fired); err == nil {
			t.Errorf("git %s ran: %s", c, data)
			os.Remove(fired)
		}
	}
	if out, _ := git(env, "diff"); !strings.Contains(out, "+y") {
		t.Errorf("git diff shows %q", out)
	}
	must("config", "core.gitProxy", evil)
	if _, unguarded := gitEnv(base, repo); !slices.Equal(unguarded, []string{"core.gitproxy"}) {
		t.Error("unguarded:", unguarded)
	}
}
