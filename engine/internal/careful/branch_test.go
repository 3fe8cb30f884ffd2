package careful

import (
	"os"
	"path/filepath"
	"testing"
)

// write makes a file below a directory.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBranch(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "on/.git/HEAD", "ref: refs/heads/main\n")
	write(t, dir, "on/sub/x", "")
	write(t, dir, "off/.git/HEAD", "ref: refs/heads/fix/a\n")
	write(t, dir, "odd/.git/HEAD", "ref: refs/heads/trunk\n")
	write(t, dir, "odd/.git/refs/remotes/origin/HEAD", "ref: refs/remotes/origin/trunk\n")
	write(t, dir, "odd/.git/worktrees/w/HEAD", "ref: refs/heads/trunk\n")
	write(t, dir, "odd/.git/worktrees/w/commondir", "../..\n")
	write(t, dir, "w/.git", "gitdir: "+filepath.Join(dir, "odd/.git/worktrees/w")+"\n")
	write(t, dir, "loose/.git/HEAD", "0123456789abcdef0123456789abcdef01234567\n")
	for _, c := range []struct {
		at, line string
		asks     bool
	}{
		{"on", "git commit -am x", true}, {"on/sub", "git add . && git commit -m 'a b'", true}, {"on", "git status", false},
		{"on", "git push", true}, {"on", "git push origin fix", false}, {"on", "git switch -c fix && git commit -m x", false},
		{"on", "git checkout -- a && git commit -m x", true}, {"on", "bash -c 'git merge fix'", true},
		{"on", "sudo git -c a=b rebase fix", true}, {"on", "git log main", false}, {"on", "cd ../off && git commit", false},
		{"on", "git push origin HEAD", true}, {"on", "git -C ../off commit -m x", false}, {"on", "echo git commit", false},
		{"off", "git commit -m x", false}, {"off", "git push origin main", true}, {"off", "git push -u origin fix/a", false},
		{"off", "git push origin fix/a:refs/heads/master", true}, {"off", "git switch main; git merge fix/a", true},
		{"off", "git -C ../on commit -m x", true}, {"odd", "git commit -m x", true}, {"w", "git commit -m x", true},
		{"on/sub", "git checkout x && git commit -m x", true}, {"on", "git checkout fix && git commit -m x", false},
		{"on", "git reset x", false}, {"on", "git reset --hard HEAD~1", true}, {"on", "git merge --abort", false},
		{"loose", "git commit -m x", false}, {"off", "git push", false}, {"on", "rm -rf /", false},
	} {
		if got := Branch(c.line, filepath.Join(dir, filepath.FromSlash(c.at))); (got != "") != c.asks {
			t.Errorf("in %s: %s: %q", c.at, c.line, got)
		}
	}
}
