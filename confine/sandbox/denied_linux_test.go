//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
)

// denied returns what gives commands the deny rules of a user.
func (b *fixture) denied(rules ...string) workspace.Allowance {
	b.t.Helper()
	deny, problems := permission.ParseRules(rules, permission.User, b.dir)
	if len(problems) > 0 {
		b.t.Fatal(problems)
	}
	place := permission.PathContext{Dir: b.dir, Home: b.home}
	return workspace.Allowance{Denied: func() (workspace.DeniedFiles, error) {
		d, err := permission.Rules{Deny: deny}.DeniedFiles(context.Background(), place)
		return workspace.DeniedFiles(d), err
	}}
}

// deniedFixture has files that the rules below deny.
func deniedFixture(t *testing.T, backend string) (*fixture, workspace.Allowance) {
	b := newFixture(t).on(backend)
	for name, text := range map[string]string{"project/notes.key": "MARK", "project/sub/deep/notes.key": "MARK",
		"project/keys/a/b": "MARK", "project/only": "kept", "project/fixed/a/f": "kept", "project/sub/only": "kept",
		"private/x": "MARK", "project/src/a": "a", "project/linked": "MARK", "project/odd name.key": "MARK"} {
		b.write(name, text)
	}
	os.Symlink("notes.key", b.at("project/l"))
	os.Symlink("linked", b.at("project/name.key"))
	if err := errors.Join(os.Link(b.at("project/notes.key"), b.at("project/src/hard")),
		os.Link(b.at("project/only"), b.at("project/src/hardonly"))); err != nil {
		t.Fatal(err)
	}
	return b, b.denied("Read(*.key)", "Read(./keys/**)", "Read(~/private/*)", "Edit(only)", "Edit(/fixed/**)")
}

// TestDenied runs commands that must neither read nor change files that rules deny.
func TestDenied(t *testing.T) {
	lines := []string{
		// Reading.
		"cat notes.key", `cat "$PWD/notes.key"`, `for f in * .*; do cat "$f"; done`, "find . -exec cat {} +", "ls | xargs cat",
		"find . -type f -print0 | xargs -0 cat", `python3 -c "print(open('notes.key').read())"`, "cat l name.key linked",
		"grep -r MARK .", "tar cf - . | cat", "cp -r . /tmp/c; cat /tmp/c/*", "cat src/*", "cat ~/private/x", "cat keys/a/b",
		"cd keys && cat a/b", "ln notes.key h && cat h", "ln -s notes.key s2 && cat s2; rm -f s2", "mv notes.key n && cat n",
		"mv sub s && cat s/deep/notes.key", "mv keys k && cat k/a/b", "mv ~/private ~/p; cat ~/p/x",
		"cat /proc/self/cwd/notes.key", "cat /proc/self/root$PWD/notes.key", "cat < notes.key", "dd if=notes.key", "sort *.key",
		"exec 3< notes.key && cat <&3", "base64 'odd name.key' | base64 -d", "rev notes.key | rev",
		"umount notes.key; cat notes.key", "umount -l keys; cat keys/a/b", "unshare -Urm sh -c 'umount notes.key; cat notes.key'",
		// Changing.
		"echo x >> only", "sed -i s/kept/x/ only sub/only", "echo x > t && mv -f t only; rm -f t", "echo x | tee -a only",
		"truncate -s 0 only", "rm -f only", "ln -f src/a only", "cp src/a only", "chmod 600 only", "touch -d 2001-01-01 only",
		"mv only o", "mv sub s && mkdir sub && echo x > sub/only", "mv fixed f && mkdir -p fixed/a && echo x > fixed/a/f",
		"echo x > fixed/new", "rm -rf fixed", "mv fixed/a fixed/b", "mv fixed src/; rm -rf src/fixed", "echo x > src/hardonly", "ln only o && echo x > o",
		`python3 -c "open('only','a').write('x')"`, "perl -pi -e s/kept/x/ only", "exec 4<>only && echo x >&4", "rm -rf sub",
		"echo x > notes.key", "rm -f notes.key", "rm -rf keys", "echo x > keys/new", "mkdir keys/d", "patch only </dev/null",
		"git -c core.hooksPath=/ checkout -f -- only", "rsync src/a only", "install src/a only",
	}
	for _, backend := range []string{namespaces, goLauncher, bubblewrap} {
		t.Run(backend, func(t *testing.T) {
			b, allow := deniedFixture(t, backend)
			allow.Read = []string{b.at("project/notes.key")} // as a rule or an answer would; the rule that denies wins
			allow.Write = []string{b.at("project/only"), b.at("project/fixed/a/f"), b.at("project/notes.key")}
			before := b.contents()
			out, _ := b.allowed(together(lines), allow)
			if strings.Contains(out, "MARK") || b.contents() != before {
				for _, line := range lines { // find the line
					b, allow := deniedFixture(t, backend)
					before := b.contents()
					out, exit := b.allowed(line, allow)
					out2, _ := b.allowed("cat */notes.key */*/notes.key */*/b", allow) // what the next command finds
					if now := b.contents(); now != before || strings.Contains(out+out2, "MARK") {
						t.Errorf("%s: from\n%s\nto\n%s\noutput: %s\nrefused: %q", line, before, now, out, exit.Refused)
					}
				}
				t.Fatalf("from\n%s\nto\n%s\noutput: %s", before, b.contents(), out)
			}
			// The rest works.
			out, _ = b.allowed("cat src/a only fixed/a/f; echo y > src/a; echo z > src/new; cat src/a src/new; echo MARK | cat",
				b.denied("Read(*.key)", "Edit(only)"))
			if want := "akeptkepty\nz\nMARK\n"; out != want {
				t.Errorf("output %q, want %q", out, want)
			}
		})
	}
}

// TestDeniedRefused names the rule.
func TestDeniedRefused(t *testing.T) {
	b, allow := deniedFixture(t, namespaces)
	_, exit := b.allowed("cat ./notes.key; echo x > ./only", allow)
	for _, want := range []string{"notes.key: the rule Read(*.key) denies it", "only: the rule Edit(only) denies it"} {
		if !slices.ContainsFunc(exit.Refused, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("refused: %q, want %q", exit.Refused, want)
		}
	}
	allow = b.denied("Read(./**)")
	if _, err := b.local.Run(t.Context(), workspace.Command{Line: "true", Allow: allow}); err == nil {
		t.Error("a command ran in a directory that a rule denies")
	}
	allow = b.denied("Edit(./**)")
	if out, _ := b.allowed("cat src/a; echo x > src/a; echo y > new; cat src/a new", allow); !strings.HasPrefix(out, "a") ||
		strings.Contains(out, "x") && !strings.Contains(out, "only file system") {
		t.Errorf("output %q", out)
	}
}

// TestDeniedAndGit runs scripts that call git where files that rules deny are tracked. Whatever git does, no commit has
// another content of them than before.
func TestDeniedAndGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	scripts := []string{"git add -A; git commit -qm x", "git stash -qu", "git checkout -qf other; git merge -q other",
		"git reset -q --hard other", "git rm -q --cached -r .; git add .; git commit -qm x",
		"git config alias.x '!git commit -qam x'; git x; git update-index --add --remove notes.key; git commit -qm x notes.key"}
	sh := func(t *testing.T, dir, line string) string {
		t.Helper()
		c := exec.Command("sh", "-c", line)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	made := t.TempDir()
	sh(t, made, `set -e
git init -q -b main .; git config user.email a@b; git config user.name n; git config maintenance.auto false
printf '.*\nother.*\n' > .gitignore
mkdir keys; echo MARK > notes.key; echo MARK > keys/k; echo kept > only; echo 1 > plain; printf text > main.txt
git add . && git commit -qm one
git checkout -q -b other; echo CHANGED | tee notes.key keys/k only plain >/dev/null; git commit -qam two
git diff HEAD~ > other.patch; git format-patch -1 --stdout > other.mbox
git checkout -q main; echo 2 > plain`)
	for _, script := range scripts {
		t.Run(script, func(t *testing.T) {
			b := newFixture(t).on(namespaces)
			sh(t, b.dir, "rm -rf .git && cp -a "+made+"/. .")
			b.write("project/run.sh", script)
			out, exit := b.allowed("sh run.sh; sh -c 'git add -A && git commit -qm again'",
				b.denied("Read(notes.key)", "Read(./keys/**)", "Edit(only)"))
			got := sh(t, b.dir, "cat notes.key keys/k only; git log --format=%s; git symbolic-ref HEAD; git status --short;"+
				"for c in $(git rev-list --all); do for f in notes.key keys/k only; do echo $c:$f; done; done |"+
				"git cat-file --batch='%(objecttype)' | grep . | LC_ALL=C sort -u")
			got = strings.Replace(got, " M plain\n", "", 1) // git may change and commit it
			want := "MARK\nMARK\nkept\none\nrefs/heads/main\n?? run.sh\nCHANGED\nMARK\nblob\nkept\n"
			if got != want {
				t.Errorf("the repository is\n%s, want\n%soutput: %s\nrefused: %q", got, want, out, exit.Refused)
			}
		})
	}
}
