package permission_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestDeniedFiles resolves deny rules for files.
func TestDeniedFiles(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, dir := filepath.Join(top, "home"), filepath.Join(top, "home", "work")
	for _, name := range []string{"work/notes.key", "work/Upper.KEY", "work/a/b/notes.key", "work/secrets/k", "work/secrets/d/k",
		"work/node_modules/x/notes.key", "work/.git/refs/heads/notes.key", "work/.git/config", "work/.git/moved/notes.key",
		"private/x", "private/y/z.txt", "work/target", "work/[x]", "work/src/gen/a.go", "work/src/gen/deep/b.go", "other/notes.key",
		"work/old/first"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	link("target", "link.key")
	link("../private", "outward")
	if err := os.Link(filepath.Join(dir, "old/first"), filepath.Join(dir, "second")); err != nil {
		t.Skip(err)
	}
	place := permission.PathContext{Dir: dir, Home: home, Git: permission.NewGitSoon(dir)}
	for range 2 { // the second time, the directories are remembered
		for _, test := range []struct{ rules, hidden, readOnly string }{
			{"Bash(ls) | Read | WebFetch(domain:x.y)", "", ""},
			{"Read(notes.key)", "work/.git/moved/notes.key work/a/b/notes.key work/node_modules/x/notes.key work/notes.key", ""},
			{"Read(**/notes.key) | Edit(notes.key)",
				"work/.git/moved/notes.key work/a/b/notes.key work/node_modules/x/notes.key work/notes.key", ""},
			{"Read(./*.key)", "work/Upper.KEY work/notes.key work/target", ""},
			{"Read(./NOTES.key)", "work/notes.key", ""},
			{"Read(secrets/**)", "work/secrets", ""},
			{"Read(./secrets/*)", "work/secrets", ""},
			{"Read(secrets)", "work/secrets", ""},
			{"Read(secrets/d)", "work/secrets/d", ""},
			{"Read(work/notes.key)", "work/notes.key", ""},
			{"Read(~/private/**)", "private", ""},
			{"Read(~/private/*.txt) | Read(~/private/*/*.txt)", "private/y/z.txt", ""},
			{"Read(./outward/x)", "private/x", ""},
			{"Read(outward)", "private", ""},
			{"Read(/" + dir + "/target)", "work/target", ""},
			{"Read(//**/target)", "work/target", ""},
			{`Read(\[x\])`, "work/[x]", ""},
			{"Edit(src/gen/**)", "", "work/src/gen"},
			{"Edit(/src/gen/**/*.go)", "", "work/src/gen/a.go work/src/gen/deep/b.go"},
			{"Write(target)", "", "work/target"},
			{"Read(src/gen) | Edit(src/gen/a.go)", "work/src/gen", ""},
			{"Edit(src/gen) | Read(src/gen/a.go)", "work/src/gen/a.go", "work/src/gen"},
			{"Read(first)", "work/old/first work/second", ""},
			{"Edit(old/**)", "", "work/old work/second"},
			{"Read(./missing/**) | Read(missing)", "", ""},
			{"Read(config)", "", ""},
			{"Read(./.git/config)", "work/.git/config", ""},
		} {
			rules := permission.Rules{Deny: rulesOf(t, test.rules, permission.User)}
			d, err := rules.DeniedFiles(t.Context(), place)
			names := func(list []string) string {
				var out []string
				for _, name := range list {
					rel, _ := filepath.Rel(home, name)
					out = append(out, rel)
				}
				return strings.Join(out, " ")
			}
			if h, r := names(d.Hidden), names(d.ReadOnly); err != nil || h != test.hidden || r != test.readOnly {
				t.Errorf("%s: hidden %q, read-only %q, %v; want %q, %q", test.rules, h, r, err, test.hidden, test.readOnly)
			}
		}
	}
	for _, rule := range []string{"Read(**)", "Read(work)", "Read(~/**)", "Read(./**)", "Read(//**)"} {
		if d, err := (permission.Rules{Deny: rulesOf(t, rule, permission.User)}).DeniedFiles(t.Context(), place); err == nil {
			t.Errorf("%s: %q without an error", rule, d.Hidden)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "many"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 1001 {
		if err := os.WriteFile(filepath.Join(dir, "many", fmt.Sprintf("%d.pem", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for rule, want := range map[string]string{"Read(*.pem)": "Read(*.pem) cover 1001 files", "Read(many/**)": ""} {
		_, err := (permission.Rules{Deny: rulesOf(t, rule, permission.User)}).DeniedFiles(t.Context(), place)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rule, err, want)
		}
	}
	// Then every command asks, and nobody can be asked in bypass mode.
	place.Confined = func() bool { return true }
	rules := permission.Rules{Allow: rulesOf(t, "Bash", permission.User), Deny: rulesOf(t, "Read(*.pem)", permission.User)}
	for mode, want := range map[permission.Mode]permission.Verdict{permission.Default: permission.Ask, permission.Bypass: permission.Deny} {
		d := rules.Decide(t.Context(), mode, place, permission.Subject{Kind: "Bash", Text: "true"})
		if d.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", mode, d.Verdict, d.Reason, want)
		}
	}
}

// TestUnknownWords: with deny rules for files and without a sandbox, a word that may name one of them asks in every mode,
// and bypass mode, in which nobody is asked, denies it. With a sandbox it is as before.
func TestUnknownWords(t *testing.T) {
	place := testWorkspace(t)
	for name, text := range map[string]string{"notes.key": "x", "plain": "y", "sub/k/notes.key": "x"} {
		path := filepath.Join(place.Dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rules := permission.Rules{Allow: rulesOf(t, "Bash(*)", permission.Flag), Deny: rulesOf(t, "Read(notes.key) | Edit(./plain)",
		permission.User)}
	verdict := func(mode permission.Mode, line string) permission.Verdict {
		return rules.Decide(t.Context(), mode, place, permission.Subject{Kind: "Bash", Text: line}).Verdict
	}
	unknown := strings.Split(`cat "$F"
cat "$PWD/notes.key"
for f in $(ls); do cat "$f"; done
while read -r f; do cat "$f"; done < sub/list
find . -exec cat {} +
find . -type f -exec sed -i s/x/y/ {} \;
ls | xargs cat
ls | xargs -I{} cp {} /tmp/
python3 script.py "$F"
sed -i s/y/z/ "$F"
tee "$F" < sub/list
cat < "$F"
echo x > "$F"
cd "$D" && cat k
grep -l x $(git ls-files)
bash -c "cat $F"
eval "cat $F"
$CAT notes
vim "+$N" file
cp "$F" /tmp/x
head -n 3 "${FILES[@]}"
dd if="$F"
env X=1 cat "$F"
timeout 5 cat "$F"
( cat "$F" )
f() { cat "$1"; }; f "$X"
`+"cat `ls | head -1`", "\n")
	known := []string{"ls", "cat plain", "go build ./...", `echo "$F"`, `printf '%s\n' "$F"`, `test -n "$F"`, `[ -f "$F" ]`,
		`export X="$F"`, "git status", "for i in 1 2; do echo $i; done", "for f in a b; do cat $f; done", "sleep $N", "exit $?",
		`git show $(git rev-parse HEAD)`, "cd sub && ls k"}
	for _, line := range unknown {
		for mode, want := range map[permission.Mode]permission.Verdict{permission.Default: permission.Ask,
			permission.Bypass: permission.Deny, permission.DontAsk: permission.Deny} {
			if got := verdict(mode, line); got != want && got != permission.Deny {
				t.Errorf("%s, %s: %s, want %s", mode, line, got, want)
			}
		}
	}
	for _, line := range known {
		if got := verdict(permission.Bypass, line); got != permission.Allow {
			t.Errorf("bypass, %s: %s", line, got)
		}
	}
	for _, line := range []string{"cat *", "sed -i s/x/y/ p*", "grep -r x .", `for f in *; do cat "$f"; done`, "foo *.key"} {
		if got := verdict(permission.Bypass, line); got != permission.Deny {
			t.Errorf("without a sandbox, %s: %s", line, got)
		}
	}
	place.Confined = func() bool { return true }
	for _, line := range slices.Concat(unknown, known, []string{"cat *", "grep -r x .", `for f in *; do cat "$f"; done`}) {
		if strings.Contains(line, "PWD") {
			continue // names the file
		}
		if got := verdict(permission.Bypass, line); got != permission.Allow {
			t.Errorf("in a sandbox, %s: %s", line, got)
		}
	}
	for _, line := range []string{"cat notes.key", "cat sub/k/notes.key", "echo x > plain", "cp notes.key x", "tool --in=notes.key"} {
		if got := verdict(permission.Bypass, line); got != permission.Deny {
			t.Errorf("in a sandbox, %s: %s", line, got)
		}
	}
}

// lineChecker returns a func that checks the verdict about command lines. A refusal must name its rule.
func lineChecker(t *testing.T, rules permission.Rules, place permission.PathContext) func(permission.Verdict, ...string) {
	return func(want permission.Verdict, lines ...string) {
		t.Helper()
		for _, line := range lines {
			d := rules.Decide(t.Context(), permission.Default, place, permission.Subject{Kind: "Bash", Text: line})
			if d.Verdict != want || want == permission.Deny && d.Rule == "" {
				t.Errorf("confined %v: %s: %s, want %s (%s %s %v)", place.Confined(), line, d.Verdict, want, d.Rule, d.Reason,
					d.Subjects)
			}
		}
	}
}

// TestGitAndDenied: in a sandbox, git commands that would record, compare or replace a file that a rule denies are
// refused before they start.
func TestGitAndDenied(t *testing.T) {
	g := newGitGround(t)
	for name, text := range map[string]string{"notes.key": "MARK", "only": "one", "plain": "one", "keys/k": "MARK", "dir/f": "one"} {
		g.write("repo/"+name, text)
	}
	g.git("repo", "add", ".")
	g.git("repo", "commit", "-qm", "base")
	g.git("repo", "checkout", "-qb", "same")
	g.write("repo/plain", "two")
	g.git("repo", "commit", "-qam", "plain")
	g.git("repo", "checkout", "-qb", "other", "main")
	g.write("repo/notes.key", "CHANGED")
	g.write("repo/only", "two")
	g.git("repo", "commit", "-qam", "two")
	g.git("repo", "checkout", "-q", "main")
	g.write("repo/plain", "mine")
	place := permission.PathContext{Dir: g.repo, Home: filepath.Join(g.top, "home"), GitEnv: true,
		Git:      permission.NewGitSoon(g.repo),
		Confined: func() bool { return true }}
	rules := permission.Rules{Allow: rulesOf(t, "Bash(git:*) | Bash(cd:*)", permission.Flag),
		Deny: rulesOf(t, "Read(notes.key) | Read(./keys/**) | Edit(only)", permission.User)}
	check := lineChecker(t, rules, place)
	check(permission.Deny, "git add -A", "git add .", "git add keys", "git add -u", "git commit -am x", "git commit -a -m x",
		"git commit -m x notes.key", "git commit -m x .", "git stash", "git stash push -m x", "git stash -u", "git checkout other",
		"git checkout -f main", "git checkout -- .", "git checkout other -- notes.key", "git switch other", "git merge other",
		"git reset --hard", "git reset --hard other", "git restore .", "git restore -s other notes.key", "git rm -r .",
		"git rm --cached keys/k", "git mv keys k", "git rebase same", "git pull --rebase", "git cherry-pick other",
		"git update-index notes.key", "git read-tree -u -m HEAD same", "cd dir && git add -A", "git -C dir add -A", "git add $F",
		"git add -- ':!dir'", "git checkout-index -fa", "git add -p")
	check(permission.Allow, "git add plain", "git add dir", "git commit -m x", "git commit -m x plain", "git checkout same",
		"git switch same", "git merge same", "git status", "git add -A -- ':!notes.key' ':!keys'", "git stash push plain",
		"git stash list", "git log", "git diff", "git checkout -b new", "git restore plain", "git branch x", "git fetch .",
		"git reset -q", "git commit --amend -m 'a notes.key'", "cd dir && git add .", "git rm --cached plain")
	g.write("repo/only", "mine")
	check(permission.Deny, "git add -u", "git commit -m x only")
}

// TestGitPrintsDenied: what git stores of a file that a rule denies is printed by no command that a rule or nobody's
// question allows, in the sandbox and without one.
func TestGitPrintsDenied(t *testing.T) {
	g := newGitGround(t)
	for name, text := range map[string]string{"notes.key": "MARK", "keys/k": "MARK", "plain": "one", "dir/f": "one"} {
		g.write("repo/"+name, text)
	}
	g.git("repo", "add", ".")
	g.git("repo", "commit", "-qm", "base")
	g.git("repo", "tag", "base")
	g.write("repo/plain", "two")
	g.git("repo", "commit", "-qam", "plain")
	for _, confined := range []bool{true, false} {
		place := permission.PathContext{Dir: g.repo, Home: filepath.Join(g.top, "home"), Git: permission.NewGitSoon(g.repo),
			GitEnv: true, Confined: func() bool { return confined }}
		rules := permission.Rules{Allow: rulesOf(t, "Bash(git:*) | Bash(cd:*)", permission.Flag),
			Deny: rulesOf(t, "Read(*.key) | Read(./keys/**)", permission.User)}
		check := lineChecker(t, rules, place)
		check(permission.Deny, "git log -p", "git show base", "git grep MARK HEAD")
		if !confined {
			break // git is asked a few times for each line
		}
		check(permission.Deny, "git log --pat -3", "git log -U0 -p -- keys", "git --no-pager show HEAD^ --stat -p", "git show 0123abc",
			"git diff base^{tree} HEAD^{tree}", "git reflog -p", "git archive base:keys", "git grep --cached MARK",
			"git cat-file --batch", "git fast-export --all", "cd dir && git log -p", "git log -p dir keys | cat")
		check(permission.Allow, "git log -3 --stat", "git show", "git show -s base", "git diff base HEAD", "git log -p -- dir",
			"git log -p plain", "git log -p -- . ':!keys' ':!*.key'", "git show base -- plain", "git status -v", "git grep MARK HEAD -- dir",
			"git cat-file -p base", "git archive HEAD dir", "git add -A -- ':!keys' ':!*.key'")
	}
}

// TestHardLinks: a file that a rule denies is known under its other names, too, to every tool: a hard link has no
// target.
func TestHardLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes.key", "locked", "plain"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(dir, name), filepath.Join(dir, name+".link")); err != nil {
			t.Skip(err)
		}
	}
	place := permission.PathContext{Dir: dir}
	rules := permission.Rules{Deny: rulesOf(t, "Read(notes.key) | Edit(locked)", permission.User)}
	for _, c := range []struct {
		kind permission.Kind
		name string
		want permission.Verdict
	}{
		{permission.KindRead, "notes.key.link", permission.Deny},
		{permission.KindEdit, "notes.key.link", permission.Deny},
		{permission.KindRead, "locked.link", permission.Allow},
		{permission.KindEdit, "locked.link", permission.Deny},
		{permission.KindRead, "plain.link", permission.Allow},
		{permission.KindEdit, "plain.link", permission.Allow},
	} {
		d := rules.Decide(t.Context(), permission.AcceptEdits, place, permission.Subject{Kind: c.kind, Text: c.name})
		if d.Verdict != c.want {
			t.Errorf("%s %s: %s, want %s: %s", c.kind, c.name, d.Verdict, c.want, explain(d))
		}
		if d.Verdict == permission.Deny && d.Origin != permission.User {
			t.Errorf("%s %s: the rule is of %q", c.kind, c.name, d.Origin)
		}
	}
	closed := rules.Closed(permission.Default, place, permission.Subject{Tool: "grep"})
	for name, want := range map[string]bool{"notes.key": true, "notes.key.link": true, "locked.link": false,
		"plain.link": false} {
		if got := closed(filepath.Join(dir, name)); got != want {
			t.Errorf("%s is closed: %t", name, got)
		}
	}
}

// TestOtherSyntax: a rule that denies or asks also means what it says in the syntax of other programs; one that allows
// does not.
func TestOtherSyntax(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "work")
	for _, name := range []string{"a.key", "a.pem", "sub/k", "open.txt"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	place := permission.PathContext{Dir: dir, Home: top}
	abs := filepath.ToSlash(dir)
	for _, test := range []struct{ pattern, file string }{
		{"**/*.{key,pem}", "a.key"},
		{"*.{key,pem}", "a.pem"},
		{"{a,b}.{key,pem}", "a.pem"},
		{"{a,b}.{key}", "a.key"},
		{"{x,sub}/{a,b,c,d,e,f,g,h,k}{,.key,.pem,.txt}{,~,.bak,.old}", "sub/k"},
		{"@(a|b).{key,pem}", "a.key"},
		{"(sub|x)/k", "sub/k"},
		{"$PWD/a.key", "a.key"},
		{"${CLAUDE_PROJECT_DIR}/sub/k", "sub/k"},
		{abs + "/a.key", "a.key"},
		{abs + "/**", "a.key"},
		{"/" + abs + "//a.key", "a.key"},
		{"//" + abs + "/a.key", "a.key"},
		{"file://" + abs + "/a.key", "a.key"},
		{"../work/a.key", "a.key"},
		{"./sub/../a.key", "a.key"},
		{"sub/./k", "sub/k"},
		{"././a.key", "a.key"},
		{"~/x/../work/a.key", "a.key"},
		{"$HOME/work/a.key", "a.key"},
		{"${HOME}/work/a.key", "a.key"},
		{`"a.key"`, "a.key"},
		{"a.key:*", "a.key"},
		{`.\sub\k`, "sub/k"},
		{`sub\k`, "sub/k"},
		{`sub\*`, "sub/k"},
		{`sub\\k`, "sub/k"},
		{`**\*.key`, "a.key"},
		{"{a..c}.key", "a.key"},
		{"x.pem,*.key", "a.key"},
		{"x.pem; a.key", "a.key"},
		{"x.pem|a.key", "a.key"},
		{"?(a.key)", "a.key"},
		{"+(x|a).key", "a.key"},
		{"[[:alpha:]].key", "a.key"},
		{"a.key:10-20", "a.key"},
		{"a.key#L1", "a.key"},
		{"path:a.key", "a.key"},
		{"file_path:sub/k", "sub/k"},
		{"file://~/work/a.key", "a.key"},
		{"file://localhost" + abs + "/a.key", "a.key"},
		{"$env:USERPROFILE/work/a.key", "a.key"},
		{"${workspaceFolder}/a.key", "a.key"},
		{"x/../sub/y/..", "sub/k"},
	} {
		read := func(name string) permission.Subject {
			return permission.Subject{Kind: permission.KindRead, Text: filepath.Join(dir, filepath.FromSlash(name)),
				Tool: "read"}
		}
		rule := permission.Rule{Tool: "Read", Pattern: test.pattern, Origin: permission.User}
		deny := permission.Rules{Deny: []permission.Rule{rule}}
		if d := deny.Decide(t.Context(), permission.Default, place, read(test.file)); d.Verdict != permission.Deny ||
			d.Rule != rule.String() {
			t.Errorf("%s: %s by %q", rule, d.Verdict, d.Rule)
		}
		if !strings.HasSuffix(test.pattern, "**") {
			if d := deny.Decide(t.Context(), permission.Default, place, read("open.txt")); d.Verdict != permission.Allow {
				t.Errorf("%s: another file: %s", rule, d.Verdict)
			}
		}
		denied, err := deny.DeniedFiles(t.Context(), place)
		if err != nil && !strings.HasSuffix(test.pattern, "**") ||
			err == nil && denied.Covers(filepath.Join(dir, filepath.FromSlash(test.file)), true) != rule.String() {
			t.Errorf("%s: commands: %v, %v", rule, denied.Rules, err)
		}
	}
	wide := permission.Rules{Allow: []permission.Rule{
		{Tool: "Read", Pattern: "../{other,more}/**", Origin: permission.User}}}
	if d := wide.Decide(t.Context(), permission.Default, place, permission.Subject{Kind: permission.KindRead,
		Text: filepath.Join(top, "other", "x"), Tool: "read"}); d.Verdict == permission.Allow {
		t.Error("a rule that allows means more than it says")
	}
}
