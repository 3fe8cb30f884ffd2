package permission_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/knack-agent/knack/confine/permission"
)

// FuzzDecide checks that no command panics or hangs, and that no verdict gets
// weaker when white space, comments or quotes that change nothing are added.
func FuzzDecide(f *testing.F) {
	for _, name := range []string{"ordinary.txt", "attempts.txt"} {
		for i, c := range readCorpus(f, name) {
			if i%7 == 0 {
				f.Add(c.command, uint8(i))
			}
		}
	}
	g := grammar(f)
	for i, p := range g["positions"] {
		f.Add(strings.ReplaceAll(p, "@", g["denied"][i%len(g["denied"])]), uint8(i))
	}
	place := permission.PathContext{Dir: "/w", Roots: []string{"/w"}, Home: "/home/u", GitEnv: true,
		Resolve: func(_ context.Context, p string) (string, error) { return p, nil },
		Glob:    func(string) ([]string, error) { return nil, nil },
		Below:   func(string, int) ([]string, bool) { return nil, true },
	}
	rules := permission.Rules{
		Allow: rulesOf(f, "Bash(ls:*) | Bash(git:*) | Bash(echo:*) | Bash(npm run test:*) | Bash(sudo:*) | Bash(bash:*) | "+
			"Bash(make)", permission.User),
		Deny: rulesOf(f, "Bash(evil:*) | Bash(git push:*) | Read(*.secret)", permission.User),
	}
	rank := map[permission.Verdict]int{permission.Allow: 0, permission.Ask: 1, permission.Deny: 2}
	decide := func(m permission.Mode, s string) permission.Verdict {
		return rules.Decide(context.Background(), m, place, permission.Subject{Kind: "Bash", Text: s}).Verdict
	}
	f.Fuzz(func(t *testing.T, text string, pick uint8) {
		if len(text) > 11_000 {
			return
		}
		was := decide(permission.Default, text)
		decide(permission.Bypass, text)
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
		if err != nil {
			return
		}
		same := []string{"\n" + text, "  \t" + text, "# comment\n" + text}
		if !strings.HasSuffix(text, "\\") && !strings.Contains(text, "<<") {
			same = append(same, text+"\n", text+"\n# comment", text+"\n\n")
		}
		// One plain word in quotes, with more space around.
		var words []*syntax.Lit
		syntax.Walk(file, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Redirect:
				if n.Hdoc != nil { // its offsets are of another kind
					words = nil
					return false
				}
			case *syntax.CmdSubst:
				return !n.Backquotes
			case *syntax.CallExpr:
				for _, w := range n.Args {
					if l, ok := w.Parts[0].(*syntax.Lit); ok && len(w.Parts) == 1 && plainWord(l.Value) &&
						text[l.Pos().Offset():l.End().Offset()] == l.Value {
						words = append(words, l)
					}
				}
			}
			return true
		})
		if len(words) > 0 && !strings.Contains(text, "<<") {
			l := words[int(pick)%len(words)]
			from, to := l.Pos().Offset(), l.End().Offset()
			for _, q := range []string{"'" + l.Value + "'", `"` + l.Value + `"`, " " + l.Value + " ", `""` + l.Value,
				"\t" + l.Value, "\\\n" + l.Value} {
				same = append(same, text[:from]+q+text[to:])
			}
		}
		for _, s := range same {
			if len(s) > 10_000 {
				continue
			}
			if is := decide(permission.Default, s); rank[is] < rank[was] {
				t.Errorf("%v for %q, but %v for %q", was, text, is, s)
			}
		}
	})
}

func plainWord(s string) bool {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '/' || c == '.') {
			return false
		}
	}
	return s != ""
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func BenchmarkTypical(b *testing.B) {
	place := permission.PathContext{Dir: "/tmp/w", Home: "/home/u", GitEnv: true}
	rules := permission.Rules{
		Allow: rulesOf(b, "Bash(go test:*) | Bash(go build:*) | Bash(npm run test:*) | Bash(make:*) | Bash(git commit:*) "+
			"| Read(~/docs/**) | Edit(src/**)", permission.User),
		Deny: rulesOf(b, "Bash(rm -rf:*) | Bash(git push:*) | Read(.env)", permission.User),
	}
	for _, c := range []string{"git status", "go test ./... -run TestX",
		`git commit -m "fix: a; b" && git log --oneline | head -5`} {
		b.Run(strings.Fields(c)[0]+strings.Fields(c)[1], func(b *testing.B) {
			for b.Loop() {
				if d := rules.Decide(b.Context(), permission.Default, place, permission.Subject{Kind: "Bash",
					Text: c}); d.Verdict != permission.Allow {
					b.Fatal(d)
				}
			}
		})
	}
}

func BenchmarkLong(b *testing.B) {
	place := permission.PathContext{Dir: "/tmp/w", Home: "/home/u", GitEnv: true}
	rules := permission.Rules{
		Allow: rulesOf(b, "Bash(go test:*) | Bash(echo * done) | Bash(* --version)", permission.User),
		Deny:  rulesOf(b, "Bash(rm -rf:*) | Bash(* --force *) | Read(.env)", permission.User),
	}
	for name, c := range map[string]string{
		"words":    "go test" + numbered(" ./pkg/x%d", 900),
		"quoted":   "echo '" + strings.Repeat("a b;c ", 1660) + "'",
		"heredoc":  "cat <<'E'\n" + strings.Repeat("some text\n", 990) + "E",
		"files":    "cat" + numbered(" a%d.go", 1120),
		"commands": strings.Repeat("echo "+strings.Repeat("word ", 38)+";", 49),
		"dynamic":  "echo" + strings.Repeat(` "$x"`, 1990),
		"nested":   strings.Repeat("$(", 4000),
		"parens":   strings.Repeat("(", 9000),
		"braces":   "echo " + strings.Repeat("{a,b}", 1990),
		"ticks":    "echo " + strings.Repeat("`", 9900),
	} {
		b.Run(name, func(b *testing.B) {
			if len(c) > 10_000 {
				b.Fatal(len(c))
			}
			for b.Loop() {
				rules.Decide(b.Context(), permission.Default, place, permission.Subject{Kind: "Bash", Text: c})
			}
		})
	}
}

// BenchmarkGit decides a git command in a repository at rest, whose
// configuration is known, and in one that has just changed.
func BenchmarkGit(b *testing.B) {
	if _, err := exec.LookPath("git"); err != nil {
		b.Skip("this benchmark needs git")
	}
	dir := b.TempDir()
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		b.Fatal(err, string(out))
	}
	decide := func(b *testing.B) {
		place := permission.PathContext{Dir: dir, GitEnv: true, Git: permission.NewGit(dir)}
		for b.Loop() {
			permission.Rules{}.Decide(b.Context(), permission.Default, place,
				permission.Subject{Kind: "Bash", Text: "git status"})
		}
	}
	b.Run("changed", decide)
	time.Sleep(2200 * time.Millisecond)
	b.Run("rest", decide)
}
