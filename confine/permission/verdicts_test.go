package permission_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestVerdicts checks the verdict of every command of the corpus in every
// position, and of a few thousand generated ones, under three sets of rules. It
// shows that a refactoring changes no decision. For an intended change, -update
// rewrites testdata/verdicts.txt; each letter is one command:
// a(llow), k (ask) or d(eny).
func TestVerdicts(t *testing.T) {
	const name = "testdata/verdicts.txt"
	place := testWorkspace(t)
	place.Dir = "/w" // independent of the files of this machine and of test directories
	place.Roots, place.Home = []string{"/w"}, "/home/u"
	place.Resolve = func(_ context.Context, p string) (string, error) { return filepath.Clean(p), nil }
	place.Glob = func(string) ([]string, error) { return nil, nil }
	place.Below = func(string, int) ([]string, bool) { return nil, true }
	names := "ls cat grep rg find fd sed awk sort git npm make cargo go pytest python3 node bash sh xargs env timeout " +
		"sudo tar cp rm echo jq curl docker"
	var allow []string
	for _, n := range strings.Fields(names) {
		allow = append(allow, "Bash("+n+":*)")
	}
	careless := rulesOf(t, strings.Join(allow, " | ")+" | Bash(python3 tools/*:*) | Bash(* --version)", permission.User)
	rules := []permission.Rules{
		{}, {Allow: careless},
		{Allow: careless, Deny: rulesOf(t, "Bash(evil:*) | Bash(rm -rf:*) | Bash(git push:*) | Read(*.secret)",
			permission.User),
			Ask: rulesOf(t, "Bash(npm publish:*)", permission.User)},
	}
	var out strings.Builder
	var commands []string
	section := func(title string, list []string) {
		for k, rs := range rules {
			fmt.Fprintf(&out, "%s, rules %d", title, k)
			for i, c := range list {
				if i%100 == 0 {
					out.WriteByte('\n')
				}
				v := rs.Decide(t.Context(), permission.Default, place, permission.Subject{Kind: "Bash", Text: c}).Verdict
				out.WriteByte("kad"[v])
				commands = append(commands, c)
			}
			out.WriteByte('\n')
		}
	}
	for _, file := range []string{"ordinary.txt", "attempts.txt"} {
		var list []string
		for _, c := range readCorpus(t, file) {
			list = append(list, c.command)
		}
		section(file, list)
	}
	g := grammar(t)
	var list []string
	for i, attempt := range append(g["denied"], g["asked"]...) {
		for k, p := range g["positions"] {
			if (i+k)%4 == 0 {
				list = append(list, strings.ReplaceAll(p, "@", attempt))
			}
		}
	}
	section("grammar.txt", list)
	section("generated", generated(3000))
	got := out.String()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	n, bad := 0, 0
	want := strings.Split(string(data), "\n")
	for i, line := range strings.Split(got, "\n") {
		title := strings.Contains(line, " ")
		if i >= len(want) || title && line != want[i] || len(line) != len(want[i]) {
			t.Fatalf("%s:%d is about other commands; use -update", name, i+1)
		}
		for k := range line {
			if title {
				break
			}
			if line[k] != want[i][k] && bad < 20 {
				bad++
				t.Errorf("%s:%d: %q: %c, want %c", name, i+1, commands[n], line[k], want[i][k])
			}
			n++
		}
	}
	t.Logf("%d verdicts", n)
}

// generated builds commands from common parts, the same ones in each run.
func generated(n int) []string {
	r := rand.New(rand.NewPCG(13, 14))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	word := func() string {
		return pick("a.txt", "src", "src/main.go", ".", "..", "/etc/hosts", "~/x", "*.go", "*", "a*", "$x", `"$x"`, "{a,b}",
			"'a b'", "-", "--", "x.secret", ".env",
			"../x", "./x.sh", "tools/x.py", "tools/../x.py", "HEAD", "HEAD~1..", "main", "x=1", "$(ls)", "$(git describe)..HEAD",
			"`id`", "http://h/x", "\\$x", "~u/x", "/tmp/x")
	}
	option := func() string {
		return pick("-n", "-r", "-R", "-l", "-L", "-f", "-c", "-e", "-o", "-p", "-x", "-rf", "-C", "-i", "-u", "-v", "-exec",
			"-delete", "--help", "--version", "--output=x", "--config=x",
			"--prefix=x", "--follow", "--file", "--exec", "--all", "-name", "-m", "--format=%h", "--pre", "-k2", "-n5",
			"--no-pager", "-I{}")
	}
	simple := func() string {
		var b strings.Builder
		for r.IntN(5) == 0 {
			b.WriteString(pick("timeout 5 ", "env ", "env A=1 ", "nice ", "sudo ", "command ", "xargs ", "time ", "nohup ",
				"A=1 ", "LANG=C ", "exec ", "npx ", "! ", "builtin ", "stdbuf -oL "))
		}
		b.WriteString(pick("ls", "cat", "grep", "rg", "find", "fd", "sed", "awk", "sort", "npm", "make", "cargo", "go",
			"pytest", "python3", "node", "bash", "sh", "tar", "cp", "rm", "echo", "jq", "curl",
			"docker", "evil", "git", "git", "git", "./x", "/bin/ls", "diff", "wc", "head", "tee", "test", "printf", "read", "cd",
			"set", "export", "xargs", "eval", "trap", "date", "uniq", "tree", "du", "touch", "ps"))
		if strings.HasSuffix(b.String(), "git") {
			b.WriteString(" " + pick("status", "log", "diff", "show", "push", "branch", "tag", "stash list", "config --get x",
				"grep", "-C src status", "remote -v", "checkout", "submodule foreach evil", "bisect run evil", "rebase",
				"cat-file -p", "x"))
		} else if r.IntN(4) == 0 {
			b.WriteString(" " + pick("run test", "test", "build", "install", "publish", "list", "exec", "'s/a/b/'",
				"'{print $1}'", "-c 'evil x'", "pattern", ".a", "-rf x"))
		}
		for r.IntN(3) > 0 {
			if r.IntN(2) == 0 {
				b.WriteString(" " + option())
			} else {
				b.WriteString(" " + word())
			}
		}
		if r.IntN(6) == 0 {
			b.WriteString(" " + pick("> x", ">> /tmp/x", "2>&1", "< a.txt", "2>/dev/null", "> .git/config", "&> $x", "<<< 'a'",
				"< x.secret"))
		}
		return b.String()
	}
	var out []string
	for range n {
		c := simple()
		for r.IntN(3) == 0 {
			c += pick(" && ", " | ", "; ", " || ", "\n", " & ") + simple()
		}
		switch r.IntN(12) {
		case 0:
			c = "(" + c + ")"
		case 1:
			c = "for x in a b; do " + c + "; done"
		case 2:
			c = `echo "$(` + c + `)"`
		case 3:
			c = "if " + c + "; then " + simple() + "; fi"
		case 4:
			c = "f() { " + c + "; }; f"
		case 5:
			c = "x=src; " + c
		case 6:
			c = "bash -c '" + strings.ReplaceAll(c, "'", `'\''`) + "'"
		}
		out = append(out, c)
	}
	return out
}
